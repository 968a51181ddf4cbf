"""The limit: pgbench running our own statements, as the service sends them, with new keys and ids each time.

A script is made from a call that is really made: its statements and their values are taken down on the way, and what
has to be new for each transaction is replaced. So nothing here has to follow when a statement changes.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from app.dev.binaries import Binaries
from app.dev.child import CHILD_ENVIRONMENT
from app.domain.ids import IdFactory
from app.domain.model import Arrival
from app.engine.accept import accept

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

DAY_SECONDS = 86_400
# A session as the service has it.
_OPTIONS = "-c search_path=pg_catalog -c jit=off -c plan_cache_mode=force_generic_plan -c enable_seqscan=off"
_TPS = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
_FAILED = re.compile(r"number of failed transactions: (\d+)")
_SLACK_SECONDS = 20.0


@dataclass(slots=True)
class TakenDown:
    """A pool of one connection that takes down every statement with its values."""

    link: "Link"
    sent: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)

    async def acquire(self, *, timeout: float) -> "TakenDown":  # noqa: ARG002, ASYNC109
        return self

    async def release(self, _link: object) -> None:
        pass

    async def fetch(self, text: str, *values: object) -> object:
        self.sent.append((text, values))
        return await self.link.fetch(text, *values)

    async def execute(self, text: str, *values: object) -> object:
        self.sent.append((text, values))
        return await self.link.execute(text, *values)


async def accept_script(
    pool: "Pool", arrivals: Sequence[Arrival], *, ids: IdFactory, server: int
) -> str:
    """The script of one accept of all of these; their keys and conversations are new each time."""
    async with pool.acquire(timeout=5.0) as connection:
        taken = TakenDown(connection)
        await accept(cast("Pool", taken), arrivals, ids=ids, key_seconds=30 * DAY_SECONDS)
    new = {arrival.key: f"'k' || :n || '-{n}'" for n, arrival in enumerate(arrivals)}
    lines = ["\\set n random(1, 9000000000000000000)"]
    lines += [_spelled(text, values, new, server=server) + ";" for text, values in taken.sent]
    return "\n".join(lines) + "\n"


def _spelled(text: str, values: Sequence[object], new: dict[str, str], *, server: int) -> str:
    """A statement with its values in it; ids are made by the server.

    What is new each time is made once, in a step before the others: the statement may look at it more than once.
    """
    mint = "uuidv7()" if server >= 18 else "gen_random_uuid()"  # the first that has it
    spelled = [_literal(value, new, mint) for value in values]
    made = {
        f"p{n}": one
        for n, one in enumerate(spelled)
        if mint in one or any(v in one for v in new.values())
    }
    for name in made:
        spelled[int(name[1:])] = f"(select made.{name} from made)"
    text = re.sub(r"\$(\d+)", lambda match: spelled[int(match[1]) - 1], text.strip())
    columns = ", ".join(f"{one} as {name}" for name, one in made.items())
    first, rest = f"with made as materialized (select {columns})", text.removeprefix("with ")
    return f"{first}, {rest}" if rest != text else f"{first} {text}"


def _literal(value: object, new: dict[str, str], mint: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case bytes():
            return f"'\\x{value.hex()}'::bytea"
        case UUID():
            return mint
        case datetime():
            return f"'{value.isoformat()}'::timestamptz"
        case str():
            quoted = value.replace("'", "''")
            return f"({new[value]})" if value in new else f"'{quoted}'"
        case list():
            return f"array[{', '.join(_literal(one, new, mint) for one in value)}]"
        case _:
            message = f"no way to spell {type(value).__name__}"
            raise TypeError(message)


async def run_script(
    script: Path, *, url: str, binaries: Binaries, clients: int, seconds: float
) -> float:
    """Transactions a second of so many clients, each over a session of its own with prepared statements."""
    parts = urlsplit(url)
    (sockets,) = parse_qs(parts.query)["host"]
    threads = min(clients, os.cpu_count() or 1)
    command = [
        *(str(binaries.folder / "pgbench"), "-n", "-M", "prepared", "-f", str(script)),
        *("-c", str(clients), "-j", str(threads), "-T", str(max(1, round(seconds)))),
        *("-h", sockets, "-p", "5432", "-U", "postgres", parts.path.removeprefix("/")),
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**CHILD_ENVIRONMENT, "PGOPTIONS": _OPTIONS},
    )
    try:
        async with asyncio.timeout(seconds + _SLACK_SECONDS):
            said = (await process.communicate())[0].decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found, failed = _TPS.search(said), _FAILED.search(said)
    assert found, said
    assert failed is None or failed[1] == "0", said
    return float(found[1])
