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
UNKNOWN_MAX: Final = 1024
_TURNS_MAX: Final = 10
_APPROVE: Final = frozenset({"approve"})
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}

Find = Callable[[str], Awaitable[Principal | None]]


@dataclass(slots=True)
class _LookUp:
    """One look-up that several requests wait for."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """Whose a key is, or that it is nobody's, until a moment of the monotonic clock."""

    principal: Principal | None
    until: float


class _Answers:
    """The answers that were given last."""

    def __init__(self, answers_max: int) -> None:
        self._max = answers_max
        self._kept: OrderedDict[bytes, _Answer] = OrderedDict()

    def get(self, digest: bytes, *, now: float) -> _Answer | None:
        """The answer for a key, if it is young enough."""
        answer = self._kept.get(digest)
        return answer if answer is not None and answer.until > now else None

    def keep(self, digest: bytes, answer: _Answer) -> None:
        """Keep an answer, and drop the oldest where there are too many."""
        self._kept[digest] = answer
        self._kept.move_to_end(digest)
        while len(self._kept) > self._max:
            self._kept.popitem(last=False)


class Authenticator:
    """Turns headers into principals, asking the database at most twice a second for each key."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._known = _Answers(KNOWN_MAX)
        # Apart: there is no end of keys that are nobody's, and they must not push out those of somebody.
        self._unknown = _Answers(UNKNOWN_MAX)
        self._running: dict[bytes, _LookUp] = {}

    async def principal(self, headers: Sequence[tuple[bytes, bytes]]) -> Principal:
        """Name who calls; raises `Refusal` (`unauthorized`), the same for every reason."""
        values = [value for name, value in headers if name == b"authorization"]
        if len(values) == 1:
            # In the usual spelling, and known: nothing has to be read.
            answer = self._known.get(hashlib.sha256(values[0]).digest(), now=time.monotonic())
            if answer is not None and answer.principal is not None:
                return answer.principal
        key = _bearer(values)
        principal = None if key is None or key_id_of(key) is None else await self._known_as(key)
        if principal is None:
            raise Refusal("unauthorized", headers=_CHALLENGE)
        return principal

    async def _known_as(self, key: str) -> Principal | None:
        # However it was spelled, it is asked for and kept as the same.
        digest = hashlib.sha256(b"Bearer " + key.encode()).digest()
        for _ in range(_TURNS_MAX):
            now = time.monotonic()
            known = self._known.get(digest, now=now) or self._unknown.get(digest, now=now)
            if known is not None:
                return known.principal
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
            answers = self._unknown if principal is None else self._known
            answers.keep(digest, _Answer(principal, until))
            return principal
        except Exception as error:
            running.error = error
            raise
        finally:
            del self._running[digest]
            running.ended.set()


def _bearer(values: Sequence[bytes]) -> str | None:
    if len(values) != 1:
        return None
    scheme, _, key = values[0].decode("latin-1").strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def may(principal: Principal, scopes: frozenset[str]) -> bool:
    """Whether a key has one of these scopes; `admin` stands for every one but `approve`."""
    return not principal.scopes.isdisjoint(scopes) or (
        "admin" in principal.scopes and scopes != _APPROVE
    )


def sees_messages(principal: Principal) -> bool:
    """Whether a key sees the messages of turns: one that only accepts does not."""
    return may(principal, frozenset({"agent", "read", "approve"}))
