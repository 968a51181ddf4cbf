"""How often a verb of messages goes to the database does not depend on how much it is given."""

from typing import TYPE_CHECKING

from tests.engine.round_trips import MANY, Counted, take_many
from tests.engine.stories import DEAD, DELIVERED, LATER, UNKNOWN, Sink, draft

if TYPE_CHECKING:
    from tests.conftest import Travel


@MANY
async def test_take_is_one(one: Sink, counted: Counted, many: int) -> None:
    await one.sealed("a", *(draft("1", f"c{n}") for n in range(many)))
    assert await counted(one.take) == ["begin", "with", "commit"]


@MANY
async def test_a_delivery_is_settled_in_two(one: Sink, counted: Counted, many: int) -> None:
    taken = await take_many(one, many)
    sent = await counted(lambda: one.settle(*((t, DELIVERED) for t in taken)))
    assert sent == ["begin", "with", "with", "commit"]


@MANY
async def test_a_delivery_beside_what_failed_is_settled_in_five(
    one: Sink, counted: Counted, many: int
) -> None:
    taken = await take_many(one, many)
    await one.sealed("fails", draft("fails"))
    pairs = [(t, DELIVERED) for t in taken] + [(t, LATER) for t in await one.take()]
    sent = await counted(lambda: one.settle(*pairs))
    assert sent == ["begin", *["with"] * 5, "commit"]


@MANY
async def test_a_dead_letter_is_settled_in_six(one: Sink, counted: Counted, many: int) -> None:
    taken = await take_many(one, many)
    sent = await counted(lambda: one.settle(*((t, DEAD) for t in taken)))
    assert sent == ["begin", "with", "with", "update", "with", "with", "with", "commit"]


@MANY
async def test_a_fact_is_told_in_five(one: Sink, counted: Counted, many: int) -> None:
    taken = await take_many(one, many)
    sent = await counted(lambda: one.tell(*taken))
    assert sent == ["begin", *["with"] * 5, "commit"]


@MANY
async def test_messages_are_cancelled_in_six(one: Sink, counted: Counted, many: int) -> None:
    taken = await take_many(one, many)
    await one.settle(*((t, DEAD) for t in taken))
    sent = await counted(lambda: one.cancel_messages(*(t.message for t in taken)))
    assert sent == ["begin", "with", "select", "with", "with", "with", "commit"]


@MANY
async def test_messages_are_redriven_in_three(one: Sink, counted: Counted, many: int) -> None:
    taken = await take_many(one, many)
    await one.settle(*((t, DEAD) for t in taken))
    sent = await counted(lambda: one.redrive_messages(*(t.message for t in taken)))
    assert sent == ["begin", "with", "with", "with", "commit"]


@MANY
async def test_messages_are_resolved_in_four(one: Sink, counted: Counted, many: int) -> None:
    taken = await take_many(one, many)
    await one.settle(*((t, UNKNOWN) for t in taken))
    messages = [t.message for t in taken]
    sent = await counted(lambda: one.resolve(*messages, state="delivered"))
    assert sent == ["begin", "with", "with", "with", "with", "commit"]


@MANY
async def test_messages_are_swept_in_five(
    one: Sink, counted: Counted, travel: "Travel", many: int
) -> None:
    await take_many(one, many)
    await travel(31)
    sent = await counted(one.sweep_messages)
    assert sent == ["select", "begin", *["with"] * 4, "commit"]
