"""The sweeper: puts back what crashes stranded, and lets scheduled turns become due. Any number of them may run.

One look tells what there is to do, so that an idle pass costs one query; each chore is then done on its own, so that
one that fails keeps no other from running.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from app.core import Core
from app.domain.errors import NotReady
from app.engine.claim_request import forget_requests
from app.engine.due import due, due_after_pause
from app.engine.expire_holds import expire_holds
from app.engine.pause import find_pauses
from app.engine.sweep import Swept, sweep_messages, sweep_turns
from app.engine.transaction import Busy
from app.engine.wake import OUTBOX, SWEEP, queue_topic
from app.engine.wake_parked import wake_parked
from app.telemetry.metrics import count_wasted
from app.workers.breakers import measure_breakers, recount_destinations
from app.workers.lookout import Lookout, seldom
from app.workers.measures import measure_work
from app.workers.notices import Notices
from app.workers.operations import work_on_operations

log = logging.getLogger(__name__)

BATCHES_MAX = 20
GAUGES_EVERY_INTERVALS = 5
# While nothing happens only ages grow.
GAUGES_EVERY_INTERVALS_QUIET = 60
RECOUNT_SECONDS = 60.0
# How many that always fail are looked past.
FAILED_MAX = 1000
# However often a sweep is woken, it rests so long between two passes.
GATHER_SECONDS = 0.05


class Sweeper:
    """One sweeper. `tick` is one pass."""

    def __init__(self, core: Core, lookout: Lookout | None = None) -> None:
        self._core = core
        self._lookout = lookout or Lookout(core)
        self._notices = Notices(core)
        # When it is time again for what nothing tells of: passes that were woken come as often as they are.
        self._recount_at = 0.0
        self._measured_at = -math.inf
        self._measure_from = 0.0
        # How many of each chore failed when they were last looked for: the oldest, which come first again.
        self._failed: Counter[str] = Counter()

    async def tick(self) -> float:
        """Do the chores there are; raises the first that failed as a whole, after all were tried.

        A row that cannot be swept is logged and counted: a pass that did all it could is a finished one.
        """
        chores: dict[str, Callable[[], Awaitable[int]]] = {
            "turns": self._sweep_turns,
            "messages": self._sweep_messages,
            "due": self._due,
            "held": self._due_after_pause,
            "requests": self._forget,
            "deadlines": self._expire_holds,
            "wakes": self._wake_parked,
            "notices": self._tell,
            "operations": partial(work_on_operations, self._core),
            "recount": self._recount,
        }
        failed: Exception | None = None
        found = await self._lookout.look()
        for chore in [*(one for one in found.due if one in chores), *self._now_and_then()]:
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
        quiet = self._lookout.quiet
        intervals = GAUGES_EVERY_INTERVALS_QUIET if quiet else GAUGES_EVERY_INTERVALS
        rest = intervals * self._core.settings.sweep.interval_seconds
        if time.monotonic() >= max(self._measured_at + rest, self._measure_from):
            await self._measure_in_time()
            self._measured_at = time.monotonic()
        if failed is not None:
            raise failed
        return self._lookout.rest_seconds(found)

    def _now_and_then(self) -> list[str]:
        """What nothing tells of."""
        if time.monotonic() < self._recount_at:
            return []
        self._recount_at = time.monotonic() + RECOUNT_SECONDS
        return ["recount"]

    async def _recount(self) -> int:
        await recount_destinations(self._core)
        return 0

    async def _in_batches(self, chore: Callable[[], Awaitable[int]]) -> None:
        """Again while batches come back full, within reason: the rest is for the next pass."""
        for _ in range(BATCHES_MAX):
            if await chore() < self._core.settings.sweep.batch_max:
                return

    async def _sweep_turns(self) -> int:
        swept = await sweep_turns(
            self._core.pool,
            policies=self._core.turn_policies,
            turns_max=self._batch("turn"),
            jitter=self._core.jitter,
        )
        self._note("turn", swept)
        count_wasted(self._core.metrics, swept.wasted)
        if swept.states:
            self._core.wakes.tell(*map(queue_topic, self._core.settings.queues))
        return self._done("turn", swept.found, swept.failed)

    async def _sweep_messages(self) -> int:
        swept = await sweep_messages(
            self._core.pool,
            policies=self._core.delivery_policies,
            messages_max=self._batch("message"),
            jitter=self._core.jitter,
        )
        self._note("message", swept)
        if swept.states:
            self._core.wakes.tell(OUTBOX)
        return self._done("message", swept.found, swept.failed)

    async def _due(self) -> int:
        queues, failed = await due(self._core.pool, turns_max=self._batch("due"))
        self._core.wakes.tell(*{queue_topic(queue) for queue in queues})
        return self._done("due", len(queues) + len(failed), failed)

    async def _due_after_pause(self) -> int:
        queues, failed = await due_after_pause(self._core.pool, turns_max=self._batch("held"))
        self._core.wakes.tell(*{queue_topic(queue) for queue in queues})
        return self._done("held", len(queues) + len(failed), failed)

    async def _expire_holds(self) -> int:
        """Nobody has decided in time."""
        core = self._core
        swept = await expire_holds(
            core.pool,
            policies=core.turn_policies,
            turns_max=self._batch("deadline"),
            ids=core.ids,
            key_seconds=core.settings.keys.idempotency_seconds,
        )
        for outcome, count in swept.states.items():
            core.metrics.hold_deadlines.labels(outcome).inc(count)
            told = {"outcome": outcome, "count": count}
            log.warning("nobody has decided in time", extra=told)
        if swept.states:
            # Who is to be told is told in the next pass, and what has left its lane makes room.
            core.wakes.tell(SWEEP, OUTBOX, *map(queue_topic, core.settings.queues))
        return self._done("deadline", swept.found, swept.failed)

    async def _wake_parked(self) -> int:
        """What was waited for has not come in time."""
        swept = await wake_parked(self._core.pool, turns_max=self._batch("wake"))
        if swept.states:
            self._core.metrics.parks_ended.labels("deadline").inc(sum(swept.states.values()))
            self._core.wakes.tell(*map(queue_topic, self._core.settings.queues))
        return self._done("wake", swept.found, swept.failed)

    async def _tell(self) -> int:
        done = await self._notices.pass_on(self._batch("notice"))
        return self._done("notice", done.found, done.failed)

    def _note(self, kind: str, swept: Swept) -> None:
        for state, count in swept.states.items():
            self._core.metrics.swept.labels(kind, state).inc(count)
        if swept.states:
            log.warning("swept", extra={"reason": kind, "count": sum(swept.states.values())})

    def _batch(self, kind: str) -> int:
        """How many to look for: past those that failed, or, being the oldest, they would keep all others waiting."""
        return self._core.settings.sweep.batch_max + self._failed[kind]

    def _done(self, kind: str, found: int, failed: Sequence[Exception]) -> int:
        """How many were found; none where some failed, since asking again at once would find the same."""
        self._failed[kind] = min(len(failed), FAILED_MAX)
        if not failed:
            return found
        broken = [error for error in failed if not isinstance(error, Busy)]
        if len(broken) < len(failed):
            # Whoever holds them lets go of them: the next pass finds them again.
            count = len(failed) - len(broken)
            self._core.metrics.swept.labels(kind, "busy").inc(count)
            log.warning("held by somebody else", extra={"loop": kind, "count": count})
        if broken:
            self._core.metrics.swept.labels(kind, "failed").inc(len(broken))
            fields = {"loop": kind, "count": len(broken), "error": type(broken[0]).__name__}
            log.error("some could not be swept", extra=fields, exc_info=broken[0])
        return 0

    async def _forget(self) -> int:
        return await forget_requests(self._core.pool, rows_max=self._core.settings.sweep.batch_max)

    async def _measure_in_time(self) -> None:
        """What takes too long is tried seldom: the sweep needs none of it."""
        began = time.monotonic()
        try:
            await self._measure()
        except Busy:
            self._measure_from = seldom(began)
            log.warning("could not be measured", extra={"loop": "sweep"})

    async def _measure(self) -> None:
        await measure_breakers(self._core)
        await measure_work(self._core)
        await self._measure_pauses()

    async def _measure_pauses(self) -> None:
        pauses = await find_pauses(self._core.pool)
        for kind in ("all", *self._core.configured):
            paused = sum(paused_kind == kind for paused_kind, _ in pauses)
            self._core.metrics.paused.labels(kind).set(paused)
