"""A side of the comparison: started for a measure on a database of its own, and ended with it.

Postgres, load and receiver are the same for all. A peer is two processes, front and worker; Sinksweep is one service
with every role, and its agents are a process of their own, as its users' are.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import asyncpg

from tests.bench.engine import backlog, core_on
from tests.bench.stage import Script, Stage, script

Json = dict[str, Any]
AGENTS = 32
READY_SECONDS_MAX = 30.0
FINISH_SECONDS_MAX = 60.0
POLL_SECONDS = 0.02
REMAINING = "select count(*) from sink.turn where state <> 'replied'"

Starts = Callable[[int], Awaitable[Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Running:
    """A side that runs. `turns` and `notes` tell the load where to go, `pids` are its processes."""

    turns: Json
    notes: Json
    pids: Sequence[int]
    finished: Callable[[], Awaitable[None]]
    starts: Starts


class Side(Protocol):
    """Who is measured. `backlog`: sends that are left before a drain, about two seconds of its work."""

    @property
    def name(self) -> str: ...

    @property
    def backlog(self) -> int: ...

    def accepting(self) -> AbstractAsyncContextManager[Running]:
        """Takes requests; nobody works off what they leave."""
        ...

    def living(self) -> AbstractAsyncContextManager[Running]:
        """Takes requests, and works them off."""
        ...

    def draining(self, count: int) -> AbstractAsyncContextManager[Running] | None:
        """Begins to send what was left before; None where nothing can wait for a worker."""
        ...


async def load(stage: Stage, where: Json, **task: object) -> Json:
    """Send requests as `load.py` says; all of them are accepted."""
    async with script("load", stage.folder) as process:
        told: Json = await process.ask(json.dumps({"host": "127.0.0.1", **where, **task}))
    assert told["accepted"], told
    assert not told["refused"], told
    return told


async def until_none(url: str, remaining: str) -> None:
    """Wait until a database has nothing left to do."""
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(FINISH_SECONDS_MAX):
            while await connection.fetchval(remaining):
                await asyncio.sleep(POLL_SECONDS)
    finally:
        await connection.close()


async def reachable(port: int) -> None:
    """Wait until something listens there."""
    async with asyncio.timeout(READY_SECONDS_MAX):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(POLL_SECONDS)
            else:
                writer.close()
                await writer.wait_closed()
                return


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def postgres_parts(url: str) -> Json:
    """Where a database is, for programs that want it in pieces."""
    parts = urlsplit(url)
    (host,) = parse_qs(parts.query)["host"]
    return {"database_url": url, "host": host, "database": parts.path.removeprefix("/")}


@dataclass(slots=True)
class Ours:
    """Sinksweep as it is served: keys, signatures, limits and metrics on."""

    stage: Stage
    folder: Path
    name: str = "Sinksweep"
    backlog: int = 8000

    @asynccontextmanager
    async def accepting(self) -> AsyncIterator[Running]:
        async with self.stage.database() as url, self.stage.service(url) as service:
            yield self._running(service, url, _nobody)

    @asynccontextmanager
    async def living(self) -> AsyncIterator[Running]:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(self.stage.database())
            service = await stack.enter_async_context(self.stage.service(url))
            task = {"agents": AGENTS, "turns_max": 4, "messages": 3}
            agents = await stack.enter_async_context(self.stage.agents(service, **task))
            yield self._running(service, url, _noted_by(agents))

    @asynccontextmanager
    async def draining(self, count: int) -> AsyncIterator[Running]:
        async with self.stage.database() as url:
            async with core_on(url, concurrency=1) as core:
                await backlog(core, count)
            async with self.stage.service(url, roles="deliver") as service:
                yield self._running(service, url, _nobody)

    def _running(self, service: Any, url: str, starts: Starts) -> Running:
        where = {"port": urlsplit(service.url).port, "key": self.stage.key}
        return Running(
            turns=where,
            notes={**where, "stamp": True},
            pids=[service.pid],
            finished=lambda: until_none(url, REMAINING),
            starts=starts,
        )


def _noted_by(agents: Script) -> Starts:
    async def starts(count: int) -> Sequence[float]:
        return [float(await agents.hear()) for _ in range(count)]

    return starts


async def _nobody(_count: int) -> Sequence[float]:
    return ()
