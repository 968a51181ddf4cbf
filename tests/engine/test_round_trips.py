"""How often a verb goes to the database does not depend on how much it is given."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from app.domain.model import Claimed, Taken
from app.engine.gather import LOCK_WAIT_MS
from app.engine.operation_batch import work_on
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    LATER,
    QUEUE,
    TURN_POLICY,
    UNKNOWN,
    Sink,
    arrival,
    draft,
    returning,
    sealing,
    short,
)
from tests.engine.suspense import OneSession
from tests.engine.waiting_stories import parking, telling

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link
    from tests.conftest import Travel

Counted = Callable[[Callable[[], Awaitable[object]]], Awaitable[list[str]]]

MANY = pytest.mark.parametrize("many", [1, 50])


@pytest.fixture
async def one(sink: Sink) -> AsyncIterator[Sink]:
    """The verbs over one session that can be listened to."""
    async with sink.pool.acquire() as connection:
        alone = replace(sink, pool=cast("Pool", OneSession(connection)))
        # A new session looks types up before it first uses them.
        await alone.seal_one(await alone.hold("first"))
        # The first take for a destination makes its row.
        await alone.sealed("made", draft())
        await alone.settle_next(DELIVERED)
        yield alone


@pytest.fixture
def counted(one: Sink) -> Counted:
    """Runs a verb; returns the first words of all that it sent to the database."""
    connection: Link = cast("OneSession", one.pool).connection

    async def count(verb: Callable[[], Awaitable[object]]) -> list[str]:
        sent: list[str] = []

        def listen(record: object) -> None:
            sent.append(str(getattr(record, "query", "")).replace(";", " ").split()[0].lower())

        with connection.query_logger(listen):
            await verb()
            # The session tells its listeners in the next step of the loop.
            await asyncio.sleep(0)
        return sent

    return count


async def _hold(sink: Sink, many: int) -> list[Claimed]:
    await sink.accept(*(arrival(f"k{n}", f"c{n}") for n in range(many)))
    return await sink.claim(many)


async def _taken(sink: Sink, many: int) -> list[Taken]:
    held = await _hold(sink, many)
    await sink.seal(
        *(sealing(h, draft("1", h.conversation), draft("2", h.conversation)) for h in held)
    )
    taken = await sink.take()
    assert len(taken) == many
    return taken


@MANY
async def test_accept_is_one_statement(one: Sink, counted: Counted, many: int) -> None:
    arrivals = [arrival(f"k{n}", f"c{n}") for n in range(many)]
    assert len(await counted(lambda: one.accept(*arrivals))) == 1


@MANY
async def test_accept_with_others_is_one_statement_and_no_transaction_around_it(
    one: Sink, counted: Counted, many: int
) -> None:
    arrivals = [arrival(f"k{n}", f"c{n}") for n in range(many)]
    sent = await counted(lambda: one.accept(*arrivals, lock_wait_ms=LOCK_WAIT_MS))
    assert sent == ["with"]


@MANY
async def test_what_has_several_statements_says_with_its_beginning_how_long_it_waits(
    one: Sink, counted: Counted, many: int
) -> None:
    said = [short(f"k{n}", f"c{n}") for n in range(many)]
    sent = await counted(lambda: one.accept(*said, lock_wait_ms=LOCK_WAIT_MS))
    assert sent == ["begin", "with", "insert", "with", "with", "with", "commit"]


@MANY
async def test_accept_of_what_is_known_is_two(one: Sink, counted: Counted, many: int) -> None:
    arrivals = [arrival(f"k{n}", f"c{n}") for n in range(many)]
    await one.accept(*arrivals)
    assert len(await counted(lambda: one.accept(*arrivals))) == 2


@MANY
async def test_claim_is_one_and_another_for_what_ran_before(
    one: Sink, counted: Counted, many: int
) -> None:
    await one.accept(*(arrival(f"k{n}") for n in range(many)))
    first: list[Claimed] = []

    async def claim() -> None:
        first.extend(await one.claim(many))

    assert await counted(claim) == ["begin", "with", "commit"]
    assert len(first) == many
    await one.release(*(returning(held) for held in first))
    again = await counted(lambda: one.claim(many))
    assert again == ["begin", "with", "with", "commit"]


@MANY
async def test_a_park_is_two_and_one_more_where_its_signal_was_there(
    one: Sink, counted: Counted, many: int
) -> None:
    held = await _hold(one, many)
    sent = await counted(lambda: one.park(*(parking(h) for h in held)))
    assert sent == ["begin", "with", "with", "commit"]
    await one.signal(*(telling(h.turn) for h in held))
    again = await one.claim(many)
    sent = await counted(lambda: one.park(*(parking(h) for h in again)))
    assert sent == ["begin", "with", "with", "with", "commit"]


@MANY
async def test_a_signal_is_four_and_one_more_where_it_is_waited_for(
    one: Sink, counted: Counted, many: int
) -> None:
    held = await _hold(one, many)
    sent = await counted(lambda: one.signal(*(telling(h.turn, "early") for h in held)))
    assert sent == ["begin", *["select"] * 3, "insert", "commit"]
    await one.park(*(parking(h) for h in held))
    sent = await counted(lambda: one.signal(*(telling(h.turn) for h in held)))
    assert sent == ["begin", *["select"] * 3, "insert", "with", "commit"]
    # What a signal says comes with the history.
    sent = await counted(lambda: one.claim(many))
    assert sent == ["begin", "with", "with", "commit"]


@MANY
async def test_parked_turns_are_woken_in_three(
    one: Sink, counted: Counted, travel: "Travel", many: int
) -> None:
    held = await _hold(one, many)
    await one.park(*(parking(h, seconds=10) for h in held))
    assert await counted(one.wake_parked) == ["select"]
    await travel(11)
    sent = await counted(one.wake_parked)
    assert sent == ["select", "begin", "with", "with", "commit"]


async def test_a_claim_that_finds_nothing_is_one(one: Sink, counted: Counted) -> None:
    assert await counted(lambda: one.claim(50)) == ["begin", "with", "commit"]


@MANY
async def test_renew_is_one_statement(one: Sink, counted: Counted, many: int) -> None:
    held = await _hold(one, many)
    assert len(await counted(lambda: one.renew(*held))) == 1


@MANY
async def test_release_is_three(one: Sink, counted: Counted, many: int) -> None:
    held = await _hold(one, many)
    sent = await counted(lambda: one.release(*(returning(h) for h in held)))
    assert sent == ["begin", "select", "select", "with", "commit"]


@MANY
async def test_a_final_failure_is_four(one: Sink, counted: Counted, many: int) -> None:
    held = await _hold(one, many)
    sent = await counted(lambda: one.release(*(returning(h, final=True) for h in held)))
    assert sent == ["begin", "select", "select", "with", "with", "commit"]


@MANY
async def test_seal_is_two(one: Sink, counted: Counted, many: int) -> None:
    held = await _hold(one, many)
    sets = [sealing(h, draft("1", h.conversation), draft("2", h.conversation)) for h in held]
    sent = await counted(lambda: one.seal(*sets))
    assert sent == ["begin", "with", "with", "commit"]


@MANY
async def test_take_is_one(one: Sink, counted: Counted, many: int) -> None:
    await one.sealed("a", *(draft("1", f"c{n}") for n in range(many)))
    assert await counted(one.take) == ["begin", "with", "commit"]


@MANY
async def test_a_delivery_is_settled_in_two(one: Sink, counted: Counted, many: int) -> None:
    taken = await _taken(one, many)
    sent = await counted(lambda: one.settle(*((t, DELIVERED) for t in taken)))
    assert sent == ["begin", "with", "with", "commit"]


@MANY
async def test_a_delivery_beside_what_failed_is_settled_in_five(
    one: Sink, counted: Counted, many: int
) -> None:
    taken = await _taken(one, many)
    await one.sealed("fails", draft("fails"))
    pairs = [(t, DELIVERED) for t in taken] + [(t, LATER) for t in await one.take()]
    sent = await counted(lambda: one.settle(*pairs))
    assert sent == ["begin", *["with"] * 5, "commit"]


@MANY
async def test_a_dead_letter_is_settled_in_six(one: Sink, counted: Counted, many: int) -> None:
    taken = await _taken(one, many)
    sent = await counted(lambda: one.settle(*((t, DEAD) for t in taken)))
    assert sent == ["begin", "with", "with", "update", "with", "with", "with", "commit"]


@MANY
async def test_a_fact_is_told_in_five(one: Sink, counted: Counted, many: int) -> None:
    taken = await _taken(one, many)
    sent = await counted(lambda: one.tell(*taken))
    assert sent == ["begin", *["with"] * 5, "commit"]


@MANY
async def test_joining_is_five_and_as_much_as_what_begins_a_turn(
    one: Sink, counted: Counted, many: int
) -> None:
    for name in ("begins", "joins"):
        said = [short(f"{name}-{n}", f"c{n}") for n in range(many)]
        sent = await counted(partial(one.accept, *said))
        assert sent == ["begin", "with", "insert", "with", "with", "with", "commit"]


@MANY
async def test_turns_are_cancelled_in_six(one: Sink, counted: Counted, many: int) -> None:
    held = await _hold(one, many)
    sent = await counted(lambda: one.cancel(*(h.turn for h in held)))
    assert sent == ["begin", "insert", "select", "with", "with", "select", "commit"]


@MANY
async def test_messages_are_cancelled_in_six(one: Sink, counted: Counted, many: int) -> None:
    taken = await _taken(one, many)
    await one.settle(*((t, DEAD) for t in taken))
    sent = await counted(lambda: one.cancel_messages(*(t.message for t in taken)))
    assert sent == ["begin", "with", "select", "with", "with", "with", "commit"]


@MANY
async def test_turns_are_redriven_in_six(one: Sink, counted: Counted, many: int) -> None:
    held = await _hold(one, many)
    await one.release(*(returning(h, final=True) for h in held))
    sent = await counted(lambda: one.redrive(*(h.turn for h in held)))
    assert sent == ["begin", "select", "select", *["with"] * 2, *["select"] * 2, "commit"]


@MANY
async def test_messages_are_redriven_in_three(one: Sink, counted: Counted, many: int) -> None:
    taken = await _taken(one, many)
    await one.settle(*((t, DEAD) for t in taken))
    sent = await counted(lambda: one.redrive_messages(*(t.message for t in taken)))
    assert sent == ["begin", "with", "with", "with", "commit"]


@MANY
async def test_messages_are_resolved_in_four(one: Sink, counted: Counted, many: int) -> None:
    taken = await _taken(one, many)
    await one.settle(*((t, UNKNOWN) for t in taken))
    messages = [t.message for t in taken]
    sent = await counted(lambda: one.resolve(*messages, state="delivered"))
    assert sent == ["begin", "with", "with", "with", "with", "commit"]


@MANY
async def test_turns_are_swept_in_five(
    one: Sink, counted: Counted, travel: "Travel", many: int
) -> None:
    one.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=1)}
    await _hold(one, many)
    await travel(61)
    sent = await counted(one.sweep_turns)
    assert sent == ["select", "begin", "select", "select", "with", "with", "commit"]


@MANY
async def test_messages_are_swept_in_five(
    one: Sink, counted: Counted, travel: "Travel", many: int
) -> None:
    await _taken(one, many)
    await travel(31)
    sent = await counted(one.sweep_messages)
    assert sent == ["select", "begin", *["with"] * 4, "commit"]


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
    held = await _hold(one, many)
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
