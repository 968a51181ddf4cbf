"""Operations over many: everything that was asked for, once, whoever works on it and whatever dies meanwhile."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import pytest

from app.engine.inspect import find_events
from app.engine.matching import Filter
from app.engine.operation import (
    STATES,
    Operation,
    Order,
    cancel_operation,
    count_matches,
    find_operation,
    list_operations,
    running_operations,
)
from app.engine.operation_batch import work_on
from app.engine.pages import LATEST
from app.engine.transaction import Busy
from tests.database import wait_for_lock
from tests.engine.stories import DEAD, DELIVERED, UNKNOWN, Sink, draft, returning
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

BATCHES_MAX = 200


def order(kind: Any, verb: Any, outcome: Any = None, **wanted: Any) -> Order:
    """A verb over what matches."""
    chosen = Filter(**{"states": STATES[kind, verb], **wanted})
    return Order(kind=kind, verb=verb, wanted=chosen, asked={"all": True}, outcome=outcome)


async def finish(sink: Sink, operation: UUID, **bounds: int) -> Operation:
    """Work until nothing is left."""
    for _ in range(BATCHES_MAX):
        batch = await work_on(sink.pool, operation, **{"rows_max": 100, **bounds})
        if batch is None:
            break
    done = await find_operation(sink.pool, operation)
    assert done is not None
    return done


async def failed(sink: Sink, *keys: str, conversation: str | None = None) -> list[UUID]:
    """Turns that have failed."""
    turns = []
    for key in keys:
        held = await sink.hold(key, conversation)
        await sink.release(returning(held, final=True))
        turns.append(held.turn)
    return turns


async def stuck(sink: Sink, *keys: str, verdict: Any = DEAD) -> list[UUID]:
    """Messages that are dead, or otherwise stuck."""
    messages = []
    for key in keys:
        _, (message,) = await sink.sealed(key, draft(key))
        assert await sink.settle_next(verdict) == message
        messages.append(message)
    return messages


def counts(operation: Operation) -> tuple[str, int, int, int, int]:
    return (
        operation.state, operation.found, operation.changed, operation.refused, operation.failed,
    )  # fmt: skip


@pytest.mark.parametrize("bounds", [{}, {"rows_max": 2, "walk_max": 3}], ids=["wide", "narrow"])
@pytest.mark.parametrize("states", [None, ("queued", "failed")])
async def test_what_matches_is_done_in_batches_and_nothing_else(
    sink: Sink, bounds: dict[str, int], states: Sequence[str] | None
) -> None:
    ended = await failed(sink, *(f"f{n}" for n in range(7)))
    other = await sink.accept_one("other", queue="support")
    sealed, _ = await sink.sealed("sealed", draft("x"))
    queued = [(await sink.accept_one(f"q{n}")).turn for n in range(7)]
    wanted = {} if states is None else {"states": states}
    operation = await sink.begin("turn", "cancel", queues=["default"], **wanted)
    later = await sink.accept_one("later")
    done = await finish(sink, operation, **bounds)
    assert counts(done) == ("done", *((15, 15) if states is None else (14, 14)), 0, 0)
    assert done.ended_at is not None
    assert {await sink.state(turn) for turn in (*ended, *queued)} == {"cancelled"}
    assert await sink.state(other.turn) == "queued"
    assert await sink.state(later.turn) == "queued"
    assert await sink.state(sealed) == ("undelivered" if states is None else "sealed")
    assert await work_on(sink.pool, operation, rows_max=100) is None


async def test_the_story_of_each_names_who_wanted_it(sink: Sink) -> None:
    (turn,) = await failed(sink, "a")
    await finish(sink, await sink.begin("turn", "redrive"))
    events = await find_events(sink.pool, turn, after=0, events_max=100)
    assert (events[-1].verb, events[-1].detail) == ("redrive", {"by": "ada"})


@pytest.mark.parametrize("rows_max", [1, 100])
async def test_a_lane_is_redriven_in_its_order_however_it_is_cut(sink: Sink, rows_max: int) -> None:
    turns = await failed(sink, "first", "second", "third", conversation="c")
    done = await finish(sink, await sink.begin("turn", "redrive"), rows_max=rows_max)
    assert counts(done) == ("done", 3, 3, 0, 0)
    assert [await sink.state(turn) for turn in turns] == ["queued", "waiting", "waiting"]


@pytest.mark.parametrize("bounds", [{}, {"rows_max": 1, "walk_max": 2}], ids=["wide", "narrow"])
async def test_messages_are_redriven_resolved_and_cancelled(
    sink: Sink, bounds: dict[str, int]
) -> None:
    dead = await stuck(sink, *(f"d{n}" for n in range(3)))
    unknown = await stuck(sink, *(f"u{n}" for n in range(3)), verdict=UNKNOWN)
    done = await finish(sink, await sink.begin("message", "resolve", "delivered"), **bounds)
    assert counts(done) == ("done", 3, 3, 0, 0)
    assert {(await sink.look(await _turn(sink, one))).state for one in unknown} == {"replied"}
    done = await finish(sink, await sink.begin("message", "redrive", destination="crm"), **bounds)
    assert counts(done) == ("done", 3, 3, 0, 0)
    done = await finish(sink, await sink.begin("message", "cancel", queues=["other"]), **bounds)
    assert counts(done) == ("done", 0, 0, 0, 0)
    done = await finish(sink, await sink.begin("message", "cancel"), **bounds)
    assert counts(done) == ("done", 3, 3, 0, 0)
    assert {(await sink.states(await _turn(sink, one)))[0] for one in dead} == {"cancelled"}


@pytest.mark.parametrize("bounds", [{}, {"rows_max": 1, "walk_max": 2}], ids=["wide", "narrow"])
async def test_what_was_delivered_when_it_began_is_sent_once_more_and_only_once(
    sink: Sink, bounds: dict[str, int]
) -> None:
    messages = await stuck(sink, *(f"m{n}" for n in range(3)), verdict=DELIVERED)
    await sink.ask_resend(messages[0])
    await stuck(sink, "dead")
    on_its_way = await sink.sealed("on its way", draft("on its way"))
    operation = await sink.begin("message", "resend")
    assert await sink.settle_next(DELIVERED) == on_its_way[1][0]
    done = await finish(sink, operation, **bounds)
    # One had been asked for already.
    assert counts(done) == ("done", 3, 2, 1, 0)
    assert {resend.taken.message for resend in await sink.take_resends()} == set(messages)
    assert {await sink.state(await _turn(sink, one)) for one in messages} == {"replied"}


async def _turn(sink: Sink, message: UUID) -> UUID:
    async with sink.pool.acquire() as connection:
        turn: UUID = await connection.fetchval(
            "select turn from sink.outbox where id = $1", message
        )
        return turn


async def test_reasons_conversations_and_times_choose(sink: Sink, travel: "Travel") -> None:
    (early,) = await failed(sink, "early", conversation="c")
    await travel(60)
    (late,) = await failed(sink, "late", conversation="d")
    looked = await sink.look(late)
    for wanted, turns in (
        ({"conversation": "c"}, [early]),
        ({"reason": "busy"}, [early, late]),
        ({"reason": "other"}, []),
        ({"created_after": looked.created_at}, [late]),
        ({"created_before": looked.created_at}, [early]),
    ):
        for states in (("failed",), ("failed", "queued")):
            chosen = order("turn", "cancel", states=states, **wanted)
            assert await count_matches(sink.pool, chosen, until=LATEST) == (len(turns), False)
    operation = await sink.begin("turn", "redrive", created_before=looked.created_at)
    kept = await find_operation(sink.pool, operation)
    assert kept is not None
    assert kept.order.wanted.created_before == looked.created_at
    assert (await finish(sink, operation)).changed == 1


async def test_a_dry_run_counts_up_to_its_limit_and_changes_nothing(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed(sink, *(f"f{n}" for n in range(5)))
    chosen = order("turn", "redrive")
    assert await count_matches(sink.pool, chosen, until=LATEST) == (5, False)
    monkeypatch.setattr("app.engine.operation.COUNT_MAX", 3)
    assert await count_matches(sink.pool, chosen, until=LATEST) == (3, True)
    assert await running_operations(sink.pool, operations_max=10) == []


async def test_what_has_moved_on_when_its_turn_comes_is_refused_and_left_alone(
    sink: Sink, suspend: Suspend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.operation_batch.LOCK_WAIT_MS", 10_000)
    queued = await sink.accept_one("a")
    operation = await sink.begin("turn", "cancel", states=["queued"])
    async with suspend() as agent:
        await agent.sink.claim_one()
        working = await agent.blocks(work_on(sink.pool, operation, rows_max=10))
    batch = working.result()
    assert batch is not None
    assert counts(batch.operation) == ("done", 1, 0, 1, 0)
    assert await sink.state(queued.turn) == "processing"


async def test_a_message_that_is_taken_meanwhile_is_not_cancelled_as_pending(
    sink: Sink, suspend: Suspend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.operation_batch.LOCK_WAIT_MS", 10_000)
    turn, _ = await sink.sealed("a", draft())
    operation = await sink.begin("message", "cancel", states=["pending"])
    async with suspend() as worker:
        await worker.sink.take()
        working = await worker.blocks(work_on(sink.pool, operation, rows_max=10))
    batch = working.result()
    assert batch is not None
    assert counts(batch.operation) == ("done", 1, 0, 1, 0)
    assert await sink.states(turn) == ["sending"]


async def test_a_worker_that_dies_before_its_commit_leaves_its_batch_to_the_next(
    sink: Sink, suspend: Suspend
) -> None:
    turns = await failed(sink, "a", "b", "c")
    operation = await sink.begin("turn", "redrive")
    async with suspend() as worker:
        batch = await work_on(worker.sink.pool, operation, rows_max=2)
        assert batch is not None
        assert len(batch.changed) == 2
        # Nobody else works on it meanwhile, and nobody waits.
        assert await work_on(sink.pool, operation, rows_max=2) is None
        worker.roll_back()
    assert {await sink.state(turn) for turn in turns} == {"failed"}
    assert counts(await finish(sink, operation, rows_max=2)) == ("done", 3, 3, 0, 0)


async def test_two_at_once_never_work_on_the_same_operation(sink: Sink, admin: "Admin") -> None:
    await failed(sink, "a", "b")
    operation = await sink.begin("turn", "redrive")
    async with admin.transaction():
        await admin.execute("select from sink.operation where id = $1 for update", operation)
        assert await work_on(sink.pool, operation, rows_max=1) is None
    assert counts(await finish(sink, operation, rows_max=1)) == ("done", 2, 2, 0, 0)


async def test_many_workers_do_all_of_it_once(sink: Sink, admin: "Admin") -> None:
    turns = await failed(sink, *(f"f{n}" for n in range(30)))
    operation = await sink.begin("turn", "redrive")
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(finish(sink, operation, rows_max=3))
    done = await finish(sink, operation, rows_max=3)
    assert counts(done) == ("done", 30, 30, 0, 0)
    redriven = await admin.fetchval("select count(*) from sink.event where verb = 'redrive'")
    assert redriven == len(turns)


async def test_one_that_cannot_be_done_is_counted_and_keeps_no_other(
    sink: Sink, admin: "Admin"
) -> None:
    turns = await failed(sink, *(f"f{n}" for n in range(5)))
    await admin.execute(
        f"""
        create function sink.refuse() returns trigger language plpgsql as $$
        begin if new.id = '{turns[2]}' then raise 'not this one'; end if; return new; end $$;
        create trigger refuse before update on sink.turn for each row execute function sink.refuse()
        """
    )
    operation = await sink.begin("turn", "redrive")
    batch = await work_on(sink.pool, operation, rows_max=10)
    assert batch is not None
    assert [type(error) for error in batch.failed] == [asyncpg.RaiseError]
    assert len(batch.changed) == 4
    done = await finish(sink, operation)
    assert counts(done) == ("done", 5, 4, 0, 1)
    assert await sink.state(turns[2]) == "failed"


async def test_what_somebody_holds_is_waited_for_and_not_left_out(
    sink: Sink, admin: "Admin"
) -> None:
    turns = await failed(sink, "a", "b", "c")
    operation = await sink.begin("turn", "redrive")
    async with admin.transaction():
        await admin.execute("select from sink.turn where id = $1 for update", turns[1])
        with pytest.raises(Busy):
            await work_on(sink.pool, operation, rows_max=10)
        held = await find_operation(sink.pool, operation)
        assert held is not None
        assert counts(held) == ("running", 1, 1, 0, 0)
    assert counts(await finish(sink, operation)) == ("done", 3, 3, 0, 0)


async def test_a_cancelled_operation_stops_behind_its_batch(sink: Sink) -> None:
    turns = await failed(sink, *(f"f{n}" for n in range(4)))
    operation = await sink.begin("turn", "redrive")
    await work_on(sink.pool, operation, rows_max=1)
    for _ in range(2):
        stopped = await cancel_operation(sink.pool, operation)
        assert stopped is not None
        assert counts(stopped) == ("cancelled", 1, 1, 0, 0)
    assert await work_on(sink.pool, operation, rows_max=10) is None
    assert [await sink.state(turn) for turn in turns] == ["queued", *["failed"] * 3]
    assert await running_operations(sink.pool, operations_max=10) == []


async def test_a_cancel_waits_for_the_batch_that_is_being_done(sink: Sink, admin: "Admin") -> None:
    await failed(sink, "a", "b")
    operation = await sink.begin("turn", "redrive")
    async with asyncio.TaskGroup() as group, admin.transaction():
        await admin.execute("select from sink.operation where id = $1 for update", operation)
        cancelling = group.create_task(cancel_operation(sink.pool, operation))
        await wait_for_lock(admin)
        await admin.execute(
            "update sink.operation set state = 'done', ended_at = sink.now() where id = $1",
            operation,
        )
    ended = cancelling.result()
    assert ended is not None
    assert ended.state == "done"


async def test_an_operation_over_nothing_is_done_at_once(sink: Sink) -> None:
    for kind, verb in STATES:
        outcome = "cancelled" if verb == "resolve" else None
        assert counts(await finish(sink, await sink.begin(kind, verb, outcome))) == (
            "done", 0, 0, 0, 0,
        )  # fmt: skip


async def test_operations_are_listed_newest_first_and_by_the_queues_they_are_about(
    sink: Sink,
) -> None:
    everything = await sink.begin("turn", "redrive")
    one = await sink.begin("turn", "redrive", queues=["default"])
    two = await sink.begin("message", "cancel", queues=["default", "support"])
    for queues, wanted in (
        (None, [two, one, everything]),
        (["default"], [one]),
        (["support", "default"], [two, one]),
        (["nobodys"], []),
    ):
        listed = await list_operations(sink.pool, queues=queues, before=LATEST, limit=10)
        assert [operation.id for operation in listed] == wanted
    (last,) = await list_operations(sink.pool, queues=None, before=one, limit=10)
    assert last.id == everything
    assert await find_operation(sink.pool, sink.ids.new()) is None
    assert await cancel_operation(sink.pool, sink.ids.new()) is None
