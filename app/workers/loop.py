"""The one loop: runs a tick, rests as long as the tick says or until it is woken, and survives every failure of it.

A pass that fails is logged, counted and tried again with a growing pause; it never ends the loop, and while no pass
finishes, readiness is red.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.core import Core
from app.domain.errors import NotReady
from app.domain.retry import backoff_seconds

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Loop:
    """A named tick. A tick returns the seconds to rest.

    It may be longer than `rest_seconds_max` where the tick knows why: readiness then waits so much longer, too.
    `woken` cuts a rest short, to no less than `gather_seconds`; `stirred` does, to no less than `stirred_seconds`. Who
    looks at what stirred it clears it.
    """

    name: str
    tick: Callable[[], Awaitable[float]]
    rest_seconds_max: float
    woken: asyncio.Event | None = None
    gather_seconds: float = 0.0
    stirred: asyncio.Event | None = None
    stirred_seconds: float = 0.0


async def run_loop(loop: Loop, *, core: Core, stop: asyncio.Event) -> None:
    """Run until `stop` is set."""
    stale_seconds = loop.rest_seconds_max * core.settings.server.ready_stale_intervals
    core.passes[loop.name] = (time.monotonic(), stale_seconds)
    failures = 0
    woken = loop.woken or asyncio.Event()
    while not stop.is_set():
        woken.clear()
        began = time.monotonic()
        try:
            rest = await loop.tick()
        except Exception as error:  # noqa: BLE001 - whatever a pass dies of, the next one runs
            failures += 1
            core.metrics.passes.labels(loop.name, "failed").inc()
            _report(loop, error, first=failures == 1)
            rest = backoff_seconds(
                failures, first=PAUSE_SECONDS, most=PAUSE_SECONDS_MAX, jitter=core.jitter.random()
            )
            woken = asyncio.Event()
        else:
            failures = 0
            core.metrics.passes.labels(loop.name, "done").inc()
            core.metrics.pass_seconds.labels(loop.name).observe(time.monotonic() - began)
            longer = max(rest - loop.rest_seconds_max, 0.0)
            core.passes[loop.name] = (time.monotonic(), stale_seconds + longer)
            woken = loop.woken or asyncio.Event()
        await _rest(loop, woken, stop, seconds=_spread(rest, core.jitter))


async def _rest(loop: Loop, woken: asyncio.Event, stop: asyncio.Event, *, seconds: float) -> None:
    gather = min(loop.gather_seconds, seconds)
    if gather > 0:
        await rest_until(asyncio.Event(), stop, seconds=gather)
    if loop.stirred is None or seconds <= loop.stirred_seconds:
        await rest_until(woken, stop, seconds=seconds - gather)
        return
    await rest_until(woken, stop, seconds=max(loop.stirred_seconds - gather, 0))
    if not woken.is_set() and not stop.is_set():
        left = seconds - max(loop.stirred_seconds, gather)
        await rest_until(woken, stop, loop.stirred, seconds=left)


async def rest_until(*events: asyncio.Event, seconds: float) -> None:
    """Rest, until one of these is set."""
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await either(*events)


async def either(*events: asyncio.Event) -> None:
    """Wait until one of these events is set."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.wait()) for one in events]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


def _spread(seconds: float, jitter: random.Random) -> float:
    """A little earlier, never later: loops that started together drift apart."""
    return seconds * (1 - 0.1 * jitter.random())


def _report(loop: Loop, error: Exception, *, first: bool) -> None:
    fields = {"loop": loop.name, "error": type(error).__name__}
    if isinstance(error, NotReady):
        # A database that is away is one line for each loop, not one for each pass.
        if first:
            log.warning("a pass found the database away", extra=fields)
    else:
        log.error("a pass failed", extra=fields, exc_info=error)
