"""A park meets whatever else ends an attempt or a wait: one of them does, and no old token begins one.

Each race is shown, not hoped for: the first replica stands before its commit, and the test goes on when Postgres
says that the second one waits for a lock. One that rolls back is a service that was killed there.
"""

from typing import TYPE_CHECKING

import pytest

from app.domain.model import LeaseLost, Parked, TurnEnded
from tests.engine.stories import Sink, draft, only, returning, sealing, still_holds
from tests.engine.suspense import Suspend
from tests.engine.waiting_stories import overdue, parking, telling

if TYPE_CHECKING:
    from tests.conftest import Travel


LANES = pytest.mark.parametrize("conversation", [None, "c"])


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
    held = await overdue(sink, travel)
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
