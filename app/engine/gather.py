"""Group commit: calls of one verb that meet share a transaction, and each is answered alone.

Nobody waits for company. While nothing runs, a call goes as soon as what arrived with it is read; while a batch is on
its way the next one gathers. Whoever leaves takes nobody with him. A batch that fails has changed nothing and is done
again one by one, so that what is wrong with one call is told to that one alone; a database that is away is told to all.
What somebody holds elsewhere holds up only who needs it: a batch waits for a lock for a moment, a single call its time,
and whatever takes long lets the next batch go.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from app.engine.transaction import (
    ACQUIRE_SECONDS_MAX,
    SINGLES_SECONDS_MAX,
    DatabaseUnavailable,
    Overloaded,
    is_away,
)

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# How long a batch waits for a lock before its calls go one by one.
LOCK_WAIT_MS: Final = 100
# After so long a batch is slow, and holds up the next one no more.
SLOW_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much there may be at once: batches and slow ones, a batch's calls and bytes, and what waits."""

    batches_max: int = 2
    slow_max: int = 2
    items_max: int = 64
    bytes_max: int = 4 << 20
    waiting_max: int = 4096
    waiting_bytes_max: int = 64 << 20


@dataclass(slots=True, eq=False)
class _Call(Generic[Item, Answer]):
    """One call: what it is about, who waits for it, and until when it is worth beginning."""

    item: Item
    size: int
    answered: "asyncio.Future[Answer]"
    until: float

    def answer(self, answer: Answer) -> None:
        if not self.answered.done():
            self.answered.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)


@dataclass(slots=True, eq=False)
class _Batch(Generic[Item, Answer]):
    """What goes together. A slow batch is passed by."""

    calls: Sequence[_Call[Item, Answer]]
    slow: bool = False


class Gatherer(Generic[Item, Answer]):
    """Gathers the calls of one verb.

    `work(items, lock_wait_ms)` does them in one transaction and gives one answer each, in order; its second argument is
    None for a call that goes alone. `size` is what an item takes in memory, in bytes. `tasks` outlives every call.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item], int | None], Awaitable[Sequence[Answer]]],
        *,
        size: Callable[[Item], int],
        tasks: asyncio.TaskGroup,
        bounds: Bounds,
    ) -> None:
        self._work = work
        self._size = size
        self._tasks = tasks
        self._bounds = bounds
        self._waiting: deque[_Call[Item, Answer]] = deque()
        self._held = 0
        self._held_bytes = 0
        self._running = 0
        self._slow = 0
        self._alone = asyncio.Semaphore(bounds.slow_max)
        self._called = False

    async def call(self, item: Item) -> Answer:
        """Have it done, and return its own answer once that is committed, or raise what is wrong with it.

        Raises `Overloaded` where too much waits already.
        """
        size = self._size(item)
        held = self._held_bytes + size
        if self._held >= self._bounds.waiting_max or (
            self._held and held > self._bounds.waiting_bytes_max
        ):
            raise Overloaded
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()
        call = _Call(item, size, answered, loop.time() + ACQUIRE_SECONDS_MAX)
        self._held += 1
        self._held_bytes = held
        self._waiting.append(call)
        if not self._called and self._running < self._bounds.batches_max:
            # Behind everybody who is ready to call now: what arrived together goes together.
            self._called = True
            self._tasks.create_task(self._begin())
        try:
            return await answered
        except asyncio.CancelledError:
            # Who leaves takes along what he brought: while nothing goes, many may come and leave.
            with contextlib.suppress(ValueError):
                self._waiting.remove(call)
            raise
        finally:
            self._held -= 1
            self._held_bytes -= size

    async def _begin(self) -> None:
        self._called = False
        calls = self._next() if self._running < self._bounds.batches_max else []
        if calls:
            self._running += 1
            self._start()
            await self._run(_Batch(calls))

    def _start(self) -> None:
        while self._waiting and self._running < self._bounds.batches_max:
            if calls := self._next():
                self._running += 1
                # A task of its own: the answers of the batch before leave first.
                self._tasks.create_task(self._run(_Batch(calls)))

    def _next(self) -> list[_Call[Item, Answer]]:
        """As many as fit, in the order of their coming, without those who left or have waited too long."""
        now = asyncio.get_running_loop().time()
        calls: list[_Call[Item, Answer]] = []
        size = 0
        while self._waiting and len(calls) < self._bounds.items_max:
            call = self._waiting[0]
            if call.until < now:
                call.fail(Overloaded())
            elif not call.answered.done():
                size += call.size
                if calls and size > self._bounds.bytes_max:
                    break
                calls.append(call)
            self._waiting.popleft()
        return calls

    async def _run(self, batch: _Batch[Item, Answer]) -> None:
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._pass_by, batch)
        try:
            await self._do(batch.calls)
        finally:
            timer.cancel()
            if batch.slow:
                self._slow -= 1
            else:
                self._running -= 1
        self._start()

    def _pass_by(self, batch: _Batch[Item, Answer]) -> None:
        """Let the next batch go although this one is still on its way."""
        if self._slow < self._bounds.slow_max:
            batch.slow = True
            self._slow += 1
            self._running -= 1
            self._start()

    async def _do(self, calls: Sequence[_Call[Item, Answer]]) -> None:
        try:
            lock_wait_ms = None if len(calls) == 1 else LOCK_WAIT_MS
            answers = await self._work([call.item for call in calls], lock_wait_ms)
            for call, answer in zip(calls, answers, strict=True):
                call.answer(answer)
        except Exception as error:  # noqa: BLE001 - it is handed on to whoever it concerns
            if len(calls) == 1 or is_away(error):
                for call in calls:
                    call.fail(error)
                return
            until = asyncio.get_running_loop().time() + SINGLES_SECONDS_MAX
            for call in calls:
                call.until = until
                self._tasks.create_task(self._do_alone(call))
        except BaseException:
            # The process ends: whether it was committed is not known.
            for call in calls:
                call.fail(DatabaseUnavailable())
            raise

    async def _do_alone(self, call: _Call[Item, Answer]) -> None:
        try:
            async with self._alone:
                if call.until < asyncio.get_running_loop().time():
                    call.fail(Overloaded())
                elif not call.answered.done():
                    await self._do([call])
        finally:
            # Also where it did not come so far, because the process ends.
            call.fail(DatabaseUnavailable())
