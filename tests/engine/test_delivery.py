"""Order is kept within a conversation and destination; what is stuck stops its own set alone; confirmed is final."""

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.domain.model import Slots, Verdict
from app.engine import take
from tests.engine.stories import (
    CRM,
    DEAD,
    DELIVERED,
    GIVEN_BACK,
    LATER,
    UNKNOWN,
    Sink,
    draft,
)

if TYPE_CHECKING:
    from tests.conftest import Freeze, Travel
    from tests.database import Admin

STUCK = pytest.mark.parametrize("verdict", [DEAD, UNKNOWN], ids=["dead", "unknown"])


async def _takeable(sink: Sink, destination: str = CRM) -> list[UUID]:
    return [one.message for one in await sink.take(destination=destination)]


async def test_an_attempt_is_recorded_before_it_is_sent(sink: Sink) -> None:
    turn, (message,) = await sink.sealed("a", draft("hi", "c", recipient="ada", headers={"x": "1"}))
    taken = await sink.take_one()
    assert (taken.message, taken.turn, taken.attempt, taken.attempts_used) == (message, turn, 1, 1)
    assert (taken.body, taken.recipient, taken.headers) == (b"hi", "ada", {"x": "1"})
    assert (taken.queue, taken.conversation, taken.destination) == ("default", "c", CRM)
    assert not taken.may_have_arrived
    assert await sink.states(turn) == ["sending"]
    assert await sink.take() == []


async def test_no_more_are_taken_than_there_are_slots_and_each_destination_has_its_own(
    sink: Sink,
) -> None:
    await sink.sealed("a", *(draft(str(n), f"c{n}") for n in range(5)))
    await sink.sealed("b", draft("x", destination="chat"))
    slots = [Slots(CRM, 2, 30.0), Slots("chat", 5, 30.0), Slots("quiet", 5, 30.0)]
    taken = (await take.take(sink.pool, slots)).messages
    assert sorted(one.destination for one in taken) == ["chat", CRM, CRM]


async def test_a_destination_that_is_not_configured_waits_and_never_dies(
    sink: Sink, travel: "Travel"
) -> None:
    turn, _ = await sink.sealed("a", draft(destination="removed"))
    await travel(1_000_000)
    assert await sink.take() == []
    assert await sink.states(turn) == ["pending"]
    sink.delivery_policies = {}
    for _ in range(20):
        assert len(await sink.take(destination="removed")) == 1
        await travel(31)
        assert await sink.sweep_messages() == 1
        await travel(1_000_000)
    assert await sink.states(turn) == ["pending"]


async def test_a_turn_is_replied_when_all_of_its_set_is_confirmed_and_not_before(
    sink: Sink,
) -> None:
    turn, _ = await sink.sealed("a", draft("1"), draft("2", destination="chat"))
    first, second = await sink.take_one(), (await sink.take(destination="chat"))[0]
    await sink.settle((first, DELIVERED))
    assert await sink.state(turn) == "sealed"
    await sink.settle((second, DELIVERED))
    assert await sink.state(turn) == "replied"
    message = (await sink.look(turn)).messages[0]
    assert (message.receipt, message.attempts) == ("r-1", 1)
    assert message.delivered_at is not None


async def test_a_conversation_is_delivered_in_order_over_the_borders_of_turns(sink: Sink) -> None:
    _, first = await sink.sealed("a", draft("1", "c"), draft("2", "c"), conversation="c")
    _, second = await sink.sealed("b", draft("3", "c"), draft("4", "c"), conversation="c")
    arrived = []
    for _ in range(4):
        (taken,) = await sink.take()
        assert await sink.take() == []
        arrived.append(taken.message)
        await sink.settle((taken, DELIVERED))
    assert arrived == first + second


async def test_conversations_and_destinations_do_not_wait_for_each_other(sink: Sink) -> None:
    _, (one, other, elsewhere, _) = await sink.sealed(
        "a",
        draft("1", "c"),
        draft("2", "d"),
        draft("3", "c", destination="chat"),
        draft("4", "c"),
    )
    assert await _takeable(sink) == [one, other]
    assert await _takeable(sink, "chat") == [elsewhere]


async def test_without_a_conversation_the_order_is_that_of_the_set_alone(sink: Sink) -> None:
    _, first = await sink.sealed("a", draft("1"), draft("2"))
    _, second = await sink.sealed("b", draft("3"), draft("4"))
    assert await _takeable(sink) == [first[0], second[0]]


async def test_a_message_that_is_tried_again_keeps_its_place(sink: Sink, travel: "Travel") -> None:
    _, (first, second) = await sink.sealed("a", draft("1", "c"), draft("2", "c"))
    assert await sink.settle_next(LATER) == first
    assert await sink.take() == []
    await travel(6)
    again = await sink.take_one()
    assert (again.message, again.attempt, again.attempts_used) == (first, 2, 2)
    await sink.settle((again, DELIVERED))
    assert await _takeable(sink) == [second]


async def test_an_attempt_that_is_given_back_is_not_counted(sink: Sink) -> None:
    await sink.sealed("a", draft())
    await sink.settle((await sink.take_one(), GIVEN_BACK))
    again = await sink.take_one()
    assert (again.attempt, again.attempts_used, again.may_have_arrived) == (2, 1, False)


async def test_all_attempts_carry_the_same_key_and_bytes(sink: Sink, travel: "Travel") -> None:
    await sink.sealed("a", draft("same"))
    seen = set()
    for _ in range(4):
        taken = await sink.take_one()
        seen.add((taken.key, taken.body, taken.sealed_at))
        await sink.settle((taken, LATER))
        await travel(6)
    assert len(seen) == 1


async def test_a_pause_counts_from_the_confirmation_before(
    sink: Sink, freeze: "Freeze", travel: "Travel", admin: "Admin"
) -> None:
    turn, (_, second) = await sink.sealed("a", draft("1", "c"), draft("2", "c", delay_seconds=3.0))
    await travel(100)
    await freeze()
    await sink.settle_next(DELIVERED)
    now = await admin.fetchval("select sink.now()")
    assert ((await sink.look(turn)).messages[1].due_at - now).total_seconds() == 3.0
    assert await sink.take() == []
    await travel(3.1)
    assert await _takeable(sink) == [second]


async def test_age_counts_from_when_a_message_could_first_go(sink: Sink, travel: "Travel") -> None:
    await sink.sealed("a", draft("1", "c"), draft("2", "c"))
    await travel(100)
    first = await sink.take_one()
    assert 100 <= first.age_seconds < 110
    await sink.settle((first, DELIVERED))
    await travel(7)
    assert 7 <= (await sink.take_one()).age_seconds < 17


@STUCK
async def test_a_stuck_message_stops_the_later_ones_of_its_set_in_its_lane(
    sink: Sink, verdict: Verdict, travel: "Travel"
) -> None:
    turn, (_, _, third, elsewhere) = await sink.sealed(
        "a",
        draft("1", "c"),
        draft("2", "c"),
        draft("3", "d"),
        draft("4", "c", destination="chat"),
        conversation="c",
    )
    taken = await sink.take()
    await sink.settle((taken[0], verdict))
    await travel(100_000)
    assert await sink.take() == []
    assert [taken[1].message, *await _takeable(sink, "chat")] == [third, elsewhere]
    assert (await sink.states(turn))[1] == "pending"


@STUCK
async def test_a_stuck_message_stops_no_other_set(sink: Sink, verdict: Verdict) -> None:
    _, (stuck, _) = await sink.sealed("a", draft("1", "c"), draft("2", "c"), conversation="c")
    _, (third,) = await sink.sealed("b", draft("3", "c"), conversation="c")
    assert await sink.settle_next(verdict) == stuck
    assert await _takeable(sink) == [third]
    turn, _ = await sink.sealed("d", draft("4", "c"), conversation="c")
    assert (await sink.look(turn)).messages[0].blocked_by == third


@STUCK
async def test_a_turn_is_undelivered_when_nothing_of_its_set_can_move_by_itself(
    sink: Sink, verdict: Verdict
) -> None:
    turn, _ = await sink.sealed(
        "a", draft("1", "c"), draft("2", "c"), draft("3", "c", destination="chat")
    )
    await sink.settle_next(verdict)
    assert await sink.state(turn) == "sealed"
    (other,) = await sink.take(destination="chat")
    await sink.settle((other, DELIVERED))
    assert await sink.state(turn) == "undelivered"
