"""The claim desk: all who wait for turns of a queue are served by one query at a time, by few while there is nothing,
and by none behind one that left nothing, until something is told.

A waiter holds no database connection. Who has left is not served; nothing is claimed for anybody while the service
drains.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from app.core import Core
from app.domain.errors import NotReady, SinksweepError
from app.domain.model import Claimed, ClaimRequest
from app.engine.claim import claim
from app.engine.marks import Marks
from app.engine.transaction import Busy
from app.engine.wake import queue_topic

POLL_SECONDS: Final = 1.0
# While others are heard: what becomes due is told of by this process's own lookout.
HEARD_SECONDS: Final = 10.0
SEATS_MAX: Final = 64
TURNS_MAX: Final = 100


class Client(Protocol):
    """Who waits for an answer."""

    @property
    def gone(self) -> bool:
        """Whether it is known to have left."""


@dataclass(slots=True, eq=False)
class Seat:
    """One request that waits."""

    request: ClaimRequest
    client: Client
    until: float
    looked: bool = False
    claimed: list[Claimed] | None = None
    error: Exception | None = None
    # Set when it is answered, or asked to serve the others.
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def gone(self) -> bool:
        """Whether nobody is there any more to be answered."""
        return self.client.gone

    @property
    def may_repeat(self) -> bool:
        """Whether the same request may have been answered before."""
        return self.request.request_id is not None

    @property
    def answered(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.claimed is not None or self.error is not None

    def answer(self, claimed: list[Claimed]) -> None:
        """Answer once."""
        if not self.answered:
            self.claimed = claimed
            self.stirred.set()

    def fail(self, error: Exception) -> None:
        """Answer with what went wrong."""
        if not self.answered:
            self.error = error
            self.stirred.set()


@dataclass(slots=True)
class _Line:
    """Those who wait for one queue, in the order in which they came. One of them serves them all."""

    # Set to have the queue looked at.
    told: asyncio.Event
    # Ends the hearing of what is told.
    close: Callable[[], None]
    seats: list[Seat] = field(default_factory=list)
    served: bool = False
    # How many are asked for at once: all who fit, and one only to see whether there is still nothing.
    width: int = SEATS_MAX
    empty: bool = False
    # When it is looked at again, whatever comes; on the monotonic clock.
    looks_at: float = 0.0


class ClaimDesk:
    """Serves claims. It needs no task of its own: whoever waits longest yet serves the line meanwhile."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lines: dict[str, _Line] = {}
        self._marks = Marks()

    def seat(self, request: ClaimRequest, client: Client, *, wait_seconds: float) -> Seat:
        """A place for a request that has so long to wait."""
        return Seat(request, client, time.monotonic() + wait_seconds)

    async def claim(self, seat: Seat) -> list[Claimed]:
        """Wait until there is something, or the time is up and one query was made; raises what went wrong."""
        queue = seat.request.queue
        line = self._lines.get(queue) or self._open(queue)
        line.seats.append(seat)
        # A queue that was empty a moment ago is looked at again soon enough for who has the time.
        has_time = seat.until > line.looks_at
        if not (line.empty and has_time and not seat.may_repeat):
            line.told.set()
        try:
            while not seat.answered:
                if line.served:
                    await seat.stirred.wait()
                    seat.stirred.clear()
                else:
                    await self._serve(line, seat)
        finally:
            line.seats = [one for one in line.seats if one is not seat and not one.answered]
            if not line.seats and self._lines.get(queue) is line:
                del self._lines[queue]
                line.close()
            elif line.seats and not line.served:
                # Who came last stays longest: the line changes hands as rarely as can be.
                line.seats[-1].stirred.set()
        if seat.error is not None:
            raise seat.error
        return seat.claimed or []

    def _open(self, queue: str) -> _Line:
        """A new line. It hears what is told for as long as somebody stands in it, also while it changes hands."""
        hearing = contextlib.ExitStack()
        told = hearing.enter_context(self._core.wakes.waiting(queue_topic(queue)))
        line = self._lines[queue] = _Line(told, hearing.close)
        return line

    async def _serve(self, line: _Line, seat: Seat) -> None:
        line.served = True
        try:
            while not seat.answered:
                if line.empty:
                    await self._rest(line)
                line.told.clear()
                try:
                    await self._pass(line)
                except BaseException:
                    # Who serves next looks for what was told to this one.
                    line.told.set()
                    raise
                self._dismiss(line)
        finally:
            line.served = False

    async def _pass(self, line: _Line) -> None:
        """Ask once, for as many as are likely to get something."""
        before = list(line.seats)
        asked = self._next(line)
        if not asked:
            line.empty = False
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
            if claimed is not None:
                seat.answer(claimed)
        queue = asked[0].request.queue
        if any(seat.gone and not seat.answered for seat in asked):
            # What was claimed for who has left is free again, and others may have gone over it meanwhile.
            self._core.wakes.tell(queue_topic(queue))
        if not self._marks.is_empty(queue):
            line.width, line.empty = SEATS_MAX, False
            return
        line.width, line.empty = 1, True
        # There was nothing more for anybody who was here before the look.
        for seat in before:
            seat.looked = seat.looked or not seat.may_repeat

    def _next(self, line: _Line) -> list[Seat]:
        asked: list[Seat] = []
        turns = 0
        if self._core.draining.started:
            return asked
        for seat in line.seats:
            # A request that may have been answered before is looked up at least once.
            unseen = seat.may_repeat and not seat.looked
            if seat.gone or (len(asked) >= line.width and not unseen):
                continue
            turns += seat.request.turns_max
            if asked and (len(asked) == SEATS_MAX or turns > TURNS_MAX):
                break
            asked.append(seat)
        return asked

    async def _ask(self, seats: list[Seat]) -> list[list[Claimed] | None]:
        pool = self._core.pool
        self._marks.doubt(seats[0].request.queue)
        try:
            return await claim(
                pool,
                [seat.request for seat in seats],
                still_wanted=lambda position: not seats[position].gone,
                marks=self._marks,
            )
        except Exception as error:
            if isinstance(error, NotReady) and not isinstance(error, Busy):
                raise
            if len(seats) == 1:
                seats[0].fail(error)
                return [None]
        # One of them is wrong, and takes nobody with it.
        found: list[list[Claimed] | None] = []
        for seat in seats:
            (claimed,) = await self._ask([seat])
            if claimed is not None:
                # At once: should the next one fail, this one keeps what is committed.
                seat.answer(claimed)
            found.append(claimed)
        return found

    def _dismiss(self, line: _Line) -> None:
        """Let go who was answered, has left, or has waited long enough and was looked for."""
        now = time.monotonic()
        for seat in line.seats:
            over = seat.looked and seat.until <= now
            if seat.gone or over or self._core.draining.started:
                seat.answer([])
        line.seats = [seat for seat in line.seats if not seat.answered]

    async def _rest(self, line: _Line) -> None:
        """Wait for a wake-up, somebody new or gone, the first who has waited enough, or the next poll."""
        poll = self._core.wakes.rest_seconds(POLL_SECONDS, heard_seconds=HEARD_SECONDS)
        poll *= 0.75 + self._core.jitter.random() / 4
        first = min(seat.until for seat in line.seats)
        line.looks_at = min(time.monotonic() + poll, first)
        told = line.told
        # Who leaves tells nobody, and is not kept for so long.
        while not told.is_set() and not any(seat.gone for seat in line.seats):
            left = line.looks_at - time.monotonic()
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, POLL_SECONDS)):
                    await told.wait()
        if told.is_set():
            # Whatever has come may be for many.
            line.width = SEATS_MAX
