"""Who decides, tells or is told at the worst moment: before the question is there, or as whoever asked it dies."""

from typing import TYPE_CHECKING

from app.domain.model import Decided, NotHeld, Woken
from app.domain.seal import payload_hash, spell
from tests.engine.held_stories import (
    HOLD_SECONDS,
    decide,
    deciding,
    expire,
    holding,
    later,
    seal_held,
)
from tests.engine.stories import DEAD, DELIVERED, ONCALL, Sink, draft, only
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_a_decision_that_comes_before_its_set_is_there_waits_for_it(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    message = draft("1", "c")
    digest = payload_hash(turn=held.turn, attempt=1, order=None, messages=[message.hash])
    async with suspend() as replica:
        await replica.sink.seal(holding(held, message))
        decision = await replica.blocks(decide(sink, deciding(held.turn, spell(digest))))
    assert isinstance(only(await decision), Decided)
    assert await sink.states(held.turn) == ["pending"]


async def test_a_decision_about_a_set_that_was_never_committed_decides_nothing(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    message = draft("1", "c")
    digest = spell(payload_hash(turn=held.turn, attempt=1, order=None, messages=[message.hash]))
    async with suspend() as replica:
        await replica.sink.seal(holding(held, message))
        decision = await replica.blocks(decide(sink, deciding(held.turn, digest)))
        replica.roll_back()
    assert isinstance(only(await decision), NotHeld)
    # What was said then is forgotten: the set that comes after all waits for a decision of its own.
    sealed = await seal_held(sink, held, message)
    assert (sealed.state, sealed.payload_hash) == ("held", digest)


async def test_what_was_approved_is_sent_by_another_when_the_first_one_dies_over_it(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=(later(),))
    wanted = deciding(held.turn, sealed.payload_hash)
    first = only(await decide(sink, wanted))
    (taken,) = await sink.take()
    await travel(31)
    again = only(await decide(sink, wanted))
    assert isinstance(first, Decided)
    assert isinstance(again, Decided)
    assert (again.repeated, again.hold) == (True, first.hold)
    await sink.sweep_messages()
    await travel(10)
    (resent,) = await sink.take()
    assert (resent.key, resent.body, resent.attempt) == (taken.key, taken.body, 2)
    await sink.settle((resent, DELIVERED))
    assert await sink.state(held.turn) == "replied"
    assert len((await sink.look(held.turn)).follow_ups) == 1


async def test_what_a_turn_was_told_is_heard_by_the_next_attempt_when_the_first_one_dies_over_it(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.parked("a", "c", "payment")
    await sink.signal_one(held.turn, "payment", '"paid"')
    heard = [only(await sink.claim(1)).history]
    await travel(61)
    await sink.sweep_turns()
    await travel(2)
    heard.append(only(await sink.claim(1)).history)
    said = [[one.said.body for one in history if isinstance(one.said, Woken)] for history in heard]
    assert said == [[b'"paid"'], [b'"paid"']]
    again = await sink.signal_one(held.turn, "payment", '"paid"')
    assert again.duplicate


async def test_a_hold_that_nobody_hears_of_is_told_again_and_stays_decidable(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    await travel(HOLD_SECONDS + 1)
    for _ in range(2):
        assert await expire(sink)
        await sink.escalate()
        taken = await sink.take(destination=ONCALL)
        assert taken
        await sink.settle(*((one, DEAD) for one in taken))
        # The hook that failed is told of to nobody: it would fail as well.
        assert await sink.escalate() == {}
        await travel(86_401)
    about = await admin.fetch("select state from sink.turn where about = $1", held.turn)
    assert {row["state"] for row in about} == {"undelivered"}
    assert isinstance(only(await decide(sink, deciding(held.turn, sealed.payload_hash))), Decided)
