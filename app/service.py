"""One process of the service: its roles run together, and stop together without losing or repeating anything.

A drain first turns readiness red and takes nothing new, then ends every wait, lets running requests and attempts end
within the grace, and leaves what is left to the leases.
"""

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from enum import StrEnum

import uvicorn

from app.api.application import build_application
from app.api.protocol import protocol_with
from app.core import Core, database_options
from app.domain.errors import NotReady, SinksweepError
from app.engine.pooler import check_pooler, refusal
from app.engine.schema import check_schema, undurable
from app.engine.wake import OUTBOX
from app.workers.deliverer import Deliverer
from app.workers.loop import Loop, run_loop
from app.workers.names import Names
from app.workers.purger import Purger
from app.workers.resender import Resender
from app.workers.sweeper import Sweeper

log = logging.getLogger(__name__)

BACKLOG = 2048
START_SECONDS_MAX = 5.0
START_PAUSE_SECONDS = 0.5
# Files that a process has open beside its connections.
FILES_SPARE = 1000


class Role(StrEnum):
    """What a process does."""

    API = "api"
    DELIVER = "deliver"
    SWEEP = "sweep"


class PortTaken(SinksweepError):
    """The address cannot be listened on."""


class UndurableServer(SinksweepError):
    """The database would lose what it has acknowledged."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own, for all its roles."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, so that the port is known, and taken, before anything else is opened.

    Raises `PortTaken`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, so that the event loop knows what it is and sends small answers at once.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        message = (
            f"port: {host}:{port} cannot be listened on ({error.strerror}); "
            "choose another with SINKSWEEP_PORT or --port, 0 for any that is free"
        )
        raise PortTaken(message) from error
    listener.setblocking(False)  # noqa: FBT003 - its only form
    return listener


def url_of(listener: socket.socket) -> str:
    """Where the listener is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def check_database(core: Core) -> None:
    """Refuse to start on another schema, or on a server that loses commits, unless told to.

    A server that is just starting is waited for a moment, which is less than the start of another process.
    """
    unsafe = await _when_there(core)
    if unsafe and not core.settings.database.allow_unsafe:
        message = (
            f"this server acknowledges what it can lose: {', '.join(unsafe)}. Set it on, or set "
            "database.allow_unsafe = true for data that nobody needs"
        )
        raise UndurableServer(message)
    log.info(
        "a 2xx stands on a commit with %s",
        "fsync, full_page_writes and synchronous_commit on" if not unsafe else ", ".join(unsafe),
    )


async def _when_there(core: Core) -> list[str]:
    until = time.monotonic() + START_SECONDS_MAX
    options = database_options(core.settings)
    while True:
        try:
            await check_pooler(options)
            await check_schema(core.pool)
            return await undurable(core.pool)
        except NotReady as error:
            if refused := refusal(error.__cause__):
                raise refused from error
            if time.monotonic() > until:
                raise
            log.info("waiting for the database")
            await asyncio.sleep(START_PAUSE_SECONDS)


async def run_service(
    core: Core,
    *,
    roles: frozenset[Role],
    listener: socket.socket,
    when_ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the roles until a signal asks to stop. Every role serves health and metrics."""
    stop = asyncio.Event()
    _allow_files(core.settings.server.connections_max + FILES_SPARE)
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
    server = _Server(_server_configuration(core, roles, running))
    log.info("serving %s at %s", ", ".join(sorted(roles)), url_of(listener))
    serving = running.create_task(server.serve(sockets=[listener]))
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(_comparing(core, running))
        if Role.SWEEP in roles:
            await stack.enter_async_context(_sweeping(core, running))
        if Role.DELIVER in roles:
            await stack.enter_async_context(_resending(core, running))
            await stack.enter_async_context(_delivering(core, running))
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has a flag only
            await asyncio.sleep(0.005)
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


@contextlib.asynccontextmanager
async def _comparing(core: Core, running: asyncio.TaskGroup) -> AsyncGenerator[None]:
    """Every replica has a configuration of its own, whatever it does."""
    stop, names = asyncio.Event(), Names(_through_the_reserve(core))
    loop = Loop("names", names.tick, names.rest_seconds)
    running.create_task(run_loop(loop, core=core, stop=stop))
    try:
        yield
    finally:
        stop.set()


@contextlib.asynccontextmanager
async def _sweeping(core: Core, running: asyncio.TaskGroup) -> AsyncGenerator[None]:
    stop = asyncio.Event()
    loop = Loop(
        "sweep", Sweeper(_through_the_reserve(core)).tick, core.settings.sweep.interval_seconds
    )
    running.create_task(run_loop(loop, core=core, stop=stop))
    # Nobody waits for it: it has no part in the reserve.
    purge = Loop("purge", Purger(core).tick, core.settings.retention.interval_seconds)
    running.create_task(run_loop(purge, core=core, stop=stop))
    try:
        yield
    finally:
        stop.set()


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
    loop = Loop("resend", resender.tick, core.settings.delivery.poll_seconds)
    running.create_task(run_loop(loop, core=core, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await resender.drain()


async def _settle(deliverer: Deliverer) -> None:
    while True:
        await deliverer.settle_ended()


def _server_configuration(
    core: Core, roles: frozenset[Role], running: asyncio.TaskGroup
) -> uvicorn.Config:
    return uvicorn.Config(
        build_application(core, tasks=running, api=Role.API in roles),
        http=protocol_with(
            header_seconds_max=core.settings.limits.header_seconds_max,
            answer_seconds_max=core.settings.limits.answer_seconds_max,
            connections_max=core.settings.server.connections_max,
        ),
        loop="none",
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=core.settings.server.keep_alive_seconds,
        timeout_graceful_shutdown=max(1, int(core.settings.server.drain_seconds)),
    )


def _allow_files(count: int) -> None:
    """As many connections as configured need as many open files; the usual allowance is for a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # A system may allow less than it says.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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
