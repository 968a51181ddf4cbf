"""What nobody wants any more is not run and not sent, its lane is free, and what has left may still arrive."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.domain.model import Changed, LeaseLost, Verdict
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    LATER,
    UNKNOWN,
    Sink,
    arrival,
    draft,
    only,
    returning,
    sealing,
)
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from uuid import UUID

    from tests.conftest import Travel
    from tests.database import Admin

LANES = pytest.mark.parametrize("conversation", [None, "c"])
DONE = [Changed("cancelled", changed=True)]
AGAIN = [Changed("cancelled", changed=False)]


async def _scheduled(sink: Sink) -> "UUID":
    return (await sink.accept_one("a", "c", delay_seconds=60)).turn


async def _waiting(sink: Sink) -> "UUID":
    await sink.accept_one("before", "c")
    return (await sink.accept_one("a", "c")).turn


async def _queued(sink: Sink) -> "UUID":
    return (await sink.accept_one("a", "c")).turn


async def _processing(sink: Sink) -> "UUID":
    return (await sink.hold("a", "c")).turn


async def _failed(sink: Sink) -> "UUID":
    held = await sink.hold("a", "c")
    await sink.hand_back(held, final=True)
    return held.turn


@pytest.mark.parametrize("place", [_scheduled, _waiting, _queued, _processing, _failed])
async def test_a_turn_that_has_not_sealed_is_cancelled_once(
    sink: Sink, travel: "Travel", place: "Callable[[Sink], Awaitable[UUID]]"
) -> None:
    turn = await place(sink)
    before = await sink.state(turn)
    assert await sink.cancel(turn) == DONE
    assert await sink.cancel(turn) == AGAIN
    assert (await sink.story(turn))[-1] == ("cancel", before, "cancelled")
    await travel(100_000)
    await sink.due()
    await sink.sweep_turns()
    assert turn not in [held.turn for held in await sink.claim(10)]
    assert (await sink.look(turn)).reason == "cancelled"


async def test_who_cancelled_stands_in_the_story(sink: Sink, admin: "Admin") -> None:
    turn = (await sink.accept_one("a")).turn
    await sink.cancel(turn)
    assert (
        await admin.fetchval("select detail ->> 'by' from sink.event where verb = 'cancel'")
        == "ada"
    )


async def test_a_turn_that_does_not_exist_is_told_apart_and_each_has_its_outcome(
    sink: Sink,
) -> None:
    first, second = await sink.accept(arrival("a"), arrival("b"))
    outcomes = await sink.cancel(first.turn, uuid4(), second.turn)
    assert outcomes == [*DONE, None, *DONE]
    assert await sink.cancel_messages(uuid4()) == [None]


@pytest.mark.parametrize("place", [_queued, _processing])
async def test_the_lane_of_a_cancelled_turn_goes_to_the_next(
    sink: Sink, place: "Callable[[Sink], Awaitable[UUID]]"
) -> None:
    turn = await place(sink)
    following = [(await sink.accept_one(key, "c")).turn for key in ("b", "d")]
    await sink.cancel(turn)
    assert [await sink.state(one) for one in following] == ["queued", "waiting"]
    assert (await sink.claim_one()).turn == following[0]


async def test_a_lane_cancelled_empty_is_free(sink: Sink) -> None:
    turns = [(await sink.accept_one(key, "c")).turn for key in ("a", "b", "d")]
    assert await sink.cancel(*turns) == DONE * 3
    assert (await sink.accept_one("e", "c")).state == "queued"


async def test_a_cancelled_waiting_turn_is_passed_over(sink: Sink) -> None:
    first, second, third = [(await sink.accept_one(key, "c")).turn for key in ("a", "b", "d")]
    await sink.cancel(second)
    held = await sink.claim_one()
    assert held.turn == first
    await sink.seal_one(held)
    assert (await sink.claim_one()).turn == third


async def test_the_holder_of_a_cancelled_turn_is_told_so(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    await sink.cancel(held.turn)
    lost = LeaseLost("cancelled", "cancelled")
    assert await sink.renew(held) == [lost]
    assert await sink.seal(sealing(held, draft("1", "c"))) == [lost]
    assert await sink.release(returning(held)) == [lost]
    assert (await sink.look(held.turn)).messages == []


async def test_a_replied_turn_stays_replied(sink: Sink) -> None:
    turn, _ = await sink.sealed("a", draft("1"))
    await sink.settle_next(DELIVERED)
    assert await sink.cancel(turn) == [Changed("replied", changed=False)]


async def test_cancelling_a_sealed_turn_cancels_what_is_not_confirmed(sink: Sink) -> None:
    turn, _ = await sink.sealed("a", draft("1"), draft("2"), draft("3", destination="chat"))
    await sink.settle_next(DELIVERED)
    assert await sink.cancel(turn) == [Changed("undelivered", changed=True)]
    assert await sink.cancel(turn) == [Changed("undelivered", changed=False)]
    assert await sink.states(turn) == ["delivered", "cancelled", "cancelled"]
    assert await sink.take() == []
    assert await sink.redrive(turn) == [Changed("undelivered", changed=False)]


@pytest.mark.parametrize("verdict", [DEAD, UNKNOWN], ids=["dead", "unknown"])
async def test_cancelling_an_undelivered_turn_cancels_the_stuck_and_the_stopped(
    sink: Sink, verdict: Verdict
) -> None:
    turn, _ = await sink.sealed("a", draft("1"), draft("2"))
    await sink.settle_next(verdict)
    assert await sink.cancel(turn) == [Changed("undelivered", changed=True)]
    assert await sink.states(turn) == ["cancelled", "cancelled"]


@pytest.mark.parametrize("verdict", [DEAD, UNKNOWN], ids=["dead", "unknown"])
async def test_a_cancelled_stuck_message_unblocks_its_set(sink: Sink, verdict: Verdict) -> None:
    turn, messages = await sink.sealed("a", draft("1"), draft("2"))
    await sink.settle_next(verdict)
    assert await sink.state(turn) == "undelivered"
    assert await sink.cancel_messages(messages[0]) == DONE
    assert await sink.cancel_messages(messages[0]) == AGAIN
    assert await sink.state(turn) == "sealed"
    assert await sink.settle_next(DELIVERED) == messages[1]
    assert await sink.state(turn) == "undelivered"


async def test_a_cancelled_pending_message_hands_its_followers_to_the_one_before(
    sink: Sink,
) -> None:
    _, messages = await sink.sealed("a", *(draft(text, "c") for text in "123"), conversation="c")
    assert await sink.cancel_messages(messages[1]) == DONE
    assert await sink.settle_next(DELIVERED) == messages[0]
    assert await sink.settle_next(DELIVERED) == messages[2]


async def test_a_cancelled_message_no_longer_stops_the_next_set(sink: Sink) -> None:
    _, (first,) = await sink.sealed("a", draft("1", "c", delay_seconds=60), conversation="c")
    _, (second,) = await sink.sealed("b", draft("2", "c"), conversation="c")
    assert await sink.take() == []
    await sink.cancel_messages(first)
    assert await sink.settle_next(DELIVERED) == second


async def test_a_delivered_message_stays_delivered(sink: Sink) -> None:
    _, (message,) = await sink.sealed("a", draft())
    await sink.settle_next(DELIVERED)
    assert await sink.cancel_messages(message) == [Changed("delivered", changed=False)]


@pytest.mark.parametrize(
    ("verdict", "state"),
    [(LATER, "cancelled"), (DEAD, "cancelled"), (UNKNOWN, "cancelled"), (DELIVERED, "delivered")],
    ids=["later", "dead", "unknown", "delivered"],
)
async def test_what_is_being_sent_gets_no_next_attempt_and_a_delivery_wins(
    sink: Sink, travel: "Travel", verdict: Verdict, state: str
) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    taken = await sink.take_one()
    assert await sink.cancel_messages(message) == [Changed("sending", changed=True)]
    assert await sink.cancel_messages(message) == [Changed("sending", changed=False)]
    assert await sink.settle((taken, verdict)) == [True]
    await travel(100_000)
    assert await sink.take() == []
    assert await sink.states(turn) == [state]
    assert await sink.state(turn) == ("replied" if state == "delivered" else "undelivered")


async def test_a_worker_that_died_while_sending_what_nobody_wants_is_not_repeated(
    sink: Sink, travel: "Travel"
) -> None:
    turn, _ = await sink.sealed("a", draft("1"), draft("2"))
    taken = await sink.take_one()
    assert await sink.cancel(turn) == [Changed("sealed", changed=True)]
    assert await sink.states(turn) == ["sending", "cancelled"]
    await travel(31)
    assert await sink.sweep_messages() == 1
    assert await sink.states(turn) == ["cancelled", "cancelled"]
    assert await sink.state(turn) == "undelivered"
    assert await sink.tell(taken) == {taken.message}
    assert await sink.states(turn) == ["delivered", "cancelled"]


async def test_a_late_fact_beats_a_cancel(sink: Sink, travel: "Travel") -> None:
    turn, (message,) = await sink.sealed("a", draft())
    taken = await sink.take_one()
    await travel(31)
    await sink.sweep_messages()
    await sink.cancel_messages(message)
    assert await sink.state(turn) == "undelivered"
    assert await sink.tell(taken) == {message}
    assert await sink.state(turn) == "replied"


@LANES
async def test_a_cancel_behind_a_seal_cancels_the_messages_and_not_the_turn(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    async with suspend() as first:
        await first.sink.seal_one(held, draft("1", conversation), draft("2", conversation))
        second = await first.blocks(sink.cancel(held.turn))
    assert second.result() == [Changed("undelivered", changed=True)]
    assert await sink.states(held.turn) == ["cancelled", "cancelled"]


@LANES
async def test_a_seal_behind_a_cancel_is_refused_and_leaves_no_message(
    sink: Sink, suspend: Suspend, admin: "Admin", conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    async with suspend() as first:
        await first.sink.cancel(held.turn)
        second = await first.blocks(sink.seal(sealing(held, draft("1", conversation))))
    assert second.result() == [LeaseLost("cancelled", "cancelled")]
    assert await admin.fetchval("select count(*) from sink.outbox") == 0


@LANES
async def test_a_cancel_behind_a_claim_ends_its_attempt(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    turn = (await sink.accept_one("a", conversation)).turn
    following = (await sink.accept_one("b", conversation)).turn
    async with suspend() as first:
        (held,) = await first.sink.claim(1)
        second = await first.blocks(sink.cancel(turn))
    assert second.result() == DONE
    assert await sink.renew(held) == [LeaseLost("cancelled", "cancelled")]
    assert await sink.state(following) == "queued"


async def test_a_claim_does_not_wait_for_a_cancel(sink: Sink, suspend: Suspend) -> None:
    turn = (await sink.accept_one("a")).turn
    async with suspend() as first:
        await first.sink.cancel(turn)
        assert await sink.claim(1) == []
    assert await sink.claim(1) == []


@LANES
async def test_a_cancel_behind_a_settlement_leaves_what_was_confirmed(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    turn, _ = await sink.sealed("a", draft("1", conversation), draft("2", conversation))
    taken = await sink.take_one()
    async with suspend() as first:
        await first.sink.settle((taken, DELIVERED))
        second = await first.blocks(sink.cancel(turn))
    assert second.result() == [Changed("undelivered", changed=True)]
    assert await sink.states(turn) == ["delivered", "cancelled"]


async def test_a_cancel_behind_the_last_confirmation_finds_the_turn_replied(
    sink: Sink, suspend: Suspend
) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    taken = await sink.take_one()
    async with suspend() as first:
        await first.sink.settle((taken, DELIVERED))
        second = await first.blocks(sink.cancel(turn))
        third = await first.blocks(sink.cancel_messages(message))
    assert second.result() == [Changed("replied", changed=False)]
    assert third.result() == [Changed("delivered", changed=False)]


@pytest.mark.parametrize("verdict", [LATER, DELIVERED], ids=["later", "delivered"])
async def test_a_settlement_behind_a_cancel_sends_no_more_and_loses_no_delivery(
    sink: Sink, suspend: Suspend, verdict: Verdict
) -> None:
    turn, _ = await sink.sealed("a", draft())
    taken = await sink.take_one()
    async with suspend() as first:
        assert await first.sink.cancel(turn) == [Changed("sealed", changed=True)]
        second = await first.blocks(sink.settle((taken, verdict)))
    assert second.result() == [True]
    delivered = verdict is DELIVERED
    assert await sink.states(turn) == ["delivered" if delivered else "cancelled"]
    assert await sink.state(turn) == ("replied" if delivered else "undelivered")


@LANES
async def test_a_cancel_behind_a_take_stops_the_attempt_after_it(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    turn, (message,) = await sink.sealed("a", draft("1", conversation))
    async with suspend() as first:
        taken = only(await first.sink.take())
        second = await first.blocks(sink.cancel_messages(message))
    assert second.result() == [Changed("sending", changed=True)]
    await sink.settle((taken, LATER))
    assert await sink.states(turn) == ["cancelled"]


async def test_what_becomes_due_behind_a_cancel_stays_cancelled(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    turn = (await sink.accept_one("a", "c", delay_seconds=10)).turn
    await travel(11)
    async with suspend() as first:
        assert await first.sink.cancel(turn) == DONE
        second = await first.blocks(sink.due())
    assert second.result() == []
    assert (await sink.accept_one("b", "c")).state == "queued"


async def test_a_cancel_behind_what_becomes_due_frees_its_new_lane(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    turn = (await sink.accept_one("a", "c", delay_seconds=10)).turn
    await travel(11)
    async with suspend() as first:
        await first.sink.due()
        following = (await first.sink.accept_one("b", "c")).turn
        second = await first.blocks(sink.cancel(turn))
    assert second.result() == DONE
    assert await sink.state(following) == "queued"


async def test_a_scheduled_turn_is_cancelled_under_the_lock_of_a_lane_that_was_not_there(
    sink: Sink, suspend: Suspend
) -> None:
    turn = (await sink.accept_one("a", "c", delay_seconds=10)).turn
    async with suspend() as first:
        assert await first.sink.cancel(turn) == DONE
        second = await first.blocks(sink.accept_one("b", "c"))
    assert second.result().state == "queued"
