"""What failed, died or stayed unknown gets a new allowance, under its old key and at its old place."""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from app.domain.model import Changed, Verdict
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    LATER,
    QUEUE,
    TURN_POLICY,
    UNKNOWN,
    Sink,
    draft,
    only,
)
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

LANES = pytest.mark.parametrize("conversation", [None, "c"])
STUCK = pytest.mark.parametrize("verdict", [DEAD, UNKNOWN], ids=["dead", "unknown"])


async def _failed(sink: Sink, key: str, conversation: str | None = None) -> UUID:
    held = await sink.hold(key, conversation)
    assert await sink.hand_back(held, final=True) == "failed"
    return held.turn


@LANES
async def test_a_failed_turn_runs_again_with_a_new_allowance(
    sink: Sink, travel: "Travel", conversation: str | None
) -> None:
    sink = replace(sink, turn_policies={QUEUE: replace(TURN_POLICY, attempts_max=2)})
    turn = (await sink.accept_one("a", conversation)).turn
    for state in ("queued", "failed"):
        assert await sink.hand_back(await sink.claim_one(), failed=True) == state
        await travel(100)
    assert await sink.redrive(turn) == [Changed("queued", changed=True)]
    assert await sink.redrive(turn) == [Changed("queued", changed=False, repeated=True)]
    assert (await sink.look(turn)).reason is None
    for attempt, state in ((3, "queued"), (4, "failed")):
        held = await sink.claim_one()
        assert held.attempt == attempt
        assert await sink.hand_back(held, failed=True) == state
        await travel(100)
    assert await sink.redrive(turn) == [Changed("queued", changed=True)]


async def test_releases_are_granted_anew_too(sink: Sink) -> None:
    sink = replace(sink, turn_policies={QUEUE: replace(TURN_POLICY, releases_max=0)})
    turn = (await sink.accept_one("a")).turn
    assert await sink.hand_back(await sink.claim_one()) == "failed"
    await sink.redrive(turn)
    assert await sink.hand_back(await sink.claim_one()) == "failed"


async def test_a_redriven_turn_goes_back_to_its_old_place_in_its_lane(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    later = [(await sink.accept_one(key, "c")).turn for key in ("b", "d", "e")]
    await sink.hand_back(held, final=True)
    assert await sink.redrive(held.turn) == [Changed("waiting", changed=True)]
    ran = []
    for _ in range(4):
        ran.append(await sink.claim_one())
        await sink.seal_one(ran[-1])
    assert [one.turn for one in ran] == [later[0], held.turn, *later[1:]]


async def test_several_of_one_lane_take_it_in_their_old_order(sink: Sink) -> None:
    turns = [await _failed(sink, key, "c") for key in ("a", "b", "d")]
    outcomes = await sink.redrive(*reversed(turns))
    assert [one.state for one in outcomes if one] == ["waiting", "waiting", "queued"]
    for turn in turns:
        held = await sink.claim_one()
        assert held.turn == turn
        await sink.seal_one(held)


async def test_a_turn_that_has_not_failed_stays_where_it_is(sink: Sink, admin: "Admin") -> None:
    turn = (await sink.accept_one("a")).turn
    gone = (await sink.accept_one("b")).turn
    await sink.cancel(gone)
    replied, _ = await sink.sealed("d")
    outcomes = await sink.redrive(turn, gone, uuid4(), replied)
    assert outcomes == [
        Changed("queued", changed=False),
        Changed("cancelled", changed=False),
        None,
        Changed("replied", changed=False),
    ]
    assert await admin.fetchval("select count(*) from sink.event where verb = 'redrive'") == 0


@STUCK
async def test_the_stuck_messages_of_an_undelivered_turn_are_sent_again_under_their_old_keys(
    sink: Sink, travel: "Travel", verdict: Verdict
) -> None:
    turn, messages = await sink.sealed("a", draft("1"), draft("2"), draft("3", destination="chat"))
    first = await sink.take_one()
    await sink.settle((first, verdict))
    await sink.settle((only(await sink.take(destination="chat")), DELIVERED))
    assert await sink.redrive(turn) == [Changed("sealed", changed=True)]
    assert await sink.redrive(turn) == [Changed("sealed", changed=False, repeated=True)]
    assert await sink.states(turn) == ["pending", "pending", "delivered"]
    again = await sink.take_one()
    assert (again.message, again.key, again.body) == (messages[0], first.key, first.body)
    assert (again.attempt, again.attempts_used) == (2, 1)
    assert again.may_have_arrived == (verdict is UNKNOWN)
    await sink.settle((again, DELIVERED))
    await travel(1)
    assert await sink.settle_next(DELIVERED) == messages[1]
    assert await sink.state(turn) == "replied"
    story = [move for move in await sink.story(turn) if move[0] == "redrive"]
    assert story == [("redrive", "undelivered", "sealed")]


@STUCK
async def test_one_message_is_redriven_and_its_turn_follows(sink: Sink, verdict: Verdict) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await sink.settle_next(verdict)
    assert await sink.redrive_messages(message, uuid4()) == [Changed("pending", changed=True), None]
    assert await sink.redrive_messages(message) == [
        Changed("pending", changed=False, repeated=True)
    ]
    assert await sink.state(turn) == "sealed"
    assert await sink.settle_next(DELIVERED) == message
    assert await sink.redrive_messages(message) == [
        Changed("delivered", changed=False, repeated=True)
    ]
    assert await sink.state(turn) == "replied"


@pytest.mark.parametrize("verdict", [LATER, DELIVERED], ids=["later", "delivered"])
async def test_a_message_that_is_not_stuck_is_not_redriven(sink: Sink, verdict: Verdict) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await sink.settle_next(verdict)
    (state,) = await sink.states(turn)
    assert await sink.redrive_messages(message) == [Changed(state, changed=False)]
    assert await sink.states(turn) == [state]


async def test_a_message_that_may_have_arrived_never_ends_dead_after_a_redrive(
    sink: Sink, admin: "Admin"
) -> None:
    turn, _ = await sink.sealed("a", draft())
    await sink.settle_next(UNKNOWN)
    await sink.redrive(turn)
    await admin.execute("update sink.outbox_payload set body = 'forged'")
    assert await sink.take() == []
    assert await sink.states(turn) == ["unknown"]


async def test_an_undelivered_turn_with_nothing_dead_or_unknown_is_not_redriven(sink: Sink) -> None:
    turn, messages = await sink.sealed("a", draft("1"), draft("2"))
    await sink.settle_next(DEAD)
    await sink.cancel_messages(*messages)
    assert await sink.state(turn) == "undelivered"
    assert await sink.redrive(turn) == [Changed("undelivered", changed=False)]
    assert await sink.redrive_messages(*messages) == [Changed("cancelled", changed=False)] * 2
    assert await sink.state(turn) == "undelivered"


async def test_a_turn_that_is_still_being_delivered_is_not_redriven(sink: Sink) -> None:
    turn, _ = await sink.sealed("a", draft("1"), draft("2", destination="chat"))
    await sink.settle_next(DEAD)
    assert await sink.redrive(turn) == [Changed("sealed", changed=False)]
    assert await sink.states(turn) == ["dead", "pending"]


@STUCK
async def test_a_redriven_message_and_what_it_stops_stay_out_of_the_lane_of_other_sets(
    sink: Sink, verdict: Verdict
) -> None:
    turn, old = await sink.sealed("a", draft("1", "c"), draft("2", "c"), conversation="c")
    await sink.settle_next(verdict)
    await sink.redrive(turn)
    _, (new,) = await sink.sealed("b", draft("3", "c"), conversation="c")
    taken = await sink.take()
    assert {one.message for one in taken} == {old[0], new}
    await sink.settle(*((one, DELIVERED) for one in taken))
    assert await sink.settle_next(DELIVERED) == old[1]
    assert await sink.state(turn) == "replied"


@STUCK
async def test_a_redriven_message_keeps_its_place_in_its_set(sink: Sink, verdict: Verdict) -> None:
    turn, messages = await sink.sealed("a", *(draft(text, "c") for text in "123"), conversation="c")
    assert await sink.settle_next(DELIVERED) == messages[0]
    assert await sink.settle_next(verdict) == messages[1]
    await sink.redrive_messages(messages[1])
    assert [await sink.settle_next(DELIVERED) for _ in range(2)] == messages[1:]
    assert await sink.state(turn) == "replied"


@LANES
async def test_of_two_redrives_at_once_one_does_it(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    turn = await _failed(sink, "a", conversation)
    async with suspend() as first:
        assert await first.sink.redrive(turn) == [Changed("queued", changed=True)]
        second = await first.blocks(sink.redrive(turn))
    assert second.result() == [Changed("queued", changed=False, repeated=True)]
    assert (await sink.story(turn)).count(("redrive", "failed", "queued")) == 1


@LANES
async def test_of_two_redrives_of_one_set_at_once_one_does_it(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    turn, (message,) = await sink.sealed("a", draft("1", conversation))
    await sink.settle_next(DEAD)
    async with suspend() as first:
        await first.sink.redrive(turn)
        second = await first.blocks(sink.redrive(turn))
        third = await first.blocks(sink.redrive_messages(message))
    assert second.result() == [Changed("sealed", changed=False, repeated=True)]
    assert third.result() == [Changed("pending", changed=False, repeated=True)]


@LANES
async def test_a_redrive_behind_a_late_fact_sends_nothing_again(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    turn, messages = await sink.sealed("a", draft("1", conversation), draft("2", conversation))
    taken = await sink.take_one()
    await sink.settle((taken, UNKNOWN))
    await sink.cancel_messages(messages[1])
    async with suspend() as first:
        await first.sink.tell(taken)
        second = await first.blocks(sink.redrive(turn))
    assert second.result() == [Changed("undelivered", changed=False)]
    assert await sink.states(turn) == ["delivered", "cancelled"]


async def test_a_late_fact_behind_a_redrive_ends_it(sink: Sink, suspend: Suspend) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    taken = await sink.take_one()
    await sink.settle((taken, UNKNOWN))
    async with suspend() as first:
        await first.sink.redrive(turn)
        second = await first.blocks(sink.tell(taken))
    assert second.result() == {message}
    assert await sink.state(turn) == "replied"
    assert await sink.take() == []


async def test_a_redrive_behind_a_cancel_does_nothing(sink: Sink, suspend: Suspend) -> None:
    turn = await _failed(sink, "a", "c")
    async with suspend() as first:
        await first.sink.cancel(turn)
        second = await first.blocks(sink.redrive(turn))
    assert second.result() == [Changed("cancelled", changed=False)]


async def test_a_redrive_behind_an_accept_waits_behind_it(sink: Sink, suspend: Suspend) -> None:
    turn = await _failed(sink, "a", "c")
    async with suspend() as first:
        assert (await first.sink.accept_one("b", "c")).state == "queued"
        second = await first.blocks(sink.redrive(turn))
    assert second.result() == [Changed("waiting", changed=True)]
