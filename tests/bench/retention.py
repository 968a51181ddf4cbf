"""The purge of many finished turns while others go on: how fast, at what cost to them, and what is left of the tables.

Run as `python -m tests.bench.retention --turns 2000000`. It brings a durable Postgres of its own in a temporary folder.
Each line that it prints is JSON. Traffic with and without the purge takes turns, so that whatever else the machine does
falls on both.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
from pydantic import SecretStr

from app.core import open_core
from app.dev.binaries import find_binaries
from app.dev.postgres import EmbeddedPostgres
from app.engine import schema
from app.settings import Destination, Retention, Settings
from app.workers.purger import Purger
from tests.bench.past import load
from tests.engine.stories import DELIVERED, Sink, arrival, draft, sealing

if TYPE_CHECKING:
    from tests.database import Admin

ACCEPTS_A_SECOND = 40
KINDS = ("turn", "inbound", "attempt", "message", "event", "idempotency_key", "tombstone")
OLD = "select count(*) from sink.turn where created_at < sink.now() - interval '50 days'"
SIZES = """
    select relname as name, pg_total_relation_size(oid) as bytes, n_live_tup as rows
    from pg_class inner join pg_stat_user_tables using (relname)
    where relnamespace = 'sink'::regnamespace and relkind = 'r' and pg_total_relation_size(oid) > 1048576
    order by 2 desc
"""


@dataclass(slots=True)
class Traffic:
    """Turns that are accepted, run, sealed and delivered at a steady, light pace; times in seconds."""

    made: int = 0
    accepts: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)

    async def run(self, sink: Sink, stop: asyncio.Event) -> None:
        """Go on until told to stop. A turn that is late does not hold up the next."""
        async with asyncio.TaskGroup() as group:
            due = time.monotonic()
            while not stop.is_set():
                self.made += 1
                group.create_task(self._turn(sink, self.made))
                due += 1 / ACCEPTS_A_SECOND
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _turn(self, sink: Sink, n: int) -> None:
        began = time.monotonic()
        await sink.accept(arrival(f"live-{began}-{n}", f"live-{n % 50}"))
        self.accepts.append(time.monotonic() - began)
        for held in await sink.claim(5):
            await sink.seal(sealing(held, draft("hello", held.conversation)))
        taken = await sink.take(5)
        await sink.settle(*((one, DELIVERED) for one in taken))
        self.turns.append(time.monotonic() - began)

    def percentiles(self) -> dict[str, float]:
        """In milliseconds."""
        found: dict[str, float] = {}
        for name, seconds in (("accept", self.accepts), ("turn", self.turns)):
            cuts = statistics.quantiles(seconds, n=100)
            found |= {f"{name}_ms_p{n}": round(cuts[n - 1] * 1000, 2) for n in (50, 99)}
        return found


@dataclass(slots=True)
class Stretch:
    """What one way of purging came to, over all rounds."""

    name: str
    share: float | None
    traffic: Traffic = field(default_factory=Traffic)
    seconds: float = 0.0
    purged: Counter[str] = field(default_factory=Counter)

    async def go_on(self, url: str, *, seconds: float, batch: int) -> None:
        """Traffic for so long, or until a walk of the purger has come to its end."""
        retention = Retention(share_max=self.share or 1.0, batch_max=batch)
        settings = Settings(
            database_url=SecretStr(url),
            destinations={"crm": Destination(kind="loopback")},
            retention=retention,
        )
        async with open_core(settings, application_name="sinksweep-bench") as core:
            stop, began, rest = asyncio.Event(), time.monotonic(), 0.0
            purger = Purger(core)
            async with asyncio.TaskGroup() as group:
                sink = Sink(core.pool, core.ids, core.jitter)
                group.create_task(self.traffic.run(sink, stop))
                while time.monotonic() - began < seconds:
                    rest = await purger.tick() if self.share else 0.1
                    if rest >= retention.interval_seconds:
                        break
                    await asyncio.sleep(rest)
                self.seconds += time.monotonic() - began
                stop.set()
            for kind in KINDS:
                self.purged[kind] += int(core.metrics.purged.labels(kind)._value.get())  # noqa: SLF001

    def told(self) -> dict[str, Any]:
        """In figures."""
        return {
            "stretch": self.name,
            "seconds": round(self.seconds, 1),
            "share_max": self.share,
            "accepts": len(self.traffic.accepts),
            **self.traffic.percentiles(),
            "turns_purged": self.purged["turn"],
            "turns_per_second": round(self.purged["turn"] / self.seconds),
            "rows_per_second": round(self.purged.total() / self.seconds),
        }


@contextlib.asynccontextmanager
async def _database(folder: Path) -> AsyncIterator[str]:
    async with EmbeddedPostgres.open(folder, binaries=find_binaries()) as postgres:
        await schema.upgrade(postgres.url)
        yield postgres.url


async def _sizes(admin: "Admin") -> dict[str, str]:
    await admin.execute("analyze")
    return {
        row["name"]: f"{row['bytes'] / 1e6:.0f} MB, {row['rows']} rows"
        for row in await admin.fetch(SIZES)
    }


async def run(arguments: argparse.Namespace, folder: Path) -> None:
    """Load; measure without and with a purge by turns; then purge what is left, and tell what that leaves."""
    async with _database(folder) as url:
        admin = await asyncpg.connect(url)
        began = time.monotonic()
        if not await admin.fetchval("select exists (select from sink.turn)"):
            await load(admin, turns=arguments.turns)
            _tell({"loaded_turns": arguments.turns, "seconds": round(time.monotonic() - began, 1)})
        _tell({"old_turns": await admin.fetchval(OLD), "sizes_before": await _sizes(admin)})
        quiet = Stretch("no purge", None)
        gentle = Stretch("purge at its default share", Retention().share_max)
        full = Stretch("purge without rest", 1.0)
        for _ in range(arguments.rounds):
            for stretch in (quiet, gentle, full):
                await stretch.go_on(url, seconds=arguments.seconds, batch=arguments.batch)
        _tell(quiet.told())
        for stretch in (gentle, full):
            _tell(stretch.told() | _ratios(stretch.traffic, quiet.traffic))
        rest = Stretch("purge without rest, to the end", 1.0)
        await rest.go_on(url, seconds=arguments.purge_seconds_max, batch=arguments.batch)
        _tell(rest.told())
        _tell({"old_turns": await admin.fetchval(OLD), "sizes_after": await _sizes(admin)})
        await admin.execute("vacuum")
        _tell({"sizes_after_vacuum": await _sizes(admin)})
        await admin.close()


def _ratios(busy: Traffic, quiet: Traffic) -> dict[str, float]:
    before = quiet.percentiles()
    return {f"{name}_ratio": round(ms / before[name], 2) for name, ms in busy.percentiles().items()}


def _tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    """Read the arguments, and clean up behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each stretch of a round")
    parser.add_argument("--batch", type=int, default=Retention().batch_max)
    parser.add_argument("--purge-seconds-max", type=float, default=7200.0)
    parser.add_argument("--folder", type=Path, help="kept, and not loaded again; else a new one")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="sinksweep-retention-"))
    try:
        asyncio.run(run(arguments, folder))
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
