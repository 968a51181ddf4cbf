"""The lookout: asks the database what is due, wakes who does it, and says when to look again.

Nothing becomes due earlier than it says without being told of. So while everything is quiet and others are heard, a
look in five intervals is enough. A known time brings it then, and something told of within an interval. While anything
runs, or where nobody can be heard, it comes each interval.

What waits to be claimed or sent is part of the look. Where that takes too long, as behind what an old snapshot keeps of
all that ever waited, it becomes rare, and the sweep is told what it has to do without: then whoever waits looks for
themselves each time.
"""

import asyncio
import logging
import time
from typing import Final

from app.core import Core
from app.engine.chores import Look, find_chores
from app.engine.transaction import Busy
from app.engine.wake import OUTBOX, RESEND, queue_topic

log = logging.getLogger(__name__)

# How long a look is put off while everything is quiet and others are heard.
QUIET_INTERVALS: Final = 5
QUIET_SECONDS_MAX: Final = 5.0
# How long those may rest whom a lookout wakes.
WATCHED_SECONDS: Final = 30.0
# However close the next time is, looks come no closer than this part of an interval.
SOONEST: Final = 0.25
# A whole look that takes longer, or fails, comes seldom.
SLOW_SECONDS: Final = 0.5
# What comes seldom takes at most this part of the time.
SELDOM_SHARE: Final = 0.05


class Lookout:
    """One for each process. `look` asks once, `tick` is a loop around that where nothing else does."""

    def __init__(self, core: Core, stirred: asyncio.Event | None = None) -> None:
        """`stirred` is set by whatever is told to anybody."""
        self._core = core
        self._stirred = stirred or asyncio.Event()
        self._whole_at = 0.0
        self.quiet = False

    async def look(self) -> Look:
        """Ask, and wake who waits in this process: for turns, for messages to send, for what is sent once more."""
        core = self._core
        stirred = self._stirred.is_set()
        self._stirred.clear()
        found = await self._find()
        self.quiet = found.is_quiet and not stirred
        topics = {"deliveries": OUTBOX, "resends": RESEND}
        core.wakes.wake_here(
            *(topic for chore, topic in topics.items() if chore in found.due),
            *map(queue_topic, found.queues),
        )
        return found

    async def _find(self) -> Look:
        """Everything, or what the sweep needs where the rest of it cannot be had now."""
        core = self._core
        began = time.monotonic()
        if began >= self._whole_at:
            try:
                found = await find_chores(core.pool, core.settings.queues, core.routes)
            except Busy:
                self._whole_at = seldom(began)
                log.warning("what waits could not be looked for", extra={"loop": "look"})
            else:
                if time.monotonic() - began > SLOW_SECONDS:
                    self._whole_at = seldom(began)
                return found
        return await find_chores(core.pool, core.settings.queues, core.routes, whole=False)

    def rest_seconds(self, found: Look) -> float:
        """How long nothing needs to be looked for behind this look."""
        interval = self._core.settings.sweep.interval_seconds
        quiet = min(QUIET_INTERVALS * interval, QUIET_SECONDS_MAX) if self.quiet else interval
        most = self._core.wakes.rest_seconds(interval, heard_seconds=quiet)
        if found.next_seconds is None:
            return most
        return min(most, max(found.next_seconds, SOONEST * interval))

    async def tick(self) -> float:
        """Look, for a process that does not sweep."""
        return self.rest_seconds(await self.look())


def seldom(began: float) -> float:
    """When something may come again that has taken since then: times are those of `time.monotonic`, in seconds."""
    now = time.monotonic()
    return now + (now - began) * (1 / SELDOM_SHARE - 1)
