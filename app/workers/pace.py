"""Pace: passes that are few go at once; of many, what comes within a moment goes in one.

A pass costs a transaction, however little it finds, and at a steady load that would be most of the work. The busier the
machine, the longer a pass takes and the longer that moment is: never shorter than `SPACE_SECONDS`, nor longer than
`SPACE_SECONDS_MAX`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

# From the beginning of a pass to that of the next one.
SPACE_SECONDS: Final = 0.005
SPACE_SECONDS_MAX: Final = 0.015
# A pass takes at most this part of the time, as far as the bounds let it.
SHARE: Final = 0.5
# How many passes may follow one another at once, before they are spaced.
BURST: Final = 4


class Pace:
    """When the next pass of one loop may go. Nothing waits for longer than the space between two."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self.space_seconds = SPACE_SECONDS
        # When each pass would have gone had they been spaced evenly, and when the last one did.
        self._even_at = 0.0
        self._last_at = 0.0

    async def gather(self, *, more: bool) -> None:
        """Wait for the next pass; where `more` is known to be on its way, one space behind the last in any case."""
        now, space = self._seconds(), self.space_seconds
        due_at = self._last_at + space if more else self._even_at - BURST * space
        if (left := min(due_at - now, space)) > 0:
            await asyncio.sleep(left)
            now = self._seconds()
        self._last_at = now
        self._even_at = max(self._even_at, now) + space

    def passed(self) -> None:
        """The pass has ended: by how long it took the next is spaced."""
        took = self._seconds() - self._last_at
        self.space_seconds = min(max(took / SHARE, SPACE_SECONDS), SPACE_SECONDS_MAX)
