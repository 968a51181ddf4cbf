"""A resend over a real socket: the same key and bytes, beside the deliveries, and left to its lease by a drain."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

from aiohttp import web

from app.core import Core
from app.engine import inspect
from app.engine.wake import RESEND
from app.workers.loop import Loop, run_loop
from app.workers.resender import Resender
from tests.database import Clock
from tests.engine.stories import DELIVERED, Sink, draft
from tests.receiver import Receiver, Request, fine, open_receiver, status
from tests.workers.conftest import OpenCore, destination


@asynccontextmanager
async def resending(core: Core) -> AsyncIterator[Resender]:
    """A resender that takes when it is told to."""
    async with asyncio.TaskGroup() as group:
        resender = Resender(core, group)
        yield resender
        core.draining.start()
        await resender.drain()


async def asked(sink: Sink, *places: str) -> tuple[UUID, list[UUID]]:
    """A turn whose messages, one for each place, are delivered and wanted once more."""
    turn, messages = await sink.sealed("a", *(draft(place, destination=place) for place in places))
    for place in places:
        (taken,) = await sink.take(destination=place)
        await sink.settle((taken, DELIVERED))
    await sink.ask_resend(*messages)
    return turn, messages


async def ended(sink: Sink, turn: UUID) -> list[tuple[str | None, object]]:
    """How the attempts of resends ended, with what their receivers answered."""
    events = await inspect.find_events(sink.pool, turn, after=0, events_max=100)
    return [
        (str(event.detail["outcome"]), event.detail.get("status"))
        for event in events
        if event.detail.get("step") == "ended"
    ]


async def until(resender: Resender, done: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not done():
            await resender.tick()
            await asyncio.sleep(0.005)


async def until_ended(sink: Sink, resender: Resender, turn: UUID, count: int) -> None:
    async with asyncio.timeout(10):
        while len(await ended(sink, turn)) < count:
            await resender.tick()
            await asyncio.sleep(0.005)


async def test_a_resend_arrives_with_its_old_key_until_it_is_accepted(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, (message,) = await asked(sink, "crm")
    receiver.answer = status(503)
    async with opening({"crm": destination(receiver)}) as core, resending(core) as resender:
        await until_ended(sink, resender, turn, 2)
        receiver.answer = fine
        # One more may have been answered before that was said.
        async with asyncio.timeout(10):
            while ("delivered", 204) not in await ended(sink, turn):
                await resender.tick()
                await asyncio.sleep(0.005)
    *refused, last = await ended(sink, turn)
    assert last == ("delivered", 204)
    assert len(refused) >= 2
    assert set(refused) == {("pending", 503)}
    assert len(receiver.got) == len(refused) + 1
    (view,) = (await sink.look(turn)).messages
    assert {request.key for request in receiver.got} == {view.key}
    assert set(receiver.texts) == {"crm"}
    assert (view.id, view.state, view.attempts) == (message, "delivered", 1)
    assert await sink.state(turn) == "replied"


async def test_a_slow_destination_delays_no_other_and_is_sent_one_at_a_time(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    release = asyncio.Event()

    async def slow(_: Request) -> web.Response:
        await release.wait()
        return web.Response()

    async with open_receiver(slow) as hanging:
        await asked(sink, "slow")
        turn, messages = await sink.sealed("b", draft("slow", destination="slow"), draft("quick"))
        for place in ("slow", "crm"):
            (taken,) = await sink.take(destination=place)
            await sink.settle((taken, DELIVERED))
        await sink.ask_resend(*messages)
        routes = {"slow": destination(hanging), "crm": destination(receiver)}
        async with opening(routes) as core, resending(core) as resender:
            await until(resender, lambda: bool(hanging.got and receiver.got))
            await resender.tick()
            assert len(hanging.got) == 1
            release.set()
            await until(resender, lambda: len(hanging.got) == 2)
    assert await sink.state(turn) == "replied"


async def test_what_goes_well_is_followed_by_the_next_at_once(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    await asked(sink, "crm", "crm", "crm")
    polls = {"poll_seconds": 60.0}
    async with (
        opening({"crm": destination(receiver)}, delivery=polls) as core,
        asyncio.TaskGroup() as group,
        resending(core) as resender,
    ):
        stop = asyncio.Event()
        with core.wakes.waiting(RESEND) as woken:
            loop = Loop("resend", resender.tick, 60.0, woken)
            group.create_task(run_loop(loop, core=core, stop=stop))
            async with asyncio.timeout(10):
                while len(receiver.got) < 3:
                    await asyncio.sleep(0.005)
            stop.set()


async def test_a_rate_is_not_outrun_by_what_goes_well(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await asked(sink, "crm", "crm")
    routes = {"crm": destination(receiver, rate_per_second=100.0)}
    async with opening(routes) as core, resending(core) as resender:
        with core.wakes.waiting(RESEND) as woken:
            await until_ended(sink, resender, turn, 2)
        assert not woken.is_set()


async def test_a_drain_takes_nothing_and_leaves_what_it_cuts_to_its_lease(
    sink: Sink, opening: OpenCore, receiver: Receiver, clock: Clock
) -> None:
    never = asyncio.Event()

    async def hang(_: Request) -> web.Response:
        await never.wait()
        return web.Response()

    turn, _ = await asked(sink, "crm")
    receiver.answer = hang
    routes = {"crm": destination(receiver, timeout_seconds=20.0)}
    async with opening(routes, server={"drain_seconds": 0.05}) as core:
        async with resending(core) as resender:
            await until(resender, lambda: bool(receiver.got))
        never.set()
        await resender.tick()
    assert await ended(sink, turn) == []
    receiver.answer = fine
    await clock.travel(60)
    async with opening({"crm": destination(receiver)}) as core, resending(core) as resender:
        await until_ended(sink, resender, turn, 2)
    assert await ended(sink, turn) == [("pending", None), ("delivered", 204)]


async def test_a_destination_that_is_not_configured_here_waits(
    sink: Sink, opening: OpenCore, receiver: Receiver
) -> None:
    turn, _ = await asked(sink, "removed")
    async with opening({"crm": destination(receiver)}) as core, resending(core) as resender:
        await resender.tick()
    assert await ended(sink, turn) == []
    async with opening({"removed": destination(receiver)}) as core, resending(core) as resender:
        await until_ended(sink, resender, turn, 1)
    assert await ended(sink, turn) == [("delivered", 204)]
