"""Who calls, and what a key may do. A key that is revoked stops working within a second, everywhere.

Keys are read from the Authorization header alone. Neither an answer nor a log line ever shows one.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.api.problems import Refusal
from app.engine.keys import Principal, key_id_of

KNOWN_SECONDS: Final = 0.5
KNOWN_MAX: Final = 4096
_TURNS_MAX: Final = 10
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}

Find = Callable[[str], Awaitable[Principal | None]]


@dataclass(slots=True)
class _LookUp:
    """One look-up that several requests wait for."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None


class Authenticator:
    """Turns headers into principals, asking the database at most twice a second for each key."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._known: OrderedDict[bytes, tuple[Principal | None, float]] = OrderedDict()
        self._running: dict[bytes, _LookUp] = {}

    async def principal(self, headers: Sequence[tuple[bytes, bytes]]) -> Principal:
        """Name who calls; raises `Refusal` (`unauthorized`), the same for every reason."""
        key = _bearer(headers)
        principal = None if key is None or key_id_of(key) is None else await self._known_as(key)
        if principal is None:
            raise Refusal("unauthorized", headers=_CHALLENGE)
        return principal

    async def _known_as(self, key: str) -> Principal | None:
        digest = hashlib.sha256(key.encode()).digest()
        for _ in range(_TURNS_MAX):
            known = self._known.get(digest)
            if known is not None and known[1] > time.monotonic():
                return known[0]
            running = self._running.get(digest)
            if running is None:
                return await self._look_up(digest, key)
            await running.ended.wait()
            if running.error is not None:
                raise running.error
        return await self._find(key)

    async def _look_up(self, digest: bytes, key: str) -> Principal | None:
        running = self._running[digest] = _LookUp()
        # Counted from before the look-up: the answer may be as old as that.
        until = time.monotonic() + KNOWN_SECONDS
        try:
            principal = await self._find(key)
            self._known[digest] = (principal, until)
            self._known.move_to_end(digest)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
            return principal
        except Exception as error:
            running.error = error
            raise
        finally:
            del self._running[digest]
            running.ended.set()


def _bearer(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, key = values[0].decode("latin-1").strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def may(principal: Principal, scopes: frozenset[str]) -> bool:
    """Whether a key has one of these scopes; `admin` stands for every one but `approve`."""
    return bool(principal.scopes & scopes) or (
        "admin" in principal.scopes and scopes != frozenset({"approve"})
    )


def sees_messages(principal: Principal) -> bool:
    """Whether a key sees the messages of turns: one that only accepts does not."""
    return may(principal, frozenset({"agent", "read"}))
