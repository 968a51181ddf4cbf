"""Purges, walks and erasures meet everything else in any order, and nobody waits in a circle."""

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from app.domain.ids import IdFactory
from app.engine.database import open_pool
from app.engine.erase import Conversation, erase
from app.engine.purge import Windows
from tests.database import Clock, options_for
from tests.engine.invariants import broken
from tests.engine.stories import DEAD, DELIVERED, UNKNOWN, Sink, arrival, draft, returning, sealing
from tests.engine.test_deadlocks import DEADLOCKS, LOOK_FOR_DEADLOCKS_AT_ONCE
from tests.engine.walks import expire_all, purge_turns

if TYPE_CHECKING:
    from uuid import UUID

    from tests.database import Admin

ROUNDS = 12
TURNS = 12
LANES = 4
VERDICTS = (DELIVERED, DELIVERED, DEAD, UNKNOWN)
# Whatever has ended is over.
AT_ONCE = Windows(turns_seconds=0.0, failed_seconds=0.0, tombstone_seconds=5.0, key_seconds=10.0)


async def _accept(sink: Sink, round_: int, *, backwards: bool) -> None:
    arrivals = [arrival(f"{round_ % 3}-{n}", f"c{n % LANES}") for n in range(TURNS)]
    await sink.accept(*(reversed(arrivals) if backwards else arrivals))


async def _work(sink: Sink) -> "list[UUID]":
    """Run what there is to its ends; returns the turns."""
    held = await sink.claim(TURNS)
    some, rest = held[::4], [one for n, one in enumerate(held) if n % 4]
    await sink.release(*(returning(one, final=True) for one in some))
    await sink.seal(*(sealing(one, draft("1", one.conversation), draft("2")) for one in rest))
    taken = await sink.take(TURNS)
    pairs = [(one, VERDICTS[n % len(VERDICTS)]) for n, one in enumerate(taken)]
    await sink.settle(*((o, UNKNOWN if v is DEAD and o.may_have_arrived else v) for o, v in pairs))
    return [one.turn for one in held]


async def _erase(sink: Sink) -> None:
    await erase(
        sink.pool,
        Conversation("default", "c1", is_open=True),
        windows=AT_ONCE,
        cancel=True,
        by="ada",
    )


@pytest.mark.timeout(120)
async def test_purges_and_erasures_at_once_with_everything_never_deadlock(
    database_url: str, admin: "Admin", ids: IdFactory
) -> None:
    await admin.execute(LOOK_FOR_DEADLOCKS_AT_ONCE)
    clock = Clock(admin)
    options = options_for(database_url, pool_max=8)
    async with (
        open_pool(options, application_name="here") as pool,
        open_pool(options, application_name="there") as other_pool,
    ):
        here, there = Sink(pool, ids, random.Random(1)), Sink(other_pool, ids, random.Random(2))
        for round_ in range(ROUNDS):
            await _accept(here, round_, backwards=False)
            turns = await _work(here)
            verbs = (
                purge_turns(here.pool, windows=AT_ONCE, rows_max=4),
                purge_turns(there.pool, windows=AT_ONCE, rows_max=7),
                expire_all(here.pool),
                expire_all(there.pool),
                _erase(here),
                _erase(there),
                _accept(here, round_ + 1, backwards=False),
                _accept(there, round_ + 1, backwards=True),
                here.redrive(*turns),
                there.cancel(*reversed(turns)),
                _work(there),
            )
            async with asyncio.TaskGroup() as group:
                for verb in verbs:
                    group.create_task(verb)
            await clock.travel(6)
    assert await admin.fetchval(DEADLOCKS) == 0
    assert await broken(admin) == {}
    assert await admin.fetchval("select count(*) from sink.tombstone") > 0
