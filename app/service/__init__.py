"""One process of the service: its roles run together, and stop together without losing or repeating anything.

A drain first turns readiness red and takes nothing new, then ends every wait, lets running requests and attempts end
within the grace, and leaves what is left to the leases.
"""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from enum import StrEnum

import uvicorn

from app.core import Core
from app.engine.wake import ANYTHING, OUTBOX, RESEND, SWEEP
from app.service.listening import PortTaken, allow_files, bind, build_server, url_of
from app.service.memory import keep_what_is_here
from app.service.start import UndurableServer, check_database
from app.workers.deliverer import Deliverer
from app.workers.lookout import Lookout
from app.workers.loop import Loop, run_loop
from app.workers.names import Names
from app.workers.public_keys import LOOK_SECONDS, PublicKeys
from app.workers.purger import Purger
from app.workers.resender import Resender
from app.workers.scheduler import LOOK_SECONDS as SCHEDULE_SECONDS
from app.workers.scheduler import Scheduler
from app.workers.sweeper import GATHER_SECONDS, Sweeper

__all__ = [
    "PortTaken",
    "Role",
    "UndurableServer",
    "bind",
    "check_database",
    "run_service",
    "url_of",
]

log = logging.getLogger(__name__)


class Role(StrEnum):
    """What a process does."""

    API = "api"
    DELIVER = "deliver"
    SWEEP = "sweep"


async def run_service(
    core: Core,
    *,
    roles: frozenset[Role],
    listener: socket.socket,
    when_ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the roles until a signal asks to stop. Every role serves health and metrics."""
    stop = asyncio.Event()
    allow_files(core.settings.server.files_max)
    with _signals(stop):
        async with asyncio.TaskGroup() as background:
            wakes = background.create_task(core.wakes.run())
            async with asyncio.TaskGroup() as running:
                await _run_roles(core, roles, listener, stop, running, when_ready)
            wakes.cancel()


async def _run_roles(
    core: Core,
    roles: frozenset[Role],
    listener: socket.socket,
    stop: asyncio.Event,
    running: asyncio.TaskGroup,
    when_ready: Callable[[], None],
) -> None:
    server = build_server(core, api=Role.API in roles, running=running)
    log.info("serving %s at %s", ", ".join(sorted(roles)), url_of(listener))
    serving = running.create_task(server.serve(sockets=[listener]))
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(_comparing(core, running))
        if Role.API in roles:
            await stack.enter_async_context(_fetching(core, running))
        if Role.SWEEP in roles:
            await stack.enter_async_context(_sweeping(core, running))
        else:
            await stack.enter_async_context(_looking(core, running))
        if Role.DELIVER in roles:
            await stack.enter_async_context(_resending(core, running))
            await stack.enter_async_context(_delivering(core, running))
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has a flag only
            await asyncio.sleep(0.005)
        keep_what_is_here()
        when_ready()
        stopped = running.create_task(stop.wait())
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        log.info("draining")
        core.draining.start()
        running.create_task(_close(server, core.settings.server.drain_delay_seconds))
    await serving
    log.info("stopped")


async def _close(server: uvicorn.Server, delay_seconds: float) -> None:
    """Stop listening, once whoever balances load has had the time to see that this process is not ready."""
    await asyncio.sleep(delay_seconds)
    server.should_exit = True


def _through_the_reserve(core: Core) -> Core:
    """For loops, which are few: a crowd of callers must not keep them from what is promised."""
    return replace(core, pool=core.urgent)


@contextlib.contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """What loops stop at: set at the end, whatever that is."""
    stop = asyncio.Event()
    try:
        yield stop
    finally:
        stop.set()


@contextlib.asynccontextmanager
async def _comparing(core: Core, running: asyncio.TaskGroup) -> AsyncGenerator[None]:
    """Every replica has a configuration of its own, whatever it does."""
    with core.wakes.waiting(ANYTHING) as stirred, _stopping() as stop:
        names = Names(_through_the_reserve(core), stirred)
        loop = Loop(
            "names",
            names.tick,
            names.rest_seconds,
            stirred=stirred,
            stirred_seconds=names.rest_seconds,
        )
        running.create_task(run_loop(loop, core=core, stop=stop))
        yield


@contextlib.asynccontextmanager
async def _looking(core: Core, running: asyncio.TaskGroup) -> AsyncGenerator[None]:
    """Whoever does not sweep has to know what is due all the same."""
    interval = core.settings.sweep.interval_seconds
    with core.wakes.waiting(ANYTHING) as stirred, _stopping() as stop:
        lookout = Lookout(_through_the_reserve(core), stirred)
        loop = Loop("look", lookout.tick, interval, stirred=stirred, stirred_seconds=interval)
        running.create_task(run_loop(loop, core=core, stop=stop))
        yield


@contextlib.asynccontextmanager
async def _fetching(core: Core, running: asyncio.TaskGroup) -> AsyncGenerator[None]:
    """Only where a source verifies with public keys."""
    keys = PublicKeys(core)
    with _stopping() as stop:
        if keys.needed:
            loop = Loop("public_keys", keys.tick, LOOK_SECONDS)
            running.create_task(run_loop(loop, core=core, stop=stop))
        yield


@contextlib.asynccontextmanager
async def _sweeping(core: Core, running: asyncio.TaskGroup) -> AsyncGenerator[None]:
    interval, careful = core.settings.sweep.interval_seconds, _through_the_reserve(core)
    waiting = core.wakes.waiting
    with waiting(SWEEP) as woken, waiting(ANYTHING) as stirred, _stopping() as stop:
        sweeper = Sweeper(careful, Lookout(careful, stirred))
        loop = Loop("sweep", sweeper.tick, interval, woken, GATHER_SECONDS, stirred, interval)
        running.create_task(run_loop(loop, core=core, stop=stop))
        # Nobody waits for it: it has no part in the reserve.
        purge = Loop("purge", Purger(core).tick, core.settings.retention.interval_seconds)
        running.create_task(run_loop(purge, core=core, stop=stop))
        scheduler = Scheduler(careful)
        if scheduler.needed:
            clock = Loop("schedule", scheduler.tick, SCHEDULE_SECONDS)
            running.create_task(run_loop(clock, core=core, stop=stop))
        yield


@contextlib.asynccontextmanager
async def _delivering(core: Core, running: asyncio.TaskGroup) -> AsyncGenerator[None]:
    stop_taking, seconds = asyncio.Event(), core.settings.server.drain_seconds
    deliverer = Deliverer(_through_the_reserve(core), running)
    with core.wakes.waiting(OUTBOX) as woken:
        take = Loop("deliver", deliverer.tick, core.settings.delivery.poll_seconds, woken)
        running.create_task(run_loop(take, core=core, stop=stop_taking))
        settling = running.create_task(_settle(deliverer))
        try:
            yield
        finally:
            stop_taking.set()
            try:
                await deliverer.drain(seconds=seconds)
            except TimeoutError:
                log.warning("attempts left to their leases", extra={"count": deliverer.unsettled})
            settling.cancel()


@contextlib.asynccontextmanager
async def _resending(core: Core, running: asyncio.TaskGroup) -> AsyncGenerator[None]:
    stop = asyncio.Event()
    resender = Resender(core, running)
    with core.wakes.waiting(RESEND) as woken:
        loop = Loop("resend", resender.tick, core.settings.delivery.poll_seconds, woken)
        running.create_task(run_loop(loop, core=core, stop=stop))
        try:
            yield
        finally:
            stop.set()
            await resender.drain()


async def _settle(deliverer: Deliverer) -> None:
    while True:
        await deliverer.settle_ended()


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask to drain; again is harmless."""
    loop = asyncio.get_running_loop()
    watched = (signal.SIGTERM, signal.SIGINT)
    for one in watched:
        loop.add_signal_handler(one, stop.set)
    try:
        yield
    finally:
        for one in watched:
            loop.remove_signal_handler(one)
