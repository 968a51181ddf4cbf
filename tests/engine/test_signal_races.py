"""Parks, signals and deadlines meet: no wake-up is lost, and exactly one thing ends a wait.

Each race is shown, not hoped for: the first replica stands before its commit, and the test goes on when Postgres
says that the second one waits for a lock. One that rolls back is a service that was killed there.
"""

from typing import TYPE_CHECKING

import pytest

from app.domain.model import AlreadySignalled, PersonNeeded, Signalled, Woken
from tests.engine.stories import Sink, only
from tests.engine.suspense import Suspend
from tests.engine.waiting_stories import overdue, telling

if TYPE_CHECKING:
    from tests.conftest import Travel


LANES = pytest.mark.parametrize("conversation", [None, "c"])
HASH = "sha256:" + "a" * 64


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
    held = await overdue(sink, travel)
    async with suspend() as first:
        assert (await first.sink.signal_one(held.turn)).woken
        second = await first.blocks(sink.wake_parked())
    assert second.result() == {}
    assert await _why(sink) == "signal"


async def test_a_signal_behind_the_deadline_is_kept_for_who_asks_again(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await overdue(sink, travel)
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
    held = await overdue(sink, travel)
    async with suspend() as first:
        await first.sink.wake_parked()
        second = await first.blocks(sink.signal_one(held.turn))
        first.roll_back()
    assert second.result().woken
    assert await sink.wake_parked() == {}
    assert await _why(sink) == "signal"


async def test_a_deadline_is_over_once(sink: Sink, suspend: Suspend, travel: "Travel") -> None:
    held = await overdue(sink, travel)
    async with suspend() as first:
        assert await first.sink.wake_parked() == {"queued": 1}
        second = await first.blocks(sink.wake_parked())
    assert second.result() == {}
    assert (await sink.story(held.turn)).count(("wake", "parked", "queued")) == 1


async def test_a_deadline_that_is_looked_at_again_is_that_of_the_wait_of_now(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await overdue(sink, travel)
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
