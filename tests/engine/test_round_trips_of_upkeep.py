"""How often people's verbs and the loops go to the database does not depend on how much there is."""

from dataclasses import replace
from typing import TYPE_CHECKING

from app.engine.operation_batch import work_on
from tests.engine.round_trips import MANY, Counted, hold_many
from tests.engine.stories import QUEUE, TURN_POLICY, Sink, arrival, draft, returning
from tests.engine.waiting_stories import parking

if TYPE_CHECKING:
    from tests.conftest import Travel


@MANY
async def test_parked_turns_are_woken_in_three(
    one: Sink, counted: Counted, travel: "Travel", many: int
) -> None:
    held = await hold_many(one, many)
    await one.park(*(parking(h, seconds=10) for h in held))
    assert await counted(one.wake_parked) == ["select"]
    await travel(11)
    sent = await counted(one.wake_parked)
    assert sent == ["select", "begin", "with", "with", "commit"]


@MANY
async def test_turns_are_cancelled_in_six(one: Sink, counted: Counted, many: int) -> None:
    held = await hold_many(one, many)
    sent = await counted(lambda: one.cancel(*(h.turn for h in held)))
    assert sent == ["begin", "insert", "select", "with", "with", "select", "commit"]


@MANY
async def test_turns_are_redriven_in_six(one: Sink, counted: Counted, many: int) -> None:
    held = await hold_many(one, many)
    await one.release(*(returning(h, final=True) for h in held))
    sent = await counted(lambda: one.redrive(*(h.turn for h in held)))
    assert sent == ["begin", "select", "select", *["with"] * 2, *["select"] * 2, "commit"]


@MANY
async def test_turns_are_swept_in_five(
    one: Sink, counted: Counted, travel: "Travel", many: int
) -> None:
    one.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=1)}
    await hold_many(one, many)
    await travel(61)
    sent = await counted(one.sweep_turns)
    assert sent == ["select", "begin", "select", "select", "with", "with", "commit"]


@MANY
async def test_turns_become_due_in_three(
    one: Sink, counted: Counted, travel: "Travel", many: int
) -> None:
    await one.accept(*(arrival(f"k{n}", f"c{n}", delay_seconds=5) for n in range(many)))
    await travel(6)
    assert await counted(one.due) == ["select", "begin", "insert", "with", "commit"]


@MANY
async def test_turns_become_due_behind_a_pause_in_three(
    one: Sink, counted: Counted, many: int
) -> None:
    await one.pause("source", "api")
    await one.accept(*(arrival(f"k{n}", f"c{n}") for n in range(many)))
    await one.resume("source", "api")
    assert await counted(one.due_after_pause) == ["with", "begin", "insert", "with", "commit"]


@MANY
async def test_what_is_too_old_is_told_by_its_claim_and_ends_in_five(
    one: Sink, counted: Counted, travel: "Travel", many: int
) -> None:
    await one.accept(*(arrival(f"k{n}", f"c{n}") for n in range(many)))
    await travel(61)
    sent = await counted(lambda: one.claim(many, input_age_seconds_max=60.0))
    claim = ["begin", "with", "commit"]
    assert sent == [*claim, "begin", *["select"] * 3, "with", "with", "commit", *claim]


async def test_a_pause_is_two_and_one_behind_those_who_take(one: Sink, counted: Counted) -> None:
    sent = await counted(lambda: one.pause("destination", "crm"))
    assert sent == ["begin", "with", "select", "commit", "select"]
    assert await counted(lambda: one.pause("queue", "default")) == sent[:-1]


@MANY
async def test_a_batch_of_an_operation_is_four_more_than_its_verb(
    one: Sink, counted: Counted, many: int
) -> None:
    held = await hold_many(one, many)
    await one.release(*(returning(h, final=True) for h in held))
    operation = await one.begin("turn", "redrive")
    sent = await counted(lambda: work_on(one.pool, operation, rows_max=many))
    verb = [*["with"] * 2, *["select"] * 2]
    assert sent == ["begin", "select", "with", *["select"] * 3, *verb, "update", "commit"]


async def test_loops_that_find_nothing_ask_once(one: Sink, counted: Counted) -> None:
    # What is alive and what is not due yet is not even looked at.
    await one.sealed("a", draft())
    await one.take()
    await one.hold("b")
    await one.accept_one("d", delay_seconds=60)
    for idle in (one.sweep_turns, one.sweep_messages, one.due):
        assert await counted(idle) == ["select"]
    assert await counted(one.due_after_pause) == ["with"]
