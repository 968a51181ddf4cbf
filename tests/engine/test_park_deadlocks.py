"""Many park, tell and sweep the same turns at once: no signal is lost, and nobody waits in a circle."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import asyncpg

from app.domain.model import AlreadySignalled, Parked, Signalled, TurnEnded
from app.engine.database import open_pool
from tests.database import options_for, wait_for_lock
from tests.engine.stories import Sink, arrival, draft, only, returning, sealing
from tests.engine.test_deadlocks import DEADLOCKS, LOOK_FOR_DEADLOCKS_AT_ONCE
from tests.engine.waiting_stories import parking, telling

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_at_the_same_instant_no_signal_is_lost(sink: Sink) -> None:
    """As they come, many times: whichever is first, one signal wins, and the turn runs again and knows what it says."""
    for n in range(60):
        held = await sink.hold(f"k{n}", f"c{n % 3}")
        verbs: list[Coroutine[Any, Any, list[Any]]] = [
            sink.park(parking(held)),
            sink.signal(telling(held.turn, said="1")),
            sink.signal(telling(held.turn, said="2")),
        ]
        outcomes = [only(answer) for answer in await _at_once(*verbs[n % 3 :], *verbs[: n % 3])]
        kinds = {type(outcome) for outcome in outcomes}
        assert kinds == {Parked, Signalled, AlreadySignalled}
        again = await sink.claim_one()
        assert (again.turn, again.history[-1].reason) == (held.turn, "signal")
        await sink.seal_one(again)


async def _at_once(*verbs: Coroutine[Any, Any, Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(verb) for verb in verbs]
    return [task.result() for task in tasks]


async def test_replicas_that_meet_backwards_wait_for_each_other_and_never_in_a_circle(
    sink: Sink, admin: "Admin", database_url: str, travel: "Travel"
) -> None:
    await admin.execute(LOOK_FOR_DEADLOCKS_AT_ONCE)
    async with (
        open_pool(options_for(database_url), application_name="here") as here_pool,
        open_pool(options_for(database_url), application_name="there") as there_pool,
    ):
        here, there = replace(sink, pool=here_pool), replace(sink, pool=there_pool)
        for round_ in range(15):
            arrivals = [arrival(f"{round_}-{n}", f"c{n % 5}") for n in range(16)]
            turns = [one.turn for one in await here.accept(*arrivals)]
            held = await here.claim(16)
            told = [telling(turn, said=str(round_)) for turn in turns]
            parkings = [parking(one, seconds=0.5) for one in held]
            await travel(61 if round_ % 3 == 0 else 0.4)
            await here.release(*(returning(one, final=True) for one in held[2::4]))
            await _at_once(
                here.park(*parkings),
                there.park(*reversed(parkings)),
                here.signal(*told[::2]),
                there.signal(*reversed(told)),
                here.seal(*(sealing(one, draft("1", one.conversation)) for one in held[::3])),
                there.release(*(returning(one, final=True) for one in reversed(held[1::4]))),
                there.sweep_turns(),
                here.wake_parked(),
                there.wake_parked(),
                here.renew(*held),
                here.cancel(*turns[::5]),
                there.cancel(*reversed(turns[::5])),
                there.redrive(*reversed(turns)),
                there.claim(16),
            )
    # A session hands in its counts when it ends, so this comes behind the pools.
    assert await admin.fetchval(DEADLOCKS) == 0
    for verb in ("park", "wake", "cancel", "redrive"):
        assert await admin.fetchval("select count(*) from sink.event where verb = $1", verb) > 0


async def test_who_tells_a_waiting_turn_has_its_lane_before(
    sink: Sink, admin: "Admin", database_url: str, travel: "Travel"
) -> None:
    """A seal promotes what waits behind it. Who tells both something must not hold one and wait for the other."""
    await admin.execute(LOOK_FOR_DEADLOCKS_AT_ONCE)
    later = await sink.accept_one("later", "c", delay_seconds=5)
    held = await sink.hold("first", "c")
    await travel(6)
    await sink.due()
    # What waits was accepted first, so that its lock comes first among those of the two.
    assert await sink.state(later.turn) == "waiting"
    assert later.turn < held.turn
    async with open_pool(options_for(database_url), application_name="others") as pool:
        others = replace(sink, pool=pool)
        async with asyncio.TaskGroup() as group, admin.transaction():
            await admin.execute("select from sink.turn where id = $1 for update", held.turn)
            watch = await asyncpg.connect(database_url)
            group.create_task(others.seal_one(held))
            await wait_for_lock(watch)
            told = group.create_task(others.signal(telling(held.turn), telling(later.turn)))
            await wait_for_lock(watch, sessions=2)
            await watch.close()
    assert told.result() == [TurnEnded("replied"), Signalled("queued")]
    assert await admin.fetchval(DEADLOCKS) == 0
