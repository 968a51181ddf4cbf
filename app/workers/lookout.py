"""The lookout: asks the database what is due, wakes who does it, and says when to look again.

Nothing becomes due earlier than it says without being told of. So while everything is quiet and others are heard, a
look in five intervals is enough. A known time brings it then, and something told of within an interval. While anything
runs, or where nobody can be heard, it comes each interval.
"""

import asyncio
from typing import Final

from app.core import Core
from app.engine.chores import Look, find_chores
from app.engine.wake import OUTBOX, RESEND, queue_topic

# How long a look is put off while everything is quiet and others are heard.
QUIET_INTERVALS: Final = 5
QUIET_SECONDS_MAX: Final = 5.0
# How long those may rest whom a lookout wakes.
WATCHED_SECONDS: Final = 30.0
# However close the next time is, looks come no closer than this part of an interval.
SOONEST: Final = 0.25


class Lookout:
    """One for each process. `look` asks once, `tick` is a loop around that where nothing else does."""

    def __init__(self, core: Core, stirred: asyncio.Event | None = None) -> None:
        """`stirred` is set by whatever is told to anybody."""
        self._core = core
        self._stirred = stirred or asyncio.Event()
        self.quiet = False

    async def look(self) -> Look:
        """Ask, and wake who waits in this process: for turns, for messages to send, for what is sent once more."""
        core = self._core
        stirred = self._stirred.is_set()
        self._stirred.clear()
        found = await find_chores(core.pool, core.settings.queues, core.routes)
        self.quiet = found.is_quiet and not stirred
        topics = {"deliveries": OUTBOX, "resends": RESEND}
        core.wakes.wake_here(
            *(topic for chore, topic in topics.items() if chore in found.due),
            *map(queue_topic, found.queues),
        )
        return found

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
