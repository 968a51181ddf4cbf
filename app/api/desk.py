"""The claim desk: all who wait for turns of a queue are served by one query at a time, and by one a second while
there is nothing.

A waiter holds no database connection. Who has left is not served; nothing is claimed for anybody while the service
drains.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

from app.core import Core
from app.domain.errors import InvalidContent, SinksweepError
from app.domain.model import Claimed, ClaimRequest
from app.engine.claim import claim
from app.engine.wake import queue_topic

POLL_SECONDS: Final = 1.0
SEATS_MAX: Final = 64
TURNS_MAX: Final = 100

Identity = tuple[str, str, str, str | None]


@dataclass(slots=True, eq=False)
class Seat:
    """One request that waits. `gone` is set by whoever watches its client."""

    request: ClaimRequest
    until: float
    gone: bool = False
    looked: bool = False
    answer: "asyncio.Future[list[Claimed]]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def identity(self) -> Identity | None:
        """What a repeated request has in common with the first; None if it cannot be repeated."""
        one = self.request
        if one.request_id is None:
            return None
        return one.principal, one.queue, one.agent, one.request_id

    def give(self, claimed: list[Claimed]) -> None:
        """Answer, unless nobody waits any more."""
        if not self.answer.done():
            self.answer.set_result(claimed)

    def fail(self, error: Exception) -> None:
        """Answer with what went wrong."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class _Line:
    """Those who wait for one queue, in the order in which they came."""

    seats: list[Seat] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    # How many are asked for at once: one while there is nothing, more as long as there is enough.
    width: int = 1
    empty: bool = False


class ClaimDesk:
    """Serves claims; works while `open()` is entered."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lines: dict[str, _Line] = {}
        self._group: asyncio.TaskGroup | None = None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Serve until the context ends; who still waits then is answered with nothing."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                for line in self._lines.values():
                    for seat in line.seats:
                        seat.give([])
                    line.came.set()

    def sit(self, request: ClaimRequest, *, wait_seconds: float) -> Seat:
        """Join the line of a queue; the seat's `answer` comes within the time to wait and one query."""
        seat = Seat(request, time.monotonic() + wait_seconds)
        if self._group is None or self._core.draining.started:
            seat.give([])
            return seat
        line = self._lines.get(request.queue)
        if line is None:
            line = self._lines[request.queue] = _Line()
            self._group.create_task(self._serve(request.queue, line))
        line.seats.append(seat)
        # A queue that was empty a moment ago is looked at again soon enough for who has the time.
        if not line.empty or wait_seconds <= POLL_SECONDS or request.request_id is not None:
            line.came.set()
        return seat

    async def _serve(self, queue: str, line: _Line) -> None:
        with self._core.wakes.waiting(queue_topic(queue)) as told:
            while line.seats:
                line.came.clear()
                if told.is_set():
                    told.clear()
                    line.empty = False
                await self._pass(line)
                self._dismiss(line)
                if line.seats and line.empty:
                    await self._rest(line, told)
            del self._lines[queue]

    async def _pass(self, line: _Line) -> None:
        """Ask once, for as many as are likely to get something."""
        before = list(line.seats)
        asked = self._next(line)
        if not asked:
            return
        try:
            answers = await self._ask(asked)
        except SinksweepError as error:
            # Nobody is left to wait for a database that is away.
            for seat in before:
                seat.fail(error)
            line.width, line.empty = 1, False
            return
        for seat, claimed in zip(asked, answers, strict=True):
            seat.looked = True
            if claimed:
                seat.give(claimed)
        if any(answers):
            line.width, line.empty = min(line.width * 2, SEATS_MAX), False
            return
        line.width, line.empty = 1, True
        # There was nothing for anybody who was here before the look.
        for seat in before:
            seat.looked = seat.looked or seat.request.request_id is None

    def _next(self, line: _Line) -> list[Seat]:
        asked: list[Seat] = []
        names: set[Identity] = set()
        turns = 0
        if self._core.draining.started:
            return asked
        for seat in line.seats:
            turns += seat.request.turns_max
            full = len(asked) == SEATS_MAX or (asked and turns > TURNS_MAX)
            if full:
                break
            # A request that may have been answered before is looked up at least once.
            new = seat.identity is not None and not seat.looked
            # The same request twice: the second finds what the first was given.
            if seat.gone or seat.identity in names or (len(asked) >= line.width and not new):
                turns -= seat.request.turns_max
                continue
            asked.append(seat)
            if seat.identity is not None:
                names.add(seat.identity)
        return asked

    async def _ask(self, seats: list[Seat]) -> list[list[Claimed]]:
        pool = self._core.pool
        try:
            return await claim(
                pool,
                [seat.request for seat in seats],
                still_wanted=lambda position: not seats[position].gone,
            )
        except InvalidContent as invalid:
            if len(seats) == 1:
                seats[0].fail(invalid)
                return [[]]
        # One of them is wrong, and takes nobody with it.
        return [claimed for seat in seats for claimed in await self._ask([seat])]

    def _dismiss(self, line: _Line) -> None:
        """Let go who was answered, has left, or has waited long enough and was looked for."""
        now = time.monotonic()
        for seat in line.seats:
            over = seat.looked and seat.until <= now
            if seat.gone or over or self._core.draining.started:
                seat.give([])
        line.seats = [seat for seat in line.seats if not seat.answer.done()]

    async def _rest(self, line: _Line, told: asyncio.Event) -> None:
        """Wait for a wake-up, somebody new, the first who has waited enough, or the next poll."""
        poll = POLL_SECONDS * (0.75 + self._core.jitter.random() / 4)
        first = min(seat.until for seat in line.seats) - time.monotonic()
        if line.came.is_set() or told.is_set() or first <= 0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(poll, first)):
                await _either(line.came, told)


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    """Return as soon as one of the events is set."""

    class _Enough(Exception):
        pass

    async def wait(event: asyncio.Event) -> None:
        await event.wait()
        raise _Enough

    with contextlib.suppress(BaseExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(wait(one))
            group.create_task(wait(other))
