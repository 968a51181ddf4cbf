"""Parks, signals and deadlines meet: no wake-up is lost, exactly one thing ends a wait, and no old token begins one.

Each race is shown, not hoped for: the first replica stands before its commit, and the test goes on when Postgres
says that the second one waits for a lock. One that rolls back is a service that was killed there.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from app.domain.model import (
    AlreadySignalled,
    LeaseLost,
    Parked,
    PersonNeeded,
    Signalled,
    TurnEnded,
    Woken,
)
from app.engine.database import open_pool
from tests.database import options_for, wait_for_lock
from tests.engine.stories import (
    Sink,
    arrival,
    draft,
    only,
    parking,
    returning,
    sealing,
    still_holds,
    telling,
)
from tests.engine.suspense import Suspend
from tests.engine.test_deadlocks import DEADLOCKS, LOOK_FOR_DEADLOCKS_AT_ONCE

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

LANES = pytest.mark.parametrize("conversation", [None, "c"])
HASH = "sha256:" + "a" * 64
DAY = 86_400.0


async def _why(sink: Sink) -> str | None:
    """What ended the last wait, as the next claim tells it."""
    entry = (await sink.claim_one()).history[-1]
    assert isinstance(entry.said, Woken)
    return entry.reason


@LANES
async def test_a_park_behind_a_signal_finds_it(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    async with suspend() as first:
        await first.sink.signal_one(held.turn)
        second = await first.blocks(sink.park_one(held))
    assert second.result() == "queued"
    assert await _why(sink) == "signal"


@LANES
async def test_a_signal_behind_a_park_wakes_it(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    async with suspend() as first:
        assert await first.sink.park_one(held) == "parked"
        second = await first.blocks(sink.signal_one(held.turn))
    assert second.result() == Signalled("queued", woken=True)
    assert await _why(sink) == "signal"


async def test_a_park_behind_a_signal_that_was_never_committed_waits(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.signal_one(held.turn)
        second = await first.blocks(sink.park_one(held))
        first.roll_back()
    assert second.result() == "parked"
    # Its sender had no answer, and says it again.
    assert await sink.signal_one(held.turn) == Signalled("queued", woken=True)


async def test_a_signal_behind_a_park_that_was_never_committed_is_kept(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.park_one(held)
        second = await first.blocks(sink.signal_one(held.turn))
        first.roll_back()
    assert second.result() == Signalled("processing")
    # Its agent had no answer, and parks again.
    assert await sink.park_one(held) == "queued"


async def test_a_question_behind_a_forged_answer_is_asked(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a")
    async with suspend() as first:
        await first.sink.signal_one(held.turn, payload_hash=HASH)
        second = await first.blocks(sink.park_one(held, payload_hash=HASH))
    assert second.result() == "parked"


async def test_a_forged_answer_behind_its_question_is_refused(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a")
    async with suspend() as first:
        await first.sink.park_one(held, payload_hash=HASH)
        second = await first.blocks(sink.signal(telling(held.turn, payload_hash=HASH)))
    assert second.result() == [PersonNeeded()]
    assert await sink.state(held.turn) == "parked"


async def test_a_deadline_behind_a_signal_finds_nothing_to_end(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.parked("a", "c")
    await travel(DAY + 1)
    async with suspend() as first:
        assert (await first.sink.signal_one(held.turn)).woken
        second = await first.blocks(sink.wake_parked())
    assert second.result() == {}
    assert await _why(sink) == "signal"


async def test_a_signal_behind_the_deadline_is_kept_for_who_asks_again(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.parked("a", "c")
    await travel(DAY + 1)
    async with suspend() as first:
        assert await first.sink.wake_parked() == {"queued": 1}
        second = await first.blocks(sink.signal_one(held.turn))
    assert second.result() == Signalled("queued")
    again = await sink.claim_one()
    assert again.history[-1].reason == "deadline"
    assert await sink.park_one(again) == "queued"
    assert await _why(sink) == "signal"


async def test_a_signal_behind_a_deadline_that_was_never_committed_ends_the_wait(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.parked("a", "c")
    await travel(DAY + 1)
    async with suspend() as first:
        await first.sink.wake_parked()
        second = await first.blocks(sink.signal_one(held.turn))
        first.roll_back()
    assert second.result().woken
    assert await sink.wake_parked() == {}
    assert await _why(sink) == "signal"


async def test_a_deadline_is_over_once(sink: Sink, suspend: Suspend, travel: "Travel") -> None:
    held = await sink.parked("a", "c")
    await travel(DAY + 1)
    async with suspend() as first:
        assert await first.sink.wake_parked() == {"queued": 1}
        second = await first.blocks(sink.wake_parked())
    assert second.result() == {}
    assert (await sink.story(held.turn)).count(("wake", "parked", "queued")) == 1


async def test_a_deadline_that_is_looked_at_again_is_that_of_the_wait_of_now(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.parked("a", "c")
    await travel(DAY + 1)
    async with suspend() as first:
        # It is told, runs, and parks again before the sweep that had found it gets its lock.
        await first.sink.signal_one(held.turn)
        again = await first.sink.claim_one()
        assert await first.sink.park_one(again, "other") == "parked"
        second = await first.blocks(sink.wake_parked())
    assert second.result() == {}
    assert await sink.state(held.turn) == "parked"


async def test_of_two_signals_the_second_finds_the_first(sink: Sink, suspend: Suspend) -> None:
    held = await sink.parked("a", "c")
    async with suspend() as first:
        assert (await first.sink.signal_one(held.turn, said="1")).woken
        second = await first.blocks(sink.signal(telling(held.turn, said="2")))
        same = await first.blocks(sink.signal(telling(held.turn, said="1")), sessions=2)
    assert isinstance(only(second.result()), AlreadySignalled)
    assert same.result() == [Signalled("queued", duplicate=True)]
    (entry,) = (await sink.claim_one()).history
    assert isinstance(entry.said, Woken)
    assert entry.said.body == b"1"


async def test_of_two_signals_the_second_wins_where_the_first_was_never_committed(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.parked("a", "c")
    async with suspend() as first:
        await first.sink.signal_one(held.turn, said="1")
        second = await first.blocks(sink.signal_one(held.turn, said="2"))
        first.roll_back()
    assert second.result().woken
    (entry,) = (await sink.claim_one()).history
    assert isinstance(entry.said, Woken)
    assert entry.said.body == b"2"


async def test_a_park_behind_the_same_park_finds_its_answer(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        done = only(await first.sink.park(parking(held)))
        second = await first.blocks(sink.park(parking(held)))
    assert isinstance(done, Parked)
    assert second.result() == [Parked("parked", done.deadline_at, repeated=True)]
    assert (await sink.story(held.turn)).count(("park", "processing", "parked")) == 1


@LANES
async def test_a_sweep_behind_a_park_changes_nothing(
    sink: Sink, suspend: Suspend, travel: "Travel", conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    await travel(61)
    async with suspend() as first:
        await first.sink.park_one(held)
        second = await first.blocks(sink.sweep_turns())
    assert second.result() == {}
    assert await sink.state(held.turn) == "parked"


@LANES
async def test_a_park_behind_a_sweep_is_refused(
    sink: Sink, suspend: Suspend, travel: "Travel", conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    await travel(61)
    async with suspend() as first:
        assert await first.sink.sweep_turns() == {"queued": 1}
        second = await first.blocks(sink.park(parking(held)))
    assert second.result() == [LeaseLost("swept", "queued")]


async def test_a_zombie_parks_nothing_that_somebody_else_holds(
    sink: Sink, travel: "Travel"
) -> None:
    zombie = await sink.hold("a", "c")
    await travel(61)
    await sink.sweep_turns()
    await travel(2)
    held = await sink.claim_one()
    await sink.signal_one(held.turn)
    assert await sink.park(parking(zombie)) == [LeaseLost("swept", "processing")]
    assert still_holds(only(await sink.renew(held)))
    await sink.park_one(held, "other")
    assert await sink.park(parking(zombie, "other")) == [LeaseLost("swept", "parked")]


async def test_a_cancel_behind_a_park_ends_its_wait(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    async with suspend() as first:
        await first.sink.park_one(held)
        second = await first.blocks(sink.cancel(held.turn))
    (changed,) = second.result()
    assert changed is not None
    assert changed.changed
    assert (await sink.story(held.turn))[-1] == ("cancel", "parked", "cancelled")
    assert await sink.state(behind.turn) == "queued"


async def test_a_park_behind_a_cancel_is_refused(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.cancel(held.turn)
        second = await first.blocks(sink.park(parking(held)))
    assert second.result() == [LeaseLost("cancelled", "cancelled")]


async def test_a_signal_behind_a_cancel_is_too_late(sink: Sink, suspend: Suspend) -> None:
    held = await sink.parked("a", "c")
    async with suspend() as first:
        await first.sink.cancel(held.turn)
        second = await first.blocks(sink.signal(telling(held.turn)))
    assert second.result() == [TurnEnded("cancelled")]


async def test_a_deadline_behind_a_cancel_is_over_for_nobody(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.parked("a", "c")
    await travel(DAY + 1)
    async with suspend() as first:
        await first.sink.cancel(held.turn)
        second = await first.blocks(sink.wake_parked())
    assert second.result() == {}
    assert await sink.state(held.turn) == "cancelled"


async def test_a_renewal_behind_a_park_is_refused(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.park_one(held)
        second = await first.blocks(sink.renew(held))
    assert second.result() == [LeaseLost("released", "parked")]


async def test_a_park_behind_a_renewal_parks(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.renew(held)
        second = await first.blocks(sink.park_one(held))
    assert second.result() == "parked"


async def test_a_seal_behind_a_park_is_refused_and_the_other_way_round(
    sink: Sink, suspend: Suspend
) -> None:
    held, other = await sink.hold("a", "c"), await sink.hold("b", "d")
    async with suspend() as first:
        await first.sink.park_one(held)
        second = await first.blocks(sink.seal(sealing(held, draft())))
    assert second.result() == [LeaseLost("released", "parked")]
    async with suspend() as first:
        await first.sink.seal_one(other, draft())
        third = await first.blocks(sink.park(parking(other)))
    assert third.result() == [LeaseLost("sealed", "sealed")]


async def test_a_release_behind_a_park_is_refused(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.park_one(held)
        second = await first.blocks(sink.release(returning(held)))
    assert second.result() == [LeaseLost("released", "parked")]


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
