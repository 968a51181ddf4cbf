"""Public keys: fetched for the sources that verify with some, outside of every request, and kept for this process.

Old ones are verified with until new ones are there. Who meets a key that nobody knows asks for them anew, and is not
heard more often than once in a while.
"""

import logging
import time
from typing import Final

from app.core import Core

log = logging.getLogger(__name__)

# How old keys may get, how soon they are fetched again when they could not be had, and how soon when somebody asks.
FRESH_SECONDS: Final = 6 * 3600.0
AGAIN_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 5.0


class PublicKeys:
    """Fetches what is missing or old. `tick` is one look."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._next = dict.fromkeys(
            (name for name, one in core.intakes.items() if one.provider.has_fetched_keys), 0.0
        )
        self._asked_at = dict.fromkeys(self._next, 0.0)

    @property
    def needed(self) -> bool:
        """Whether there is anything to fetch at all."""
        return bool(self._next)

    async def tick(self) -> float:
        """Fetch whatever is due."""
        now = time.monotonic()
        wanted, self._core.fetched.wanted = self._core.fetched.wanted, set()
        for name, due in self._next.items():
            asked = name in wanted and now - self._asked_at[name] > AGAIN_SECONDS
            if now >= due or asked:
                self._asked_at[name] = now
                self._next[name] = now + (
                    FRESH_SECONDS if await self._fetch(name) else AGAIN_SECONDS
                )
        return LOOK_SECONDS

    async def _fetch(self, name: str) -> bool:
        intake = self._core.intakes[name]
        keys = await intake.provider.refresh(config=intake.config, wire=self._core.wire.http)
        if keys is None:
            log.warning("public keys could not be fetched", extra={"source": name})
            return False
        self._core.fetched.by_source[name] = keys
        return True
