"""What one turn costs the database, verb by verb: processor time of the backend, pages, WAL.

One session runs whole lifecycles in batches, and every eighth of them another one, which tells the pages it read.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import asyncpg

from app.domain.ids import IdFactory
from app.domain.model import Arrival
from app.engine.database import session_settings
from tests.bench.agents import SAID
from tests.bench.figures import Figures
from tests.bench.load import BODY
from tests.database import options_for
from tests.engine.plans import EXPLAIN, seen
from tests.engine.stories import DELIVERED, Sink, arrival, draft, sealing
from tests.engine.suspense import OneSession

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

BATCH = 50
MESSAGES = 3
TAKE = 128
EXPLAINED_EVERY = 8
VERBS = ("accept", "claim", "seal", "take", "settle")
IDS = IdFactory(milliseconds=lambda: time.time_ns() // 1_000_000, random_bytes=os.urandom)
WAL = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8"

Given = TypeVar("Given", bound=Sized)


def cpu_us(pid: int) -> float:
    """The processor time that a process has had, in microseconds (Linux)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e3


def new_conversations() -> Iterator[str]:
    """One after the other, never the same."""
    name = os.urandom(4).hex()
    n = 0
    while True:
        n += 1
        yield f"{name}-{n}"


@dataclass(slots=True)
class Costs:
    """What lifecycles have cost, by verb: of a turn for the first three, of a message for the others."""

    us: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    pages: Counter[str] = field(default_factory=Counter)
    pages_rows: Counter[str] = field(default_factory=Counter)
    wal_bytes: float = 0.0

    @property
    def turns(self) -> int:
        """How many turns were accepted."""
        return self.rows["accept"]

    def tell(self, figures: Figures, where: str) -> None:
        """As figures; `where` says behind or beside what."""
        for verb in VERBS:
            if self.rows[verb]:
                figures.add(f"{verb}, {where}", "us", self.us[verb] / self.rows[verb])
            if self.pages_rows[verb]:
                pages = self.pages[verb] / self.pages_rows[verb]
                figures.add(f"pages of {verb}, {where}", "", pages)
        # Where turns were accepted that nobody could claim yet, there is no whole one.
        if self.turns and self.rows["seal"] == self.turns:
            figures.add(f"whole turn, {where}", "us", self.us.total() / self.turns)
            wal = self.wal_bytes / self.turns
            figures.add(f"WAL of a turn with its full pages, {where}", "bytes", wal)


class Lifecycles:
    """Whole lifecycles over two sessions of one database."""

    def __init__(self, plain: "Link", telling: "Link", pid: int) -> None:
        self._plain, self._telling, self._pid = plain, telling, pid
        self._pages = 0

    def hear(self, _connection: object, message: Any) -> None:
        """Count the pages of a plan that the telling session tells."""
        if "plan:" in message.message:
            plan = json.loads(message.message.partition("plan:")[2])
            self._pages += seen(plan["Plan"]).buffers

    async def run(
        self,
        *,
        seconds: float,
        conversations: Iterator[str] | None = None,
        keys: Iterator[str] | None = None,
        accepts: bool = True,
    ) -> Costs:
        """Go on for so long, at least twice; `keys` that were there before only cost their accept."""
        costs, until, n = Costs(), time.monotonic() + seconds, 0
        names = conversations or new_conversations()
        fresh = keys or new_conversations()
        before = await self._plain.fetchval(WAL)
        while n < 2 or time.monotonic() < until:
            arrivals = [self._arrival(next(fresh), next(names)) for _ in range(BATCH)]
            await self._cycle(costs, arrivals if accepts else [], telling=n % EXPLAINED_EVERY == 1)
            n += 1
        costs.wal_bytes = float(await self._plain.fetchval(WAL) - before)
        told = costs.pages_rows["accept"] or costs.pages_rows["claim"]
        # The telling session has written some of it.
        costs.wal_bytes *= costs.turns / (costs.turns + told) if costs.turns else 1.0
        return costs

    @staticmethod
    def _arrival(key: str, conversation: str) -> Arrival:
        return arrival(key, conversation, body=f'{{"text":"{BODY}"}}'.encode())

    async def _cycle(self, costs: Costs, arrivals: list[Arrival], *, telling: bool) -> None:
        link = self._telling if telling else self._plain
        sink = Sink(cast("Pool", OneSession(link)), IDS, random.Random(0))

        async def timed(verb: str, call: Callable[[], Awaitable[Given]]) -> Given:
            self._pages, began = 0, cpu_us(self._pid)
            given = await call()
            if telling:
                costs.pages[verb] += self._pages
                costs.pages_rows[verb] += len(given)
            else:
                costs.us[verb] += cpu_us(self._pid) - began  # type: ignore[assignment]
                costs.rows[verb] += len(given)
            return given

        if arrivals:
            await timed("accept", lambda: sink.accept(*arrivals))
        held = await timed("claim", lambda: sink.claim(BATCH))
        if not held:
            return
        sets = [
            sealing(one, *(draft(f"{SAID} {n}", one.conversation) for n in range(MESSAGES)))
            for one in held
        ]
        await timed("seal", lambda: sink.seal(*sets))
        while taken := await timed("take", lambda: sink.take(TAKE)):
            ended = [(one, DELIVERED) for one in taken]
            await timed("settle", lambda ended=ended: sink.settle(*ended))  # type: ignore[misc]


@asynccontextmanager
async def open_lifecycles(url: str) -> AsyncIterator[Lifecycles]:
    """Two sessions as the service has them."""
    settings = session_settings(options_for(url), application_name="bench")
    plain = await asyncpg.connect(url, server_settings=settings)
    del settings["role"]  # the library is loaded before it is taken on
    telling = await asyncpg.connect(url, server_settings=settings)
    try:
        await telling.execute(EXPLAIN)
        pid = await plain.fetchval("select pg_backend_pid()")
        lifecycles = Lifecycles(cast("Link", plain), cast("Link", telling), pid)
        telling.add_log_listener(lifecycles.hear)
        await lifecycles.run(seconds=0.0)
        yield lifecycles
    finally:
        for link in (plain, telling):
            await link.close()
