"""Two workers meet over one set or one lane of deliveries: no confirmation is missed, and nobody is left blocked."""

from typing import TYPE_CHECKING

import pytest

from app.domain.model import Verdict
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    Sink,
    draft,
    only,
)
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel

LANES = pytest.mark.parametrize("conversation", [None, "c"])


async def test_two_workers_never_take_the_same_message_and_wait_only_where_both_count(
    sink: Sink, suspend: Suspend
) -> None:
    for destination in ("crm", "x"):
        await sink.sealed(f"before {destination}", draft("0", destination=destination))
        await sink.settle(*((one, DELIVERED) for one in await sink.take(destination=destination)))
    _, messages = await sink.sealed(
        "a", *(draft(str(n), destination=d) for n in (1, 2) for d in ("crm", "x"))
    )
    async with suspend() as first:
        mine = await first.sink.take()
        second = await first.blocks(sink.take())
        other = await sink.take(destination="x")
    assert second.result() == []
    assert [one.message for one in mine] == messages[:1]
    assert [one.message for one in other] == messages[1:2]


@LANES
@pytest.mark.parametrize("swapped", [False, True])
async def test_two_last_confirmations_at_once_do_not_miss_each_other(
    sink: Sink, suspend: Suspend, conversation: str | None, swapped: bool
) -> None:
    turn, _ = await sink.sealed(
        "a", draft("1", conversation), draft("2", conversation, destination="chat")
    )
    taken = [only(await sink.take()), only(await sink.take(destination="chat"))]
    mine, yours = reversed(taken) if swapped else taken
    async with suspend() as first:
        await first.sink.settle((mine, DELIVERED))
        second = await first.blocks(sink.settle((yours, DELIVERED)))
        assert await first.sink.state(turn) == "sealed"
    assert second.result() == [True]
    assert await sink.state(turn) == "replied"


@LANES
async def test_a_confirmation_and_a_dead_letter_at_once_leave_the_turn_undelivered(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    turn, _ = await sink.sealed(
        "a", draft("1", conversation), draft("2", conversation, destination="chat")
    )
    mine, yours = only(await sink.take()), only(await sink.take(destination="chat"))
    async with suspend() as first:
        await first.sink.settle((mine, DELIVERED))
        second = await first.blocks(sink.settle((yours, DEAD)))
    second.result()
    assert await sink.state(turn) == "undelivered"


@pytest.mark.parametrize("verdict", [DELIVERED, DEAD])
async def test_a_seal_behind_a_settlement_in_the_delivery_lane_is_not_blocked(
    sink: Sink, suspend: Suspend, verdict: Verdict
) -> None:
    await sink.sealed("a", draft("1", "c"), conversation="c")
    taken = await sink.take_one()
    held = await sink.hold("b", "c")
    async with suspend() as first:
        await first.sink.settle((taken, verdict))
        second = await first.blocks(sink.seal_one(held, draft("2", "c")))
    sealed = second.result()
    assert [one.message for one in await sink.take()] == [sealed.messages[0].id]


@pytest.mark.parametrize("verdict", [DELIVERED, DEAD])
async def test_a_settlement_behind_a_seal_in_the_delivery_lane_lets_the_new_message_go(
    sink: Sink, suspend: Suspend, verdict: Verdict
) -> None:
    await sink.sealed("a", draft("1", "c"), conversation="c")
    taken = await sink.take_one()
    held = await sink.hold("b", "c")
    async with suspend() as first:
        sealed = await first.sink.seal_one(held, draft("2", "c"))
        second = await first.blocks(sink.settle((taken, verdict)))
    second.result()
    assert [one.message for one in await sink.take()] == [sealed.messages[0].id]


async def test_a_late_fact_behind_a_sweep_still_counts(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    turn, messages = await sink.sealed("a", draft("1"))
    taken = await sink.take_one()
    await travel(31)
    async with suspend() as first:
        assert await first.sink.sweep_messages() == 1
        second = await first.blocks(sink.tell(taken))
    assert second.result() == set(messages)
    assert await sink.state(turn) == "replied"


async def test_a_sweep_behind_a_late_fact_changes_nothing(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    turn, _ = await sink.sealed("a", draft("1"))
    taken = await sink.take_one()
    await travel(31)
    async with suspend() as first:
        await first.sink.tell(taken)
        second = await first.blocks(sink.sweep_messages())
    assert second.result() == 0
    assert await sink.state(turn) == "replied"


async def test_a_settlement_behind_a_sweep_is_refused(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    _, messages = await sink.sealed("a", draft("1"))
    taken = await sink.take_one()
    await travel(31)
    async with suspend() as first:
        await first.sink.sweep_messages()
        second = await first.blocks(sink.settle((taken, DEAD)))
    assert second.result() == [False]
    assert taken.message == messages[0]
