"""Somebody looked where a message with an unknown outcome went: what he says settles its set."""

from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import pytest

from app.domain.model import Changed, Verdict
from tests.engine.stories import DEAD, DELIVERED, LATER, UNKNOWN, Sink, draft
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

Said = Literal["delivered", "cancelled"]
EITHER = pytest.mark.parametrize("said", ["delivered", "cancelled"])


async def test_an_unknown_message_that_arrived_is_delivered_and_its_turn_replied(
    sink: Sink,
) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await sink.settle_next(UNKNOWN)
    assert await sink.resolve(message, state="delivered") == [Changed("delivered", changed=True)]
    assert await sink.resolve(message, state="delivered") == [Changed("delivered", changed=False)]
    assert await sink.state(turn) == "replied"
    view = (await sink.look(turn)).messages[0]
    assert view.delivered_at is not None
    assert view.reason is None


async def test_an_unknown_message_that_did_not_arrive_is_cancelled(sink: Sink) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await sink.settle_next(UNKNOWN)
    assert await sink.resolve(message, state="cancelled") == [Changed("cancelled", changed=True)]
    assert await sink.resolve(message, state="cancelled") == [Changed("cancelled", changed=False)]
    assert await sink.state(turn) == "undelivered"
    assert await sink.redrive(turn) == [Changed("undelivered", changed=False)]


@EITHER
async def test_either_answer_lets_the_rest_of_the_set_go(sink: Sink, said: Said) -> None:
    turn, messages = await sink.sealed("a", draft("1", "c"), draft("2", "c"), conversation="c")
    await sink.settle_next(UNKNOWN)
    await sink.resolve(messages[0], state=said)
    assert await sink.state(turn) == "sealed"
    assert await sink.settle_next(DELIVERED) == messages[1]
    assert await sink.state(turn) == ("replied" if said == "delivered" else "undelivered")


@EITHER
@pytest.mark.parametrize("verdict", [DEAD, LATER, DELIVERED], ids=["dead", "later", "delivered"])
async def test_only_what_is_unknown_is_resolved(sink: Sink, verdict: Verdict, said: Said) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await sink.settle_next(verdict)
    before = (await sink.states(turn))[0]
    assert await sink.resolve(message, state=said) == [Changed(before, changed=False)]
    assert await sink.states(turn) == [before]


async def test_what_is_being_sent_is_not_resolved(sink: Sink) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await sink.take_one()
    assert await sink.resolve(message, state="cancelled") == [Changed("sending", changed=False)]
    assert await sink.states(turn) == ["sending"]


async def test_each_has_its_outcome_and_who_looked_stands_in_the_story(
    sink: Sink, admin: "Admin"
) -> None:
    _, messages = await sink.sealed("a", draft("1"), draft("2", destination="chat"))
    await sink.settle_next(UNKNOWN)
    outcomes = await sink.resolve(messages[1], uuid4(), messages[0], state="delivered")
    assert outcomes == [
        Changed("pending", changed=False),
        None,
        Changed("delivered", changed=True),
    ]
    said = await admin.fetch(
        "select message, detail ->> 'by' as by from sink.event where verb = 'resolve'"
    )
    assert [tuple(row) for row in said] == [(messages[0], "ada")]


async def test_a_late_fact_beats_who_looked(sink: Sink) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    taken = await sink.take_one()
    await sink.settle((taken, UNKNOWN))
    await sink.resolve(message, state="cancelled")
    assert await sink.tell(taken) == {message}
    assert await sink.state(turn) == "replied"


async def test_a_resolve_behind_a_late_fact_changes_nothing(sink: Sink, suspend: Suspend) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    taken = await sink.take_one()
    await sink.settle((taken, UNKNOWN))
    async with suspend() as first:
        await first.sink.tell(taken)
        second = await first.blocks(sink.resolve(message, state="cancelled"))
    assert second.result() == [Changed("delivered", changed=False)]
    assert await sink.state(turn) == "replied"


async def test_of_two_who_looked_the_first_is_believed(sink: Sink, suspend: Suspend) -> None:
    _, (message,) = await sink.sealed("a", draft())
    await sink.settle_next(UNKNOWN)
    async with suspend() as first:
        await first.sink.resolve(message, state="cancelled")
        second = await first.blocks(sink.resolve(message, state="delivered"))
    assert second.result() == [Changed("cancelled", changed=False)]


async def test_a_resolve_behind_a_redrive_leaves_the_message_to_be_sent(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await sink.settle_next(UNKNOWN)
    async with suspend() as first:
        await first.sink.redrive(turn)
        second = await first.blocks(sink.resolve(message, state="cancelled"))
    assert second.result() == [Changed("pending", changed=False)]
    await travel(1)
    assert await sink.settle_next(DELIVERED) == message
