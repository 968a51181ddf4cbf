"""Resend: what somebody wants sent once more is sent beside the deliveries, one at a time for each destination.

It takes no slot of a delivery and waits wherever deliveries wait: at a pause, an open breaker, a destination that asked
to be left alone. What a drain cuts short, or a crash, is left to its lease.
"""

import asyncio
import logging
import time
from functools import partial

from app.core import Core
from app.domain.errors import NotReady
from app.domain.model import Slots
from app.domain.outcome import Delivered
from app.domain.retry import after_resend, backoff_seconds
from app.engine.resend import (
    Resend,
    ResendSettlement,
    any_resends,
    settle_resends,
    sweep_resends,
    take_resends,
)
from app.engine.wake import RESEND
from app.workers.attempts import attempt
from app.workers.lookout import WATCHED_SECONDS

log = logging.getLogger(__name__)

SWEEP_MAX = 100
_SETTLE_TRIES_MAX = 10
_SETTLE_PAUSE_SECONDS = 0.1
_SETTLE_PAUSE_SECONDS_MAX = 5.0


class Resender:
    """One resender. `tick` takes and starts; each attempt is settled when it ends."""

    def __init__(self, core: Core, sends: asyncio.TaskGroup) -> None:
        self._core = core
        self._sends = sends
        self._running: dict[str, asyncio.Task[bool]] = {}
        self._drained_by = 0.0
        core.draining.when_started(self._note_drain)

    def _note_drain(self) -> None:
        self._drained_by = time.monotonic() + self._core.settings.server.drain_seconds

    async def tick(self) -> float:
        """Put back what was left behind, take what is due, and start it."""
        core = self._core
        if not core.draining.started and await any_resends(core.pool):
            await sweep_resends(
                core.pool,
                policies=core.delivery_policies,
                rows_max=SWEEP_MAX,
                jitter=core.jitter,
            )
            slots = self._slots()
            for resend in await take_resends(core.pool, slots) if slots else ():
                self._start(resend)
        return core.wakes.rest_seconds(
            core.settings.delivery.poll_seconds, heard_seconds=WATCHED_SECONDS
        )

    def _slots(self) -> list[Slots]:
        margin = self._core.settings.delivery.lease_margin_seconds
        return [
            Slots(
                name,
                1,
                route.settings.timeout_seconds + margin,
                hold_unknown=route.settings.on_unknown != "retry",
            )
            for name, route in self._core.routes.items()
            if name not in self._running
        ]

    def _start(self, resend: Resend) -> None:
        destination = resend.taken.destination
        task = self._sends.create_task(self._perform(resend))
        self._running[destination] = task
        task.add_done_callback(partial(self._ended, destination))

    def _ended(self, destination: str, task: asyncio.Task[bool]) -> None:
        self._running.pop(destination, None)
        if not task.cancelled() and task.exception() is None and task.result():
            # There may be more for a destination that has just taken one.
            self._core.wakes.wake_here(RESEND)

    async def _perform(self, resend: Resend) -> bool:
        """One attempt from its first byte to its event; tells whether the next may follow at once."""
        route = self._core.routes[resend.taken.destination]
        outcome = await attempt(self._core, resend.taken)
        verdict = after_resend(
            outcome,
            attempts=resend.taken.attempt,
            age_seconds=resend.taken.age_seconds,
            policy=route.policy,
            jitter=self._core.jitter.random(),
        )
        settlement = ResendSettlement(resend.id, resend.taken.attempt_id, verdict)
        for n in range(1, _SETTLE_TRIES_MAX + 1):
            try:
                await settle_resends(self._core.pool, [settlement])
            except NotReady:
                pause = backoff_seconds(
                    n,
                    first=_SETTLE_PAUSE_SECONDS,
                    most=_SETTLE_PAUSE_SECONDS_MAX,
                    jitter=self._core.jitter.random(),
                )
                await asyncio.sleep(pause)
            except Exception:
                # It must not end the process: its lease ends instead.
                log.exception("a resend is left to its lease")
                return False
            else:
                # A rate counts deliveries: beside it, resends keep to the pace of the polls.
                return isinstance(outcome, Delivered) and route.settings.rate_per_second is None
        log.warning("a resend is left to its lease", extra={"message_id": resend.taken.key})
        return False

    async def drain(self) -> None:
        """Let what runs end, until the grace that began with the drain is over; then cut it."""
        running = list(self._running.values())
        if running:
            grace = max(0.0, self._drained_by - time.monotonic())
            _, late = await asyncio.wait(running, timeout=grace)
            for task in late:
                task.cancel()
