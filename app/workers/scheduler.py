"""The scheduler: accepts what the clock brings, by the database's time. Any number of them may run.

A scheduled time is the key of what it brings, so that it comes once, whoever looks first, dies in between, or looks
again. How far it was looked is remembered only behind what was accepted. What was missed, because nothing ran or its
source stood still, is brought up to a stated number, the last of it; a source that is new begins now.
"""

import logging
from collections import Counter
from datetime import timedelta
from typing import Final

from app.core import Core, Intake
from app.core.items import arrivals_of
from app.domain.errors import NotReady
from app.domain.webhook import Batch, Refused
from app.engine.accept import accept
from app.engine.overview import count_waiting
from app.engine.schedule import Look, find_schedules, note_look
from app.engine.wake import queue_topic

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
# Where no source has a time to come within this, and none is held up, the next look is so far away.
QUIET_SECONDS: Final = 10.0
# How often it is noted that nothing was due, and so how far back a changed schedule can reach.
NOTE_SECONDS: Final = 30.0
# How many missed times are counted.
MISSED_MAX: Final = 1000


class Scheduler:
    """Asks the sources that are timed. `tick` is one look at all of them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._intakes = {
            name: one for name, one in sorted(core.intakes.items()) if one.provider.is_timed
        }
        # Sources whose queue has no room, as was said already.
        self._waiting: set[str] = set()

    @property
    def needed(self) -> bool:
        """Whether there is anything to ask at all."""
        return bool(self._intakes)

    async def tick(self) -> float:
        """Accept whatever is due. A source that stands still is left where it was."""
        rest = QUIET_SECONDS
        for look in await find_schedules(self._core.pool, list(self._intakes)):
            if look.is_paused:
                # What it owes is wanted as soon as it is resumed.
                rest = LOOK_SECONDS
                continue
            intake = self._intakes[look.source]
            try:
                await self._ask(intake, look)
                if (
                    look.looked_at is None
                    or intake.name in self._waiting
                    or _comes_soon(intake, look)
                ):
                    rest = LOOK_SECONDS
            except NotReady:
                raise
            except Exception:
                # One that fails keeps no other from its time.
                log.exception("a source could not be asked", extra={"source": look.source})
                rest = LOOK_SECONDS
        return rest

    async def _ask(self, intake: Intake, look: Look) -> None:
        if look.looked_at is None:
            await note_look(self._core.pool, look.source, until=look.now)
            return
        most = intake.provider.catch_up_max(intake.config)
        oldest = look.now - timedelta(seconds=intake.key_seconds)
        found = intake.provider.due(
            config=intake.config,
            after=max(look.looked_at, oldest),
            now=look.now,
            items_max=most + MISSED_MAX,
        )
        if found and not await self._accept(intake, Batch(tuple(found[-most:])), look):
            return
        if (missed := len(found) - most) > 0:
            log.warning(
                "scheduled times were missed", extra={"source": intake.name, "count": missed}
            )
            self._core.metrics.source_items.labels(intake.name, "missed").inc(missed)
        if found or abs(look.now - look.looked_at) > timedelta(seconds=NOTE_SECONDS):
            await note_look(self._core.pool, look.source, until=look.now)

    async def _accept(self, intake: Intake, batch: Batch, look: Look) -> bool:
        """Whether what is due is committed, by this look or before; not where its queue has no room."""
        core, queue = self._core, intake.settings.queue
        try:
            kept = intake.kept(batch, now=look.now)
        except Refused:
            return True
        self._count(intake, Counter(kept.ignored))
        arrivals = arrivals_of(core, intake, kept, {})
        if not arrivals:
            return True
        if not await self._has_room(queue, len(arrivals)):
            if intake.name not in self._waiting:
                log.warning("a queue has no room for what is due", extra={"source": intake.name})
            self._waiting.add(intake.name)
            return False
        self._waiting.discard(intake.name)
        accepted = await accept(
            core.pool, arrivals, ids=core.ids, key_seconds=intake.key_seconds, together=True
        )
        new = sum(not one.duplicate for one in accepted)
        if new:
            core.wakes.tell(queue_topic(queue))
            core.metrics.accepts.labels(queue, "new").inc(new)
        self._count(intake, Counter(new=new, duplicate=len(accepted) - new))
        return True

    async def _has_room(self, queue: str, count: int) -> bool:
        """A queue's length holds for the clock as well. Its rate does not: the clock is slow."""
        length_max = self._core.settings.queues[queue].length_max
        if length_max is None:
            return True
        waiting = await count_waiting(self._core.pool, queue, count_max=length_max + 1)
        return waiting + count <= length_max

    def _count(self, intake: Intake, results: Counter[str]) -> None:
        for result, times in results.items():
            if times:
                self._core.metrics.source_items.labels(intake.name, result).inc(times)


def _comes_soon(intake: Intake, look: Look) -> bool:
    until = look.now + timedelta(seconds=QUIET_SECONDS + LOOK_SECONDS)
    return bool(intake.provider.due(config=intake.config, after=look.now, now=until, items_max=1))
