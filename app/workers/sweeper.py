"""The sweeper: puts back what crashes stranded, and lets scheduled turns become due. Any number of them may run.

One look tells what there is to do, so that an idle pass costs one query; each chore is then done on its own, so that
one that fails keeps no other from running.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from app.core import Core
from app.domain.errors import NotReady
from app.engine.claim_request import forget_requests
from app.engine.due import due
from app.engine.inspect import (
    find_chores,
    oldest_pending_seconds,
    oldest_queued_seconds,
)
from app.engine.sweep import Swept, sweep_messages, sweep_turns
from app.engine.transaction import Busy
from app.engine.wake import OUTBOX, queue_topic

log = logging.getLogger(__name__)

BATCHES_MAX = 20
GAUGES_EVERY_PASSES = 5


class Sweeper:
    """One sweeper. `tick` is one pass."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._passes = 0

    async def tick(self) -> float:
        """Do the chores there are; raises the first that failed as a whole, after all were tried.

        A row that cannot be swept is logged and counted: a pass that did all it could is a finished one.
        """
        chores: dict[str, Callable[[], Awaitable[int]]] = {
            "turns": self._sweep_turns,
            "messages": self._sweep_messages,
            "due": self._due,
            "requests": self._forget,
        }
        failed: Exception | None = None
        for chore in await find_chores(self._core.pool):
            try:
                await self._in_batches(chores[chore])
            except Busy:
                log.warning("held by somebody else", extra={"loop": chore})
            except NotReady:
                raise
            except Exception as error:
                # The other chores are done first.
                log.exception("a chore failed", extra={"loop": chore})
                failed = error
        if self._passes % GAUGES_EVERY_PASSES == 0:
            await self._measure()
        self._passes += 1
        if failed is not None:
            raise failed
        return self._core.settings.sweep.interval_seconds

    async def _in_batches(self, chore: Callable[[], Awaitable[int]]) -> None:
        """Again while batches come back full, within reason: the rest is for the next pass."""
        for _ in range(BATCHES_MAX):
            if await chore() < self._core.settings.sweep.batch_max:
                return

    async def _sweep_turns(self) -> int:
        swept = await sweep_turns(
            self._core.pool,
            policies=self._core.turn_policies,
            turns_max=self._core.settings.sweep.batch_max,
            jitter=self._core.jitter,
        )
        self._note("turn", swept)
        if swept.states:
            self._core.wakes.tell(*map(queue_topic, self._core.settings.queues))
        return self._done("turn", swept.found, swept.failed)

    async def _sweep_messages(self) -> int:
        swept = await sweep_messages(
            self._core.pool,
            policies=self._core.delivery_policies,
            messages_max=self._core.settings.sweep.batch_max,
            jitter=self._core.jitter,
        )
        self._note("message", swept)
        if swept.states:
            self._core.wakes.tell(OUTBOX)
        return self._done("message", swept.found, swept.failed)

    async def _due(self) -> int:
        queues, failed = await due(self._core.pool, turns_max=self._core.settings.sweep.batch_max)
        self._core.wakes.tell(*{queue_topic(queue) for queue in queues})
        return self._done("due", len(queues) + len(failed), failed)

    def _note(self, kind: str, swept: Swept) -> None:
        for state, count in swept.states.items():
            self._core.metrics.swept.labels(kind, state).inc(count)
        if swept.states:
            log.warning("swept", extra={"reason": kind, "count": sum(swept.states.values())})

    def _done(self, kind: str, found: int, failed: Sequence[Exception]) -> int:
        """How many were found; none where some failed, since asking again at once would find the same."""
        if not failed:
            return found
        self._core.metrics.swept.labels(kind, "failed").inc(len(failed))
        fields = {"loop": kind, "count": len(failed), "error": type(failed[0]).__name__}
        log.error("some could not be swept", extra=fields, exc_info=failed[0])
        return 0

    async def _forget(self) -> int:
        return await forget_requests(self._core.pool, rows_max=self._core.settings.sweep.batch_max)

    async def _measure(self) -> None:
        queued = await oldest_queued_seconds(self._core.pool, list(self._core.settings.queues))
        for queue in self._core.settings.queues:
            self._core.metrics.oldest_queued_seconds.labels(queue).set(queued.get(queue, 0.0))
        pending = await oldest_pending_seconds(self._core.pool, list(self._core.routes))
        for name in self._core.routes:
            self._core.metrics.oldest_pending_seconds.labels(name).set(pending.get(name, 0.0))
