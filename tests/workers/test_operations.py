"""A sweeper works on operations in a part of its time, on each in turn, and what is wrong with one keeps no other."""

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.engine.operation import Operation, find_operation
from app.engine.wake import OUTBOX, RESEND, queue_topic, turn_topic
from app.workers import operations
from app.workers.operations import work_on_operations
from app.workers.sweeper import Sweeper
from tests.engine.stories import DELIVERED, Sink, draft, returning
from tests.workers.conftest import OpenCore

if TYPE_CHECKING:
    from tests.database import Admin


async def failed(sink: Sink, *keys: str) -> list[UUID]:
    turns = []
    for key in keys:
        held = await sink.hold(key)
        await sink.release(returning(held, final=True))
        turns.append(held.turn)
    return turns


async def found(sink: Sink, operation: UUID) -> Operation:
    one = await find_operation(sink.pool, operation)
    assert one is not None
    return one


async def test_a_pass_of_the_sweeper_works_on_what_there_is(sink: Sink, opening: OpenCore) -> None:
    (turn,) = await failed(sink, "a")
    sealed, _ = await sink.sealed("b", draft("x"))
    redriven = await sink.begin("turn", "redrive")
    cancelled = await sink.begin("message", "cancel")
    async with opening({}) as core:
        await Sweeper(core).tick()
    assert {(await found(sink, one)).state for one in (redriven, cancelled)} == {"done"}
    assert await sink.state(turn) == "queued"
    assert await sink.state(sealed) == "undelivered"


async def test_a_pass_ends_although_there_is_more_to_do(
    sink: Sink, opening: OpenCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed(sink, *(f"k{n}" for n in range(6)))
    operation = await sink.begin("turn", "redrive")
    monkeypatch.setattr(operations, "SECONDS_MAX", 0.0)
    async with opening({}, sweep={"batch_max": 2}) as core:
        for done in (2, 4, 6):
            await Sweeper(core).tick()
            assert (await found(sink, operation)).changed == done


async def test_where_the_time_is_short_every_operation_gets_on(
    sink: Sink, opening: OpenCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed(sink, *(f"k{n}" for n in range(40)))
    begun = [await sink.begin("turn", "cancel", states=["failed"], reason="busy") for _ in range(3)]
    monkeypatch.setattr(operations, "SECONDS_MAX", 0.0)
    async with opening({}, sweep={"batch_max": 1}) as core:
        for _ in range(30):
            await work_on_operations(core)
    assert min([(await found(sink, one)).found for one in begun]) > 0


async def test_two_sweepers_share_the_work(sink: Sink, opening: OpenCore, admin: "Admin") -> None:
    await failed(sink, *(f"k{n}" for n in range(30)))
    begun = [await sink.begin("turn", verb) for verb in ("redrive", "cancel")]
    async with (
        opening({}, sweep={"batch_max": 3}) as one,
        opening({}, sweep={"batch_max": 3}) as two,
    ):
        async with asyncio.TaskGroup() as group:
            for core in (one, two):
                group.create_task(work_on_operations(core))
        while "running" in [(await found(sink, operation)).state for operation in begun]:
            await work_on_operations(one)
    assert await admin.fetchval("select count(*) from sink.turn where state = 'cancelled'") == 30
    assert (await found(sink, begun[1])).changed == 30


async def test_an_operation_that_fails_keeps_no_other(
    sink: Sink,
    opening: OpenCore,
    admin: "Admin",
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operations, "SECONDS_MAX", 10.0)
    (turn,) = await failed(sink, "a")
    other = await sink.accept_one("b", "conversation")
    broken = await sink.begin("turn", "cancel", states=["queued"], conversation="conversation")
    await admin.execute("update sink.operation set verb = 'unheard of'")
    well = await sink.begin("turn", "redrive")
    async with opening({}) as core:
        await work_on_operations(core)
    assert "some could not be done" in caplog.text
    assert (await found(sink, broken)).failed == 1
    assert (await found(sink, well)).state == "done"
    assert await sink.state(turn) == await sink.state(other.turn) == "queued"


async def test_who_waits_is_told_of_what_was_changed(
    sink: Sink, opening: OpenCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (turn,) = await failed(sink, "a")
    await sink.begin("turn", "redrive")
    told: set[str] = set()
    async with opening({}) as core:
        monkeypatch.setattr(core.wakes, "tell", lambda *topics: told.update(topics))
        await work_on_operations(core)
    assert told == {OUTBOX, queue_topic("default"), turn_topic(turn)}


async def test_who_sends_once_more_is_told_of_what_was_asked_for(
    sink: Sink, opening: OpenCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sink.sealed("a", draft("x"))
    await sink.settle_next(DELIVERED)
    await sink.begin("message", "resend")
    told: set[str] = set()
    async with opening({}) as core:
        monkeypatch.setattr(core.wakes, "tell", lambda *topics: told.update(topics))
        await work_on_operations(core)
    assert RESEND in told


async def test_a_drain_begins_no_further_batch(sink: Sink, opening: OpenCore) -> None:
    await failed(sink, "a")
    operation = await sink.begin("turn", "redrive")
    async with opening({}) as core:
        core.draining.start()
        await work_on_operations(core)
    assert (await found(sink, operation)).state == "running"
