"""What a turn costs as the database grows: behind finished turns, beside backlogs, while a transaction is held open.

Each scenario has a database of its own for every extent, and measures the same lifecycles in all of them in turn.
"""

import contextlib
import os
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

import asyncpg

from tests.bench.costs import BATCH, Costs, open_lifecycles
from tests.bench.engine import lifecycles_per_second
from tests.bench.extent import Extent, Scenario
from tests.bench.figures import Figures
from tests.bench.past import CONVERSATIONS, load_without_indexes
from tests.bench.stage import Stage
from tests.engine.crowds import crowd_lanes

if TYPE_CHECKING:
    from tests.database import Admin

# Of the one conversation that is deeper than all others.
DEEP = 10_000
DEPTH = 5
# Places among which keys without order fall, where fewer turns are.
SCATTERED = 1_000_000
SIZE = "select pg_database_size(current_database())"
BUFFERS = "select setting::bigint * 8192 from pg_settings where name = 'shared_buffers'"
READ = "select blks_read, blks_hit from pg_stat_database where datname = current_database()"
FLUSH = "select pg_stat_force_next_flush()"


@asynccontextmanager
async def _superuser(url: str) -> "AsyncIterator[Admin]":
    admin = await asyncpg.connect(url)
    try:
        yield admin
    finally:
        await admin.close()


async def growth(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Behind so many finished turns: a turn's cost, and what the finished ones take of the disk."""
    for turns in extent.finished:
        async with stage.database() as url, _superuser(url) as admin:
            before = await admin.fetchval(SIZE)
            if turns:
                await load_without_indexes(admin, turns=turns)
                size = await admin.fetchval(SIZE) - before
                figures.add(f"disk of a finished turn, of {turns:,}", "bytes", size / turns)
            async with open_lifecycles(url) as lifecycles:
                costs = await lifecycles.run(seconds=extent.seconds)
                keys = _scattered_keys(turns)
                scattered = await lifecycles.run(seconds=extent.seconds, keys=keys)
            costs.tell(figures, f"behind {turns:,} finished turns")
            each = scattered.us["accept"] / scattered.rows["accept"]
            figures.add(
                f"accept of keys without order, behind {turns:,} finished turns", "us", each
            )


async def lanes(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Conversations with backlogs: many of them, and one that is deep. Accepts go to their ends."""
    crowds = {
        f"of {extent.crowd:,} conversations that wait": (extent.crowd, DEPTH),
        f"of one with {min(DEEP, extent.crowd):,} that wait": (1, min(DEEP, extent.crowd)),
    }
    for where, (conversations, depth) in crowds.items():
        async with stage.database() as url, _superuser(url) as admin:
            await crowd_lanes(admin, conversations=conversations, depth=depth)
            async with open_lifecycles(url) as lifecycles:
                names = _among(conversations, "w")
                costs = await lifecycles.run(seconds=extent.seconds, conversations=names)
            costs.tell(figures, where)


def _among(conversations: int, prefix: str) -> Iterator[str]:
    chance = random.Random(0)
    while True:
        yield f"{prefix}{chance.randrange(conversations)}"


async def snapshot(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Whole lifecycles with a transaction held open all the while, beside the same without."""
    rates: list[float] = []
    for is_held in (False, True):
        async with stage.database() as url, contextlib.AsyncExitStack() as stack:
            if is_held:
                holder = await stack.enter_async_context(_superuser(url))
                await holder.execute("begin isolation level repeatable read")
                await holder.fetchval("select count(*) from sink.turn")
            rates.append(
                await lifecycles_per_second(
                    url, seconds=extent.long_seconds, concurrency=stage.concurrency
                )
            )
            async with open_lifecycles(url) as lifecycles:
                costs = await lifecycles.run(seconds=extent.seconds)
            costs.tell(figures, "behind a held transaction" if is_held else "without one")
    free, held = rates
    name = f"lifecycles, a transaction held open for {extent.long_seconds:.0f} s"
    figures.add(name, "/s", held, limit=free, limit_name="without it")


async def cold(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Data far larger than shared buffers: conversations and keys of any age, so that every call reads old pages."""
    turns = max(extent.finished)
    async with stage.database() as url, _superuser(url) as admin:
        await load_without_indexes(admin, turns=turns)
        size, buffers = await admin.fetchval(SIZE), await admin.fetchval(BUFFERS)
        figures.add("data beside shared buffers", "times", size / buffers)
        async with open_lifecycles(url) as lifecycles:
            warm = await lifecycles.run(seconds=extent.seconds)
            old = _among(min(turns, CONVERSATIONS), "p")
            await admin.execute(FLUSH)
            before = await admin.fetchrow(READ)
            worn = await lifecycles.run(seconds=extent.seconds, conversations=old)
            keys = _past_keys(turns)
            again = await lifecycles.run(seconds=extent.seconds, keys=keys)
            after = await admin.fetchrow(READ)
        _read(figures, before, after, worn)
        warm.tell(figures, "new conversations, data larger than buffers")
        worn.tell(figures, "old conversations, data larger than buffers")
        known = again.us["accept"] / again.rows["accept"]
        figures.add("accept of a key known for long, data larger than buffers", "us", known)


def _scattered_keys(turns: int) -> Iterator[str]:
    """New ones, each beside another old one in the index, as those of senders that count nothing."""
    chance, name = random.Random(0), os.urandom(4).hex()
    for n in count():
        yield f"past-{chance.randrange(1, max(turns, SCATTERED) + 1)}-{name}-{n}"


def _past_keys(turns: int) -> Iterator[str]:
    chance = random.Random(0)
    while True:
        yield f"past-{chance.randrange(1, turns + 1)}"


def _read(
    figures: Figures,
    before: "asyncpg.Record | None",
    after: "asyncpg.Record | None",
    costs: Costs,
) -> None:
    assert before is not None
    assert after is not None
    read = after["blks_read"] - before["blks_read"]
    pages = max(read, 1) / max(costs.turns, BATCH)
    figures.add("pages read past the buffers for a turn", "", pages)


GROWING: Mapping[str, Scenario] = {
    "growth": growth,
    "lanes": lanes,
    "snapshot": snapshot,
    "cold": cold,
}
