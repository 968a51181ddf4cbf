"""Public keys: fetched for the sources that verify with some, outside of every request, and kept for this process.

Old ones are verified with until new ones are there. Who meets a key that nobody knows asks for them anew: once in a
while that is heard, however many ask.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from app.core import Core

log = logging.getLogger(__name__)

# How old keys may get, how soon they are fetched again when they could not be had, and how soon when somebody asks.
FRESH_SECONDS: Final = 6 * 3600.0
AGAIN_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 5.0


class PublicKeys:
    """Fetches what is missing or old. `tick` is one look."""

    def __init__(self, core: Core, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that only grow."""
        self._core = core
        self._clock = clock
        self._next = dict.fromkeys(
            (name for name, one in core.intakes.items() if one.provider.has_fetched_keys), -math.inf
        )
        self._fetched_at = dict.fromkeys(self._next, -math.inf)

    @property
    def needed(self) -> bool:
        """Whether there is anything to fetch at all."""
        return bool(self._next)

    async def tick(self) -> float:
        """Fetch whatever is due."""
        now, wanted = self._clock(), self._core.fetched.wanted
        for name, due in self._next.items():
            asked = name in wanted and now - self._fetched_at[name] > AGAIN_SECONDS
            if now >= due or asked:
                # Who asks while they are fetched may have met a newer key.
                wanted.discard(name)
                self._fetched_at[name] = now
                seconds = FRESH_SECONDS if await self._fetch(name) else AGAIN_SECONDS
                self._next[name] = now + seconds
        return LOOK_SECONDS

    async def _fetch(self, name: str) -> bool:
        intake = self._core.intakes[name]
        keys = await intake.provider.refresh(config=intake.config, wire=self._core.wire.http)
        if keys is None:
            log.warning("public keys could not be fetched", extra={"source": name})
            return False
        self._core.fetched.by_source[name] = keys
        return True
