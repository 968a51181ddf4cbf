"""Replicas that do the same work in opposite order wait for each other, and never in a circle."""

import asyncio
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from app.domain.ids import IdFactory
from app.domain.model import Claimed, SealRequest, Taken, Verdict
from app.engine.database import open_pool
from tests.database import Clock, options_for
from tests.engine.invariants import broken
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    UNKNOWN,
    Sink,
    arrival,
    draft,
    returning,
    sealing,
    short,
)

if TYPE_CHECKING:
    from tests.database import Admin

ROUNDS = 25
TURNS = 16
LANES = 5
# More than anybody waits here.
LOCK_WAIT_MS = 5_000
VERDICTS = (DELIVERED, DELIVERED, DEAD, UNKNOWN)

LOOK_FOR_DEADLOCKS_AT_ONCE = """
    do $$ begin
        execute format('alter database %I set deadlock_timeout = ''5ms''', current_database());
    end $$
"""
DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


async def _at_once(*verbs: Coroutine[Any, Any, Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(verb) for verb in verbs]
    return [task.result() for task in tasks]


async def _accept_twice(here: Sink, there: Sink, name: str) -> None:
    arrivals = [
        arrival(
            f"{name}-{n}",
            f"c{n % LANES}" if n % 2 else None,
            delay_seconds=0.001 if n % 5 == 0 else 0.0,
        )
        for n in range(TURNS)
    ]
    joining = [short(f"{name}-j{n}", f"c{n % LANES}") for n in range(TURNS)]
    await _at_once(
        here.accept(*arrivals),
        # As what several clients asked for goes: in a transaction with a beginning and an end.
        there.accept(*reversed(arrivals), lock_wait_ms=LOCK_WAIT_MS),
        here.accept(*joining),
        there.accept(*reversed(joining)),
    )


async def _claim_all(here: Sink, there: Sink) -> list[Claimed]:
    mine, yours = await _at_once(here.claim(TURNS), there.claim(TURNS))
    return [*mine, *yours]


def _sets(held: list[Claimed]) -> list[SealRequest]:
    return [
        sealing(
            one,
            draft("1", one.conversation),
            draft("2", one.conversation, destination="chat"),
            draft("3", one.conversation),
        )
        for one in held
    ]


async def _take_all(here: Sink, there: Sink) -> list[Taken]:
    batches = await _at_once(
        here.take(), there.take(destination="chat"), there.take(), here.take(destination="chat")
    )
    return [one for batch in batches for one in batch]


def _verdict(taken: Taken, n: int) -> Verdict:
    """What has perhaps arrived before is never called dead."""
    verdict = VERDICTS[n % len(VERDICTS)]
    return UNKNOWN if verdict is DEAD and taken.may_have_arrived else verdict


async def _meet(here: Sink, there: Sink, clock: Clock, round_: int) -> None:
    """Both replicas do everything to the same rows at the same time, one of them backwards."""
    await _accept_twice(here, there, f"{round_}-first")
    held = await _claim_all(here, there)
    turns = [one.turn for one in held]
    some = turns[::4]
    if round_ % 2:
        await clock.travel(61)
    await _at_once(
        here.seal(*_sets(held)),
        there.seal(*reversed(_sets(held)), lock_wait_ms=LOCK_WAIT_MS),
        there.release(*[returning(one, failed=True) for one in reversed(held[::2])]),
        here.release(*[returning(one) for one in held[::2]]),
        _accept_twice(here, there, f"{round_}-second"),
        here.renew(*held),
        there.renew(*reversed(held)),
        there.sweep_turns(),
        here.sweep_turns(),
        here.due(),
        there.due(),
        here.cancel(*some),
        there.cancel(*reversed(some)),
        here.redrive(*turns),
        there.redrive(*reversed(turns)),
    )
    taken = await _take_all(here, there)
    pairs = [(one, _verdict(one, n)) for n, one in enumerate(taken)]
    messages = [one.message for one in taken]
    again = await _claim_all(here, there)
    if round_ % 3 == 0:
        await clock.travel(31)
    await _at_once(
        here.settle(*pairs),
        there.settle(*reversed(pairs)),
        here.tell(*taken[::2]),
        there.tell(*reversed(taken[::2])),
        here.sweep_messages(),
        there.sweep_messages(),
        here.seal(*_sets(again)),
        there.seal(*reversed(_sets(again))),
        here.take(),
        there.take(),
        here.redrive(*turns),
        there.redrive(*reversed(turns)),
        here.cancel(*some),
        there.cancel(*reversed(some)),
        here.cancel_messages(*messages[::3]),
        there.redrive_messages(*reversed(messages)),
        here.redrive_messages(*messages),
        there.cancel_messages(*reversed(messages[::3])),
        here.resolve(*messages[1::3], state="delivered"),
        there.resolve(*reversed(messages[1::3]), state="cancelled"),
        _accept_twice(here, there, f"{round_}-third"),
    )


async def test_two_replicas_with_the_same_work_in_opposite_order_never_deadlock(
    database_url: str, admin: "Admin", ids: IdFactory
) -> None:
    await admin.execute(LOOK_FOR_DEADLOCKS_AT_ONCE)
    options = options_for(database_url, pool_max=8)
    async with (
        open_pool(options, application_name="here") as pool,
        open_pool(options, application_name="there") as other_pool,
    ):
        here, there = Sink(pool, ids, random.Random(1)), Sink(other_pool, ids, random.Random(2))
        for round_ in range(ROUNDS):
            await _meet(here, there, Clock(admin, 100.0 * round_), round_)
    # A session hands in its counts when it ends, so this comes behind the pools.
    assert await admin.fetchval(DEADLOCKS) == 0
    assert await broken(admin) == {}
    assert await admin.fetchval("select count(*) from sink.inbound") == ROUNDS * 3 * 2 * TURNS
    for verb in ("join", "cancel", "redrive", "resolve"):
        assert await admin.fetchval("select count(*) from sink.event where verb = $1", verb) > 0
    assert await admin.fetchval("select count(*) from sink.turn where state = 'replied'") > 0
