"""The sweep tells people: as a message, at once, counted, and in the log where nobody is named."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from app.core import Core
from app.domain.model import HoldPlan
from app.engine.wake import OUTBOX, SWEEP, queue_topic
from app.workers.deliverer import Deliverer
from app.workers.loop import Loop, run_loop
from app.workers.measures import measure_work
from app.workers.sweeper import GATHER_SECONDS, Sweeper
from tests.database import Clock
from tests.engine.stories import DEAD, Sink, draft, sealing
from tests.receiver import Receiver, status
from tests.workers.conftest import OpenCore, destination

TOLD = {"default": {"escalate_to": "oncall"}}


def value(core: Core, name: str, **labels: Any) -> float:
    return core.metrics.registry.get_sample_value(f"sinksweep_{name}", labels) or 0.0


async def _deliver(core: Core) -> None:
    async with asyncio.TaskGroup() as group:
        deliverer = Deliverer(core, group)
        await deliverer.tick()
        while deliverer.unsettled:
            await deliverer.settle_ended()


async def _failed(sink: Sink, key: str) -> None:
    held = await sink.hold(key)
    await sink.hand_back(held, final=True, reason="impossible")


async def test_a_pass_tells_and_wakes_who_delivers_and_counts(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    await _failed(sink, "a")
    async with opening({"oncall": destination(receiver)}, queues=TOLD) as core:
        with core.wakes.waiting(OUTBOX) as woken:
            await Sweeper(core).tick()
            assert woken.is_set()
        await _deliver(core)
        labels = {"queue": "default", "kind": "escalation", "result": "told"}
        assert value(core, "notices_total", **labels) == 1
        # It was no input: nobody waited for it from an accept on.
        assert value(core, "accept_to_replied_seconds_count", queue="default") == 0
        assert value(core, "turns_settled_total", queue="default", state="replied") == 1
    (request,) = receiver.got
    assert json.loads(request.body)["reason"] == "impossible"


async def test_where_nobody_can_be_reached_it_is_tried_again_and_nothing_is_lost(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    await _failed(sink, "a")
    receiver.answer = status(503)
    destinations = {"oncall": destination(receiver), "crm": destination(receiver)}
    async with opening(destinations, queues=TOLD) as core:
        await Sweeper(core).tick()
        for _ in range(3):
            await _deliver(core)
            await clock.travel(5)
        # What else there is goes on meanwhile.
        turn, _ = await sink.sealed("b", draft())
        assert await sink.state(turn) == "sealed"
        receiver.answer = status(200)
        await _deliver(core)
    assert len(receiver.got) >= 4
    told = [request for request in receiver.got if b"impossible" in request.body]
    assert len({(request.key, request.body) for request in told}) == 1


async def test_a_queue_that_names_nobody_is_told_of_once_in_the_log_and_counted(
    sink: Sink, opening: OpenCore, caplog: pytest.LogCaptureFixture
) -> None:
    async with opening({}) as core:
        sweeper = Sweeper(core)
        for key in ("a", "b"):
            await _failed(sink, key)
            await sweeper.tick()
        labels = {"queue": "default", "kind": "escalation", "result": "nobody"}
        assert value(core, "notices_total", **labels) == 2
    assert caplog.text.count("nobody is told of this: its queue has no escalate_to") == 1


async def test_how_long_somebody_is_waiting_to_be_told_is_measured(
    sink: Sink, opening: OpenCore, clock: Clock
) -> None:
    async with opening({}) as core:
        await measure_work(core)
        assert value(core, "oldest_notice_age_seconds") == 0
        turn, _ = await sink.sealed("a", draft())
        await sink.settle_next(DEAD)
        await clock.travel(90)
        await measure_work(core)
        assert 90 <= value(core, "oldest_notice_age_seconds") < 120
        assert await sink.state(turn) == "undelivered"


async def test_a_sweep_is_woken_at_once_and_rests_between_two_wake_ups(opening: OpenCore) -> None:
    passes, stop = 0, asyncio.Event()

    async def tick() -> float:
        nonlocal passes
        passes += 1
        return 60.0

    async with opening({}) as core, asyncio.timeout(10), asyncio.TaskGroup() as group:
        with core.wakes.waiting(SWEEP) as woken:
            loop = Loop("sweep", tick, 1.0, woken, GATHER_SECONDS)
            group.create_task(run_loop(loop, core=core, stop=stop))
            began = asyncio.get_running_loop().time()
            while passes < 4:
                core.wakes.tell(SWEEP)
                await asyncio.sleep(0.001)
            took = asyncio.get_running_loop().time() - began
            stop.set()
    assert took >= 3 * GATHER_SECONDS * 0.9


async def test_queues_with_holds_that_nobody_hears_of_are_told_of_at_the_start(
    opening: OpenCore, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    queues = {"support": {"hold": "always"}}
    async with opening({"crm": destination(receiver)}, queues=queues):
        pass
    assert caplog.text.count("queues.support.escalate_to: not set") == 1


async def test_a_deadline_comes_with_nobody_asking_and_somebody_is_told_in_the_next_pass(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    held = await sink.hold("a")
    plan = HoldPlan("queue", deadline_seconds=60.0, on_deadline="escalate")
    await sink.seal(replace(sealing(held, draft()), hold=plan))
    queues = {"default": {"escalate_to": "oncall", "approvers": "boss", "reminder_seconds": 100}}
    destinations = {"oncall": destination(receiver), "boss": destination(receiver)}
    async with opening(destinations, queues=queues) as core:
        sweeper = Sweeper(core)
        await sweeper.tick()
        for seconds, outcome in ((61, "escalated"), (101, "reminded")):
            await clock.travel(seconds)
            with core.wakes.waiting(SWEEP) as woken:
                await sweeper.tick()
                assert woken.is_set()
            assert value(core, "hold_deadlines_total", outcome=outcome) == 1
            await sweeper.tick()
        await measure_work(core)
        age = value(core, "oldest_hold_age_seconds", queue="default", state="escalated")
        assert 162 <= age < 200
        assert value(core, "turns", queue="default", state="escalated") == 1
        await _deliver(core)
    told = [json.loads(request.body) for request in receiver.got]
    assert sorted((one["kind"], one["reminders"]) for one in told) == [
        ("escalation", 1),
        ("escalation", 2),
        ("hold", 0),
    ]


async def test_a_park_ends_at_its_deadline(sink: Sink, opening: OpenCore, clock: Clock) -> None:
    held = await sink.parked("a", seconds=60.0)
    async with opening({}) as core:
        await Sweeper(core).tick()
        assert await sink.state(held.turn) == "parked"
        await clock.travel(61)
        with core.wakes.waiting(queue_topic("default")) as woken:
            await Sweeper(core).tick()
            assert woken.is_set()
        assert value(core, "parks_ended_total", reason="deadline") == 1
    assert await sink.state(held.turn) == "queued"
