"""Pace: passes that are few go at once; of many, what comes within a moment goes in one.

A pass costs a transaction, however little it finds, and at a steady load that would be most of the work.
"""

import asyncio
import time
from typing import Final

# How many passes may follow one another at once, before they are spaced.
BURST: Final = 4


class Pace:
    """When the next pass of one loop may go. Nothing waits for longer than `seconds`."""

    def __init__(self) -> None:
        # When each pass would have gone had they been spaced evenly, and when the last one did.
        self._even_at = 0.0
        self._last_at = 0.0

    async def gather(self, seconds: float, *, more: bool) -> None:
        """Wait for the next pass; where `more` is known to be on its way, `seconds` behind the last in any case."""
        now = time.monotonic()
        due_at = self._last_at + seconds if more else self._even_at - BURST * seconds
        if (left := min(due_at - now, seconds)) > 0:
            await asyncio.sleep(left)
            now = time.monotonic()
        self._last_at = now
        self._even_at = max(self._even_at, now) + seconds
