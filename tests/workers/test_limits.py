"""Limits over all replicas, breakers, and a healthy destination beside slow and dead ones: over real sockets."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from aiohttp import web

from app.core import Core
from app.engine.breaker import reset_breaker
from app.engine.take import CROWDED_SECONDS
from app.engine.transaction import transact
from app.engine.wake import OUTBOX
from app.workers.breakers import measure_breakers
from app.workers.deliverer import Deliverer
from app.workers.loop import Loop, run_loop
from tests.database import Clock
from tests.engine.stories import Sink, draft
from tests.receiver import Receiver, Request, fine, open_receiver, status
from tests.workers.conftest import OpenCore, destination
from tests.workers.test_deliverer import delivering, until_state


@asynccontextmanager
async def replica(core: Core) -> AsyncIterator[Deliverer]:
    """A whole delivery worker: its loops run by themselves."""
    stop = asyncio.Event()
    async with delivering(core) as deliverer, asyncio.TaskGroup() as loops:
        with core.wakes.waiting(OUTBOX) as woken:
            loop = Loop("deliver", deliverer.tick, core.settings.delivery.poll_seconds, woken)
            loops.create_task(run_loop(loop, core=core, stop=stop))
            yield deliverer
            stop.set()


def free_port() -> int:
    """A port where nobody listens."""
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def hang(_request: Request) -> web.StreamResponse:
    """Never."""
    await asyncio.Event().wait()
    raise AssertionError


async def test_two_replicas_together_keep_to_a_rate_and_reach_it(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    await sink.sealed("a", *(draft(str(n), f"c{n}") for n in range(80)))
    crm = destination(receiver, rate_per_second=20.0)
    # Neither would look again by itself within the time of this test.
    delivery = {"poll_seconds": 60.0}
    async with (
        opening({"crm": crm}, delivery=delivery) as here,
        opening({"crm": crm}, delivery=delivery) as there,
    ):
        began = time.monotonic()
        async with replica(here), replica(there):
            await receiver.wait_for(25)
            took = time.monotonic() - began
        # 25 are 5 at once and a second for the others; a busy machine makes that longer and never shorter.
        assert took >= 0.9
        assert took < 10
        assert len(receiver.got) <= 5.5 + 20 * (time.monotonic() - began) + 1


async def test_a_replica_that_others_leave_no_slot_looks_again_soon(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await sink.sealed("a", *(draft(str(n), f"c{n}") for n in range(3)))
    go_on = asyncio.Event()

    async def slowly(_request: Request) -> web.StreamResponse:
        await go_on.wait()
        return web.Response(status=204)

    receiver.answer = slowly
    crm = destination(receiver, concurrency_max=2, timeout_seconds=20.0)
    async with opening({"crm": crm}) as here, opening({"crm": crm}) as there:
        async with delivering(here) as first, delivering(there) as second:
            await first.tick()
            await receiver.wait_for(2)
            assert await second.tick() == CROWDED_SECONDS
            assert second.unsettled == 0
            go_on.set()
            await until_state(sink, second, turn, "replied")
        limited = there.metrics.limited.labels("crm", "concurrency")._value.get()  # noqa: SLF001
        assert limited >= 1


async def test_a_replica_that_drains_tells_the_others_of_its_slots(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    await sink.sealed("a", draft("hello"))
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        await deliverer.tick()
        core.draining.start()
        await deliverer.drain(seconds=5)
        assert OUTBOX in core.wakes._untold  # noqa: SLF001 - what the other processes will be told


async def test_a_destination_that_is_down_is_probed_and_everything_arrives_when_it_is_back(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    turn, _ = await sink.sealed("a", *(draft(str(n), f"c{n}") for n in range(12)))
    receiver.answer = status(503)
    crm = destination(receiver, breaker_failures=3, attempts_max=3, concurrency_max=2)
    async with opening({"crm": crm}) as core, delivering(core) as deliverer:
        for _ in range(6):
            await deliverer.tick()
            await deliverer.drain(seconds=5)
        # Three in vain, and one that was already under way.
        assert len(receiver.got) == 4
        await measure_breakers(core)
        assert core.metrics.breaker.labels("crm", "open")._value.get() == 1  # noqa: SLF001
        assert core.metrics.breaker_openings.labels("crm", "failing")._value.get() == 1  # noqa: SLF001
        for probes in range(1, 9):
            await clock.travel(301)
            for _ in range(3):
                await deliverer.tick()
                await deliverer.drain(seconds=5)
            assert len(receiver.got) == 4 + probes
        receiver.answer = fine
        await clock.travel(301)
        await until_state(sink, deliverer, turn, "replied")


async def test_who_is_gone_is_sent_nothing_until_it_is_resumed(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    turn, _ = await sink.sealed("a", draft("1"), draft("2"))
    receiver.answer = status(410)
    async with opening({"crm": destination(receiver)}) as core, delivering(core) as deliverer:
        for _ in range(3):
            await deliverer.tick()
            await deliverer.drain(seconds=5)
            await clock.travel(3600)
        assert len(receiver.got) == 1
        assert await sink.states(turn) == ["pending", "pending"]
        receiver.answer = fine
        assert await transact(core.pool, lambda link: reset_breaker(link, "crm"))
        await until_state(sink, deliverer, turn, "replied")


async def test_slow_dead_and_dripping_destinations_take_nothing_from_a_healthy_one(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    async def drip(_request: Request) -> web.StreamResponse:
        # A head that never ends: nothing of it is an answer.
        await asyncio.Event().wait()
        raise AssertionError

    async with open_receiver(hang) as slow, open_receiver(drip) as dripping:
        others = {
            "slow": destination(slow, concurrency_max=3, timeout_seconds=30.0),
            "drip": destination(dripping, concurrency_max=3, timeout_seconds=30.0),
            "dead": {
                **destination(receiver, concurrency_max=3),
                "url": f"http://127.0.0.1:{free_port()}/",
            },
        }
        for name in others:
            await sink.sealed(
                name, *(draft(str(n), f"{name}{n}", destination=name) for n in range(9))
            )
        healthy, _ = await sink.sealed("crm", *(draft(str(n), f"c{n}") for n in range(40)))
        most = 0

        async def answer(_request: Request) -> web.StreamResponse:
            nonlocal most
            most = max(most, deliverer._in_flight["crm"])  # noqa: SLF001 - how many at once
            return web.Response(status=204)

        receiver.answer = answer
        crm = destination(receiver, concurrency_max=8)
        async with opening({"crm": crm, **others}) as core, delivering(core) as deliverer:
            await until_state(sink, deliverer, healthy, "replied")
            assert most == 8
            assert len(receiver.got) == 40
            assert (len(slow.got), len(dripping.got)) == (3, 3)
            for task in list(deliverer._running):  # noqa: SLF001 - the rest of their time is of no interest
                task.cancel()
