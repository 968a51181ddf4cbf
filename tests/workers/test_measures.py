"""What loops and workers tell of themselves, and of the turns and messages that they move."""

import asyncio
from typing import Any

from app.core import Core
from app.engine.wake import queue_topic
from app.workers.deliverer import Deliverer
from app.workers.loop import Loop, run_loop
from app.workers.measures import measure_work
from tests.database import Clock
from tests.engine.stories import DEAD, UNKNOWN, Sink, draft
from tests.receiver import Receiver, status
from tests.workers.conftest import OpenCore, destination


def value(core: Core, name: str, **labels: Any) -> float:
    return core.metrics.registry.get_sample_value(f"sinksweep_{name}", labels) or 0.0


async def _deliver(core: Core) -> None:
    async with asyncio.TaskGroup() as group:
        deliverer = Deliverer(core, group)
        await deliverer.tick()
        while deliverer.unsettled:
            await deliverer.settle_ended()


async def test_a_turn_that_is_replied_is_timed_from_its_seal_and_from_its_input(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    async with opening({"crm": destination(receiver)}) as core:
        held = await sink.hold("a")
        await clock.travel(100)
        await sink.seal_one(held, draft("one"), draft("two"))
        await clock.travel(20)
        await _deliver(core)
        assert await sink.state(held.turn) == "sealed"
        await _deliver(core)
        assert await sink.state(held.turn) == "replied"
        for name, seconds in (("seal_to_replied", 20), ("accept_to_replied", 120)):
            assert value(core, f"{name}_seconds_count", queue="default") == 1
            total = value(core, f"{name}_seconds_sum", queue="default")
            assert seconds <= total < seconds + 10
        assert value(core, "turns_settled_total", queue="default", state="replied") == 1
        attempts = value(core, "delivery_attempts_total", destination="crm", outcome="delivered")
        assert attempts == 2


async def test_a_set_that_cannot_move_is_counted_and_not_timed(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    receiver.answer = status(400)
    async with opening({"crm": destination(receiver)}) as core:
        await sink.sealed("a", draft("one"))
        await _deliver(core)
        assert value(core, "turns_settled_total", queue="default", state="undelivered") == 1
        assert value(core, "seal_to_replied_seconds_count", queue="default") == 0


async def test_a_turn_of_a_queue_that_is_not_configured_here_has_no_name(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    await sink.accept_one("a", queue="gone")
    (held,) = await sink.claim(queue="gone")
    await sink.seal_one(held, draft("one"))
    async with opening({"crm": destination(receiver)}) as core:
        await _deliver(core)
        assert value(core, "turns_settled_total", queue="", state="replied") == 1
        assert value(core, "turns_settled_total", queue="gone", state="replied") == 0


async def test_messages_are_counted_by_destination_and_state(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    for n, verdict in enumerate((DEAD, UNKNOWN, UNKNOWN)):
        await sink.sealed(f"ended-{n}", draft("x"))
        await sink.settle_next(verdict)
    await sink.sealed("sent", draft("x"))
    await sink.take_one()
    await sink.sealed("waits", draft("x"))
    await clock.travel(30)
    async with opening({"crm": destination(receiver), "idle": destination(receiver)}) as core:
        await measure_work(core)
        found = {
            state: value(core, "messages", destination="crm", state=state)
            for state in ("pending", "sending", "dead", "unknown")
        }
        assert found == {"pending": 1, "sending": 1, "dead": 1, "unknown": 2}
        assert value(core, "messages", destination="idle", state="dead") == 0
        assert 30 <= value(core, "oldest_pending_age_seconds", destination="crm") < 40
        assert value(core, "turns", queue="default", state="sealed") == 2
        assert value(core, "turns", queue="default", state="undelivered") == 3
        assert value(core, "oldest_turn_age_seconds", queue="default", state="undelivered") >= 30


async def test_what_is_gone_is_shown_as_gone(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    async with opening({"crm": destination(receiver)}) as core:
        await sink.sealed("a", draft("x"))
        await measure_work(core)
        assert value(core, "messages", destination="crm", state="pending") == 1
        await _deliver(core)
        await measure_work(core)
        assert value(core, "messages", destination="crm", state="pending") == 0
        assert value(core, "turns", queue="default", state="sealed") == 0


async def test_passes_are_counted_and_timed(opening: OpenCore) -> None:
    stop = asyncio.Event()
    passes = 0

    async def tick() -> float:
        nonlocal passes
        passes += 1
        if passes == 1:
            raise RuntimeError("broken")
        stop.set()
        return 60.0

    async with opening({}) as core:
        await run_loop(Loop("test", tick, 1.0), core=core, stop=stop)
        assert value(core, "loop_passes_total", loop="test", result="failed") == 1
        assert value(core, "loop_passes_total", loop="test", result="done") == 1
        assert value(core, "loop_pass_seconds_count", loop="test") == 1


async def test_processes_that_hear_each_other_say_so_and_tell_how_their_clock_stands(
    opening: OpenCore,
) -> None:
    async with (
        opening({}) as one,
        opening({}) as other,
        asyncio.timeout(20),
        asyncio.TaskGroup() as group,
    ):
        listening = [group.create_task(core.wakes.run()) for core in (one, other)]
        while not (one.wakes.listening and other.wakes.listening):
            await asyncio.sleep(0.01)
        before = value(other, "wakeups_heard_total")
        one.wakes.tell(queue_topic("default"))
        while value(other, "wakeups_heard_total") == before:
            await asyncio.sleep(0.01)
        assert value(one, "wakeups_connections_total") == 1
        ahead = one.wakes.clock_ahead_seconds
        assert ahead is not None
        assert abs(ahead) < 2
        for task in listening:
            task.cancel()
