"""Where a destination holds unknown outcomes, nothing is repeated until a person says so; not even after a crash."""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.domain.model import DeliveryPolicy, Taken
from tests.engine.stories import CRM, DELIVERY_POLICY, LATER, UNKNOWN, Sink, draft, only

if TYPE_CHECKING:
    from tests.conftest import Travel

HOLDING = replace(DELIVERY_POLICY, on_unknown="hold")


async def take_holding(sink: Sink) -> Taken:
    """As a worker takes who knows that the destination holds."""
    taken: Taken = only(await sink.take(1, hold_unknown=True))
    return taken


async def look(sink: Sink, turn: UUID) -> tuple[str, str | None]:
    (message,) = (await sink.look(turn)).messages
    return message.state, message.reason


@pytest.mark.parametrize("policies", [{CRM: HOLDING}, {CRM: DELIVERY_POLICY}, {}])
async def test_a_worker_that_died_while_sending_leaves_it_to_a_person(
    sink: Sink, travel: "Travel", policies: dict[str, DeliveryPolicy]
) -> None:
    """Also where the sweeper's configuration says otherwise, or knows nothing of the destination."""
    turn, _ = await sink.sealed("a", draft())
    await take_holding(sink)
    await travel(31)
    sink.delivery_policies = policies
    assert await sink.sweep_messages() == 1
    assert await look(sink, turn) == ("unknown", "lease_lapsed")
    await travel(1_000_000)
    assert await sink.take() == []
    assert await sink.state(turn) == "undelivered"


async def test_a_sweeper_that_knows_better_holds_what_was_taken_before(
    sink: Sink, travel: "Travel"
) -> None:
    turn, _ = await sink.sealed("a", draft())
    await sink.take_one()
    await travel(31)
    sink.delivery_policies = {CRM: HOLDING}
    await sink.sweep_messages()
    assert await look(sink, turn) == ("unknown", "lease_lapsed")


async def test_a_person_has_it_sent_again_and_it_is_held_again(
    sink: Sink, travel: "Travel"
) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await sink.settle((await take_holding(sink), UNKNOWN))
    await sink.redrive_messages(message)
    again = await take_holding(sink)
    assert (again.message, again.may_have_arrived) == (message, True)
    await travel(31)
    await sink.sweep_messages()
    assert await look(sink, turn) == ("unknown", "lease_lapsed")
    await sink.resolve(message, state="delivered")
    assert await sink.state(turn) == "replied"


async def test_a_cancel_while_it_was_sent_is_not_held(sink: Sink, travel: "Travel") -> None:
    turn, (message,) = await sink.sealed("a", draft())
    await take_holding(sink)
    await sink.cancel_messages(message)
    await travel(31)
    await sink.sweep_messages()
    assert await look(sink, turn) == ("cancelled", "cancelled")


async def test_the_next_attempt_says_anew_whether_it_is_held(sink: Sink, travel: "Travel") -> None:
    turn, _ = await sink.sealed("a", draft())
    await sink.settle((await take_holding(sink), LATER))
    await travel(6)
    await sink.take_one()
    await travel(31)
    await sink.sweep_messages()
    assert await look(sink, turn) == ("pending", "lease_lapsed")
