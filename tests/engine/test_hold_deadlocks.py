"""Replicas that seal, decide, expire and deliver the same sets in opposite order never wait in a circle."""

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from app.domain.ids import IdFactory
from app.domain.model import Claimed, Decision, OnDeadline, Sealed, SealRequest
from app.engine.database import open_pool
from tests.database import Clock, options_for
from tests.engine.held_stories import PLAN, decide, deciding, expire, holding, later
from tests.engine.invariants import broken
from tests.engine.stories import DELIVERED, Sink, arrival, draft
from tests.engine.test_deadlocks import DEADLOCKS, LOCK_WAIT_MS, LOOK_FOR_DEADLOCKS_AT_ONCE

if TYPE_CHECKING:
    from tests.database import Admin

ROUNDS = 12
TURNS = 16
LANES = 4
DECISIONS: tuple[Literal["approve", "reject", "revise"], ...] = ("approve", "approve", "revise")
DEADLINES: tuple[OnDeadline, ...] = ("escalate", "cancel", "send")


async def _at_once(*verbs: Coroutine[Any, Any, Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(verb) for verb in verbs]
    return [task.result() for task in tasks]


def _set(rng: random.Random, held: Claimed, round_: int) -> SealRequest:
    """A set in the lanes of others, whose follow-ups share keys with others."""
    drafts = [
        draft(str(n), f"c{rng.randrange(LANES)}", destination=rng.choice(("crm", "chat")))
        for n in range(rng.randint(0, 4))
    ]
    asked = [later(str(n), key=f"{round_}-{rng.randrange(6)}") for n in range(rng.randint(0, 3))]
    plan = replace(PLAN, on_deadline=rng.choice(DEADLINES), keeps_lane=rng.random() < 0.5)
    return holding(
        held,
        *drafts,
        follow_ups=asked,
        plan=rng.choice((plan, plan, None)),
        order=rng.choice(("strict", None)),
    )


def _decision(rng: random.Random, turn: Any, sealed: Sealed) -> Decision:
    edited = [draft("edited", f"c{rng.randrange(LANES)}")] if rng.random() < 0.3 else None
    name = "approve" if edited else rng.choice(DECISIONS)
    return deciding(turn, sealed.payload_hash, name, edited=edited)


async def _meet(here: Sink, there: Sink, clock: Clock, rng: random.Random, round_: int) -> None:
    arrivals = [arrival(f"{round_}-{n}", f"c{n % LANES}" if n % 3 else None) for n in range(TURNS)]
    await here.accept(*arrivals)
    mine, yours = await _at_once(here.claim(TURNS), there.claim(TURNS))
    requests = [_set(rng, one, round_) for one in (*mine, *yours)]
    sealed, again = await _at_once(
        here.seal(*requests),
        there.seal(*reversed(requests), lock_wait_ms=LOCK_WAIT_MS),
    )
    turns = [request.turn for request in requests]
    both = [*zip(turns, sealed, strict=True), *zip(reversed(turns), again, strict=True)]
    decisions = [
        _decision(rng, turn, done)
        for turn, done in both[: len(turns)]
        if isinstance(done, Sealed) and done.hold is not None and rng.random() < 0.7
    ]
    taken = [*await here.take(), *await there.take(destination="chat")]
    pairs = [(one, DELIVERED) for one in taken]
    await clock.travel(PLAN.deadline_seconds + 1 if round_ % 3 == 0 else 1)
    other = [arrival(f"{round_}-other-{n}", f"c{n % LANES}") for n in range(TURNS)]
    await _at_once(
        decide(here, *decisions),
        decide(there, *reversed(decisions)),
        expire(here),
        expire(there),
        here.settle(*pairs),
        there.settle(*reversed(pairs)),
        here.accept(*other),
        there.accept(*reversed(other)),
        here.due(),
        there.due(),
        here.cancel(*turns[::4]),
        there.cancel(*reversed(turns[::4])),
        here.seal(*requests),
        there.seal(*reversed(requests)),
        here.claim(TURNS),
        there.sweep_turns(),
        here.redrive(*turns),
        there.take(),
    )


async def test_two_replicas_with_the_same_holds_in_opposite_order_never_deadlock(
    database_url: str, admin: "Admin", ids: IdFactory
) -> None:
    await admin.execute(LOOK_FOR_DEADLOCKS_AT_ONCE)
    options = options_for(database_url, pool_max=10)
    async with (
        open_pool(options, application_name="here") as pool,
        open_pool(options, application_name="there") as other_pool,
    ):
        here, there = Sink(pool, ids, random.Random(1)), Sink(other_pool, ids, random.Random(2))
        rng = random.Random(7)
        clock = Clock(admin)
        for round_ in range(ROUNDS):
            await _meet(here, there, clock, rng, round_)
    # A session hands in its counts when it ends, so this comes behind the pools.
    assert await admin.fetchval(DEADLOCKS) == 0
    assert await broken(admin) == {}
    seen = {row[0] for row in await admin.fetch("select distinct decision from sink.hold")}
    assert seen >= {"approve", "edit", "revise", "cancel", "send"}
    known = "select count(*) from sink.follow_up where is_duplicate"
    assert await admin.fetchval(known) > 0
