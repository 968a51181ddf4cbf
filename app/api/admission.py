"""Admission: whether a queue takes more, decided before anything is written.

A full queue answers 503 `queue_full`, one over its rate 429 `rate_limited`, both with `Retry-After`. What it costs the
database is bounded, however many ask: a count for each second, a lot of tokens for each tenth of one, and while there
are none no question before there could be some. What is known already is no new work: callers answer it in any case.
"""

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import Final

from app.api.problems import Refusal
from app.core import Core
from app.engine.allowance import take_allowance
from app.engine.overview import count_waiting
from app.settings import Queue

# How old a count may be, and how soon it is made again for a queue that seems full.
COUNT_SECONDS_MAX: Final = 1.0
RECOUNT_SECONDS: Final = 0.25
# A replica takes the tokens of so long at once, and keeps them no longer than that.
LOT_SECONDS: Final = 0.1
LOT_SECONDS_MAX: Final = 1.0
EMPTY_SECONDS_MAX: Final = 0.5
FULL_RETRY_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Admitted:
    """How many inbound of those that asked may be accepted as new; `refusal` tells why not all of them."""

    queue: str
    count: int
    refusal: Refusal | None = None


@dataclass(slots=True)
class _Gate:
    """One queue, as this process sees it. `inside` are admitted and not settled, `added` were since the count."""

    name: str
    policy: Queue
    counted: int = 0
    counted_at: float = -math.inf
    inside: int = 0
    added: int = 0
    tokens: int = 0
    tokens_until: float = 0.0
    # Not asked again before the first; one more may pass from the second on.
    empty_until: float = 0.0
    next_at: float = 0.0
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)
    drawing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def room(self, length_max: int) -> int:
        """How many more there may be, as far as is known here."""
        return max(0, length_max - self.counted - self.added - self.inside)


class Admission:
    """The door of every queue that has a limit. One for each process."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._gates = {
            name: _Gate(name, policy)
            for name, policy in core.settings.queues.items()
            if policy.length_max is not None or policy.rate_per_second is not None
        }

    def limits(self, queue: str) -> bool:
        """Whether a queue has a door at all."""
        return queue in self._gates

    async def admit(self, queue: str, count: int = 1) -> Admitted:
        """Let in up to `count` inbound; every answer is to be given to `settle`, whatever comes of it."""
        gate = self._gates.get(queue)
        if gate is None:
            return Admitted(queue, count)
        wanted = await self._within_length(gate, count)
        full = _full() if wanted < count else None
        gate.inside += wanted
        given = 0
        try:
            given, next_in_seconds = await self._within_rate(gate, wanted)
        finally:
            gate.inside -= wanted - given
        if given < wanted:
            return Admitted(queue, given, _too_fast(next_in_seconds))
        return Admitted(queue, given, full)

    def settle(self, admitted: Admitted, *, new: int) -> None:
        """Say how many were new in the end: the others took no room, and give back what the rate gave them."""
        gate = self._gates.get(admitted.queue)
        if gate is None:
            return
        gate.inside -= admitted.count
        gate.added += new
        if gate.policy.rate_per_second is not None and time.monotonic() < gate.tokens_until:
            gate.tokens += admitted.count - new

    async def _within_length(self, gate: _Gate, count: int) -> int:
        length_max = gate.policy.length_max
        if length_max is None:
            return count
        # Who finds it full has it counted again, unless that was done a moment ago.
        for age_max in (COUNT_SECONDS_MAX, RECOUNT_SECONDS):
            if gate.room(length_max) < count or age_max == COUNT_SECONDS_MAX:
                await self._count(gate, length_max, age_max)
        return min(count, gate.room(length_max))

    async def _count(self, gate: _Gate, length_max: int, age_max: float) -> None:
        if time.monotonic() - gate.counted_at <= age_max:
            return
        async with gate.counting:
            now = time.monotonic()
            if now - gate.counted_at <= age_max:
                return
            before = gate.added
            gate.counted = await count_waiting(self._core.pool, gate.name, count_max=length_max + 1)
            # What came in while it was counted may be in the count or not.
            gate.added -= before
            gate.counted_at = now

    async def _within_rate(self, gate: _Gate, count: int) -> tuple[int, float]:
        """How many of these the rate lets pass, and in how many seconds the next one may."""
        rate = gate.policy.rate_per_second
        if rate is None or not count:
            return count, 0.0
        given = _spend(gate, count)
        if given == count:
            return given, 0.0
        async with gate.drawing:
            given += _spend(gate, count - given)
            now = time.monotonic()
            if given < count and now >= gate.empty_until:
                lot = await take_allowance(
                    self._core.pool,
                    gate.name,
                    wanted=max(count - given, math.ceil(rate * LOT_SECONDS)),
                    rate_per_second=rate,
                    burst=gate.policy.burst,
                )
                gate.tokens, gate.tokens_until = lot.given, now + LOT_SECONDS_MAX
                given += _spend(gate, count - given)
                if given < count:
                    gate.empty_until = now + min(lot.next_in_seconds, EMPTY_SECONDS_MAX)
                    gate.next_at = now + lot.next_in_seconds
        return given, max(0.0, gate.next_at - time.monotonic())


def _spend(gate: _Gate, count: int) -> int:
    if time.monotonic() >= gate.tokens_until:
        gate.tokens = 0
    given = min(count, gate.tokens)
    gate.tokens -= given
    return given


def _full() -> Refusal:
    return Refusal("queue_full", headers={"Retry-After": str(FULL_RETRY_SECONDS)})


def _too_fast(next_in_seconds: float) -> Refusal:
    seconds = max(1, math.ceil(next_in_seconds))
    return Refusal("rate_limited", headers={"Retry-After": str(seconds)})
