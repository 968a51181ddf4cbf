"""Deliver: take what is due, send it, settle it. Taking, sending and settling never wait for one another.

An attempt is committed before its first byte. What was confirmed is written before anything of it is sent again: a
confirmation that cannot be written is kept and tried again, and is a fact even when its lease is gone by then.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from app.core import Core
from app.domain.errors import NotReady
from app.domain.model import Fact, Settlement, Slots, Taken, Takes, Verdict
from app.domain.outcome import Delivered, Outcome, word_of
from app.domain.retry import after_attempt, backoff_seconds
from app.engine.fact import record_facts
from app.engine.settle import settle
from app.engine.take import take
from app.engine.transaction import Busy
from app.engine.wake import OUTBOX, turn_topic
from app.workers.attempts import CUT, attempt
from app.workers.breakers import note_breakers
from app.workers.lookout import WATCHED_SECONDS
from app.workers.measures import note_turns
from app.workers.watermarks import Watermarks

log = logging.getLogger(__name__)

SETTLE_BATCH_MAX = 200
# What comes within so short a time goes together, where more is on its way: a transaction costs as much as many rows.
GATHER_SECONDS = 0.005
_SETTLE_PAUSE_SECONDS = 0.1
_SETTLE_PAUSE_SECONDS_MAX = 5.0

_Ended = tuple[Taken, Outcome]


class Deliverer:
    """One delivery worker. `tick` takes and starts, `settle_ended` writes what ended."""

    def __init__(self, core: Core, sends: asyncio.TaskGroup) -> None:
        self._core = core
        self._sends = sends
        self._in_flight: Counter[str] = Counter()
        self._running: set[asyncio.Task[None]] = set()
        self._alone: set[asyncio.Task[None]] = set()
        # Few at a time: each may hold a connection for as long as a lock is waited for.
        self._alone_slots = asyncio.Semaphore(max(1, core.settings.database.pool_max // 4))
        self._ended: asyncio.Queue[_Ended] = asyncio.Queue()
        # Attempts of each destination that did not deliver, since the last that did.
        self._in_vain: Counter[str] = Counter()
        self._watermarks = Watermarks()
        self._took_at = self._settled_at = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def unsettled(self) -> int:
        """Attempts that run, or ended and are not written yet."""
        return self._in_flight.total()

    async def tick(self) -> float:
        """Take as much as can be started at once, and start it. A slot that frees wakes this loop."""
        await self._gather(self._took_at)
        self._took_at = time.monotonic()
        slots = self._slots(self._watermarks.begin())
        takes = await take(self._core.pool, slots) if slots else Takes(())
        self._watermarks.end(takes.latest)
        taken = takes.messages
        for destination, limit in takes.limits.items():
            self._core.metrics.limited.labels(destination, limit).inc()
        if self._core.draining.started:
            await self._give_back(taken)
        else:
            for message in taken:
                self._start(message)
        poll = self._core.wakes.rest_seconds(
            self._core.settings.delivery.poll_seconds, heard_seconds=WATCHED_SECONDS
        )
        return poll if takes.rest_seconds is None else min(poll, takes.rest_seconds)

    async def _gather(self, last: float) -> None:
        """Let what ends within a moment after the `last` time come along. Where nothing runs nobody is waited for."""
        if self._running and (left := last + GATHER_SECONDS - time.monotonic()) > 0:
            await asyncio.sleep(left)

    def _slots(self, since: Mapping[str, datetime]) -> list[Slots]:
        """The free slots of each destination. They share none, so a slow one takes nothing from another."""
        margin = self._core.settings.delivery.lease_margin_seconds
        return [
            Slots(
                name,
                free,
                route.attempt_seconds + margin,
                hold_unknown=route.settings.on_unknown == "hold",
                concurrency_max=route.settings.concurrency_max,
                rate_per_second=route.settings.rate_per_second,
                key_ttl_seconds=route.key_ttl_seconds,
                since=since.get(name),
            )
            for name, route in self._core.routes.items()
            if (free := route.settings.concurrency_max - self._in_flight[name]) > 0
        ]

    def _start(self, taken: Taken) -> None:
        self._in_flight[taken.destination] += 1
        self._idle.clear()
        self._core.metrics.sending.labels(taken.destination).inc()
        task = self._sends.create_task(self._send(taken))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _send(self, taken: Taken) -> None:
        outcome: Outcome = CUT
        try:
            outcome = await attempt(self._core, taken)
        finally:
            # Here, and not when the task is done: whoever settles this next asks what else runs.
            self._running.discard(asyncio.current_task())
            self._ended.put_nowait((taken, outcome))
            self._warn(taken, outcome)

    def _warn(self, taken: Taken, outcome: Outcome) -> None:
        """Of the first attempt in vain at a destination, and of each power of two: a day of outage fills no disk."""
        if isinstance(outcome, Delivered):
            self._in_vain.pop(taken.destination, None)
            return
        self._in_vain[taken.destination] += 1
        count = self._in_vain[taken.destination]
        if count.bit_count() == 1:
            told = {
                "destination": taken.destination,
                "message_id": taken.key,
                "attempt": taken.attempt,
                "outcome": word_of(outcome),
                "reason": outcome.reason,
            }
            text = "not delivered; attempts in vain since the last delivery there: %d"
            log.warning(text, count, extra=told)

    async def settle_ended(self) -> None:
        """Write what has ended, as one batch; waits while nothing has."""
        batch = [await self._ended.get()]
        await self._gather(self._settled_at)
        self._settled_at = time.monotonic()
        while len(batch) < SETTLE_BATCH_MAX and not self._ended.empty():
            batch.append(self._ended.get_nowait())
        try:
            await self._until_written(batch, patient=False)
        except Exception as error:  # noqa: BLE001 - each by itself says again what is wrong with it
            # One of them cannot be written, or its turn is held by somebody: the others can, and this loop goes on.
            log.warning("a batch is settled one by one", extra={"error": type(error).__name__})
            for one in batch:
                task = self._sends.create_task(self._settle_alone(one))
                self._alone.add(task)
                task.add_done_callback(self._alone.discard)
        else:
            self._free(batch)

    async def _settle_alone(self, one: _Ended) -> None:
        try:
            await self._until_written([one], patient=True)
        except Exception:
            log.exception("an attempt is left to its lease")
        finally:
            self._free([one])

    def _free(self, batch: Sequence[_Ended]) -> None:
        """Their slots are free, and what waited behind these may be due: both are of this process."""
        for destination, count in Counter(taken.destination for taken, _ in batch).items():
            self._in_flight[destination] -= count
            self._core.metrics.sending.labels(destination).dec(count)
        if not self.unsettled:
            self._idle.set()
        self._core.wakes.wake_here(OUTBOX)
        if self._core.draining.started:
            # This process takes no more: the slots are for the others.
            self._core.wakes.tell(OUTBOX)
        self._core.wakes.tell(*{turn_topic(taken.turn) for taken, _ in batch})

    async def _until_written(self, batch: Sequence[_Ended], *, patient: bool) -> None:
        """Keep what is known while the database is away: it is written before anything is sent again.

        Who is not patient raises `Busy` where somebody else holds a turn of the batch.
        """
        settlements = [self._settlement(taken, outcome) for taken, outcome in batch]
        tries = 0
        while True:
            try:
                if not patient:
                    return await self._write(batch, settlements)
                async with self._alone_slots:
                    return await self._write(batch, settlements)
            except NotReady as error:
                if isinstance(error, Busy) and not patient:
                    raise
                tries += 1
                if tries == 1:
                    log.warning("what ended could not be written yet", extra={"count": len(batch)})
                pause = backoff_seconds(
                    tries,
                    first=_SETTLE_PAUSE_SECONDS,
                    most=_SETTLE_PAUSE_SECONDS_MAX,
                    jitter=self._core.jitter.random(),
                )
                await asyncio.sleep(pause)

    async def _write(self, batch: Sequence[_Ended], settlements: Sequence[Settlement]) -> None:
        settled = await settle(self._core.pool, settlements, policies=self._core.delivery_policies)
        note_breakers(self._core, settled)
        note_turns(self._core, settled)
        facts = [
            Fact(
                taken.message,
                taken.attempt_id,
                outcome.receipt,
                outcome.answer.status if outcome.answer else None,
            )
            for (taken, outcome), result in zip(batch, settled, strict=True)
            if not result.held and isinstance(outcome, Delivered)
        ]
        if facts:
            recorded = await record_facts(self._core.pool, facts)
            self._core.metrics.facts.inc(len(recorded))

    def _settlement(self, taken: Taken, outcome: Outcome) -> Settlement:
        verdict = after_attempt(
            outcome,
            attempts_used=taken.attempts_used,
            may_have_arrived=taken.may_have_arrived,
            age_seconds=taken.age_seconds,
            policy=self._core.delivery_policies[taken.destination],
            jitter=self._core.jitter.random(),
        )
        return Settlement(taken.message, taken.attempt_id, verdict)

    async def _give_back(self, taken: Sequence[Taken]) -> None:
        if taken:
            back = Verdict("pending", counted=False, reason="drain")
            await settle(
                self._core.pool, [Settlement(one.message, one.attempt_id, back) for one in taken]
            )
            self._core.wakes.tell(OUTBOX)

    async def drain(self, *, seconds: float) -> None:
        """Let what runs end within `seconds`; what is still running then is cut, and settled as what it is: unknown."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            for task in list(self._running):
                task.cancel()
            async with asyncio.timeout(_SETTLE_PAUSE_SECONDS_MAX):
                await self._idle.wait()
        finally:
            # What somebody still holds is left to its lease: this process ends.
            for task in list(self._alone):
                task.cancel()
