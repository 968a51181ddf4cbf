"""Calls that meet share a transaction, and nobody notices anything of the others but the time that it saved."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import InvalidContent, Problem
from app.engine import gather
from app.engine.gather import LOCK_WAIT_MS, Bounds, Gatherer
from app.engine.transaction import Busy, DatabaseUnavailable, Overloaded

if TYPE_CHECKING:
    Calls = Gatherer[int, str]

SECONDS_MAX = 5.0
SMALL = Bounds(batches_max=1, slow_max=1, items_max=4, bytes_max=100, waiting_max=20)


@dataclass(slots=True)
class Database:
    """Does what it is given when it is let, all or nothing, and remembers the batches."""

    poisoned: frozenset[int] = frozenset()
    error: Exception = field(default_factory=lambda: InvalidContent(Problem("", "poison")))
    batches: list[list[int]] = field(default_factory=list)
    waits: list[int | None] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    running: int = 0
    running_most: int = 0
    let: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, items: Sequence[int], lock_wait_ms: int | None) -> list[str]:
        self.batches.append(list(items))
        self.waits.append(lock_wait_ms)
        self.running += 1
        self.running_most = max(self.running, self.running_most)
        try:
            await self.let.wait()
        finally:
            self.running -= 1
        if self.poisoned.intersection(items):
            raise self.error
        self.done += items
        return [f"answer to {item}" for item in items]


@contextlib.asynccontextmanager
async def gathering(database: Database, bounds: Bounds = SMALL) -> "AsyncIterator[Calls]":
    async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as tasks:
        yield Gatherer(database.work, size=lambda _: 30, tasks=tasks, bounds=bounds)


class Callers:
    """Each calls with a number of its own, and keeps what it was told."""

    def __init__(self, calls: "Calls") -> None:
        self.calls = calls
        self.told: dict[int, object] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def call(self, number: int) -> None:
        try:
            self.told[number] = await self.calls.call(number)
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            self.told[number] = error

    def start(self, group: asyncio.TaskGroup, *numbers: int) -> None:
        for number in numbers:
            self.tasks[number] = group.create_task(self.call(number))


async def settled(seconds: float = 0.0) -> None:
    """Let everything run that can."""
    await asyncio.sleep(seconds)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_call_that_meets_nobody_goes_alone_and_at_once() -> None:
    database = Database()
    database.let.set()
    async with gathering(database) as calls:
        assert await calls.call(1) == "answer to 1"
    assert (database.batches, database.waits) == ([[1]], [None])


async def test_calls_that_arrive_together_go_together() -> None:
    database = Database()
    database.let.set()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        Callers(calls).start(group, 1, 2, 3)
    assert (database.batches, database.waits) == ([[1, 2, 3]], [LOCK_WAIT_MS])


async def test_newcomers_gather_while_a_batch_is_on_its_way_and_go_in_the_order_they_came() -> None:
    database = Database()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, 1)
        await settled()
        for number in (2, 3, 4):
            callers.start(group, number)
            await settled()
        assert database.batches == [[1]]
        database.let.set()
    assert database.batches == [[1], [2, 3, 4]]
    assert callers.told == {n: f"answer to {n}" for n in (1, 2, 3, 4)}


async def test_a_batch_has_a_most_of_calls_and_of_bytes() -> None:
    database = Database()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, *range(8))
        await settled()
        database.let.set()
    # Three of 30 bytes fit into 100.
    assert database.batches == [[0, 1, 2], [3, 4, 5], [6, 7]]


async def test_a_call_larger_than_a_batch_goes_by_itself() -> None:
    database = Database()
    database.let.set()
    bounds = Bounds(batches_max=1, bytes_max=10)
    async with gathering(database, bounds) as calls, asyncio.TaskGroup() as group:
        Callers(calls).start(group, 1, 2)
    assert database.batches == [[1], [2]]


async def test_what_is_wrong_with_one_call_is_told_to_that_one_alone() -> None:
    database = Database(poisoned=frozenset({2}))
    database.let.set()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, 1, 2, 3)
    assert isinstance(callers.told[2], InvalidContent)
    assert (callers.told[1], callers.told[3]) == ("answer to 1", "answer to 3")
    assert sorted(database.done) == [1, 3]
    assert database.waits == [LOCK_WAIT_MS, None, None, None]


async def test_what_somebody_holds_is_asked_for_again_with_patience() -> None:
    database = Database(poisoned=frozenset({1}), error=Busy())
    database.let.set()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, 1, 2)
    assert isinstance(callers.told[1], Busy)
    assert callers.told[2] == "answer to 2"


async def test_a_database_that_is_away_is_told_to_everybody_of_the_batch_and_asked_once() -> None:
    database = Database(poisoned=frozenset({1}), error=DatabaseUnavailable())
    database.let.set()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, 1, 2, 3)
    assert [type(callers.told[n]) for n in (1, 2, 3)] == [DatabaseUnavailable] * 3
    assert (database.batches, database.done) == ([[1, 2, 3]], [])


async def test_who_leaves_takes_nobody_with_him() -> None:
    database = Database()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, 1, 2)
        await settled()
        callers.start(group, 3, 4)
        await settled()
        # One of those on their way, and one of those who wait.
        callers.tasks[1].cancel()
        callers.tasks[3].cancel()
        await settled()
        database.let.set()
    assert database.batches == [[1, 2], [4]]
    assert callers.told == {2: "answer to 2", 4: "answer to 4"}


async def test_who_leaves_while_waiting_takes_along_what_he_brought() -> None:
    class Body:
        """Something large."""

    let = asyncio.Event()

    async def work(items: Sequence[Body], _lock_wait_ms: int | None) -> list[None]:
        await let.wait()
        return [None for _ in items]

    brought: weakref.WeakSet[Body] = weakref.WeakSet()
    async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as tasks:
        calls = Gatherer(work, size=lambda _: 30, tasks=tasks, bounds=SMALL)
        tasks.create_task(calls.call(Body()))
        await settled()
        for _ in range(2 * SMALL.waiting_max):
            body = Body()
            brought.add(body)
            caller = tasks.create_task(calls.call(body))
            await settled()
            caller.cancel()
            del body, caller
            await settled()
        gc.collect()
        assert len(brought) == 0
        let.set()


async def test_a_batch_that_is_slow_holds_up_the_next_one_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gather, "SLOW_SECONDS", 0.01)
    database = Database()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        for number in (1, 2, 3):
            callers.start(group, number)
            await settled(0.02)
        # Two are on their way, one of them slow; the third waits.
        assert database.batches == [[1], [2]]
        database.let.set()
    assert database.batches == [[1], [2], [3]]
    assert database.running_most == SMALL.batches_max + SMALL.slow_max


async def test_more_than_may_wait_are_refused_and_nothing_of_them_is_done() -> None:
    database = Database()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, *range(SMALL.waiting_max + 2))
        await settled()
        refused = {n for n, told in callers.told.items() if isinstance(told, Overloaded)}
        assert refused == {SMALL.waiting_max, SMALL.waiting_max + 1}
        database.let.set()
    assert sorted(database.done) == list(range(SMALL.waiting_max))
    assert [refusal.code for refusal in callers.told.values() if isinstance(refusal, Overloaded)]


async def test_more_bytes_than_may_wait_are_refused() -> None:
    database = Database()
    bounds = Bounds(batches_max=1, waiting_bytes_max=50)
    async with gathering(database, bounds) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, 1, 2)
        await settled()
        assert isinstance(callers.told[2], Overloaded)
        database.let.set()


async def test_who_has_waited_too_long_is_refused_instead_of_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gather, "ACQUIRE_SECONDS_MAX", 0.01)
    monkeypatch.setattr(gather, "SLOW_SECONDS", 60.0)
    database = Database()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, 1)
        await settled()
        callers.start(group, 2)
        await settled(0.05)
        database.let.set()
    assert isinstance(callers.told[2], Overloaded)
    assert database.done == [1]


async def test_room_that_is_free_again_is_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "SLOW_SECONDS", 0.01)
    database = Database()
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        for round_ in range(3):
            database.let.clear()
            first = 100 * round_
            callers.start(group, *range(first, first + SMALL.waiting_max))
            # Slow enough to be passed by, and as many at once each time.
            await settled(0.03)
            assert database.running == SMALL.batches_max + SMALL.slow_max
            database.let.set()
            await settled(0.03)
        monkeypatch.setattr(gather, "SLOW_SECONDS", 60.0)
        database.let.clear()
        callers.start(group, *range(1000, 1010))
        await settled()
        assert database.running == SMALL.batches_max
        database.let.set()
    assert not [told for told in callers.told.values() if isinstance(told, Exception)]
    assert database.running_most == SMALL.batches_max + SMALL.slow_max


async def test_bytes_that_are_free_again_are_given_again() -> None:
    database = Database()
    database.let.set()
    async with gathering(database, Bounds(waiting_bytes_max=70)) as calls:
        for first in (10, 20, 30):
            async with asyncio.TaskGroup() as group:
                callers = Callers(calls)
                callers.start(group, first, first + 1)
            assert callers.told == {n: f"answer to {n}" for n in (first, first + 1)}


async def test_who_goes_alone_because_of_another_has_its_time_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gather, "ACQUIRE_SECONDS_MAX", 0.01)
    database = Database(poisoned=frozenset({1}))
    async with gathering(database) as calls, asyncio.TaskGroup() as group:
        callers = Callers(calls)
        callers.start(group, 1, 2)
        await settled(0.05)
        database.let.set()
    assert callers.told[2] == "answer to 2"


async def test_what_is_on_its_way_when_everything_ends_is_told_that_nobody_knows() -> None:
    database = Database()
    told: list[object] = []

    async def caller(calls: "Calls") -> None:
        try:
            await calls.call(1)
        except DatabaseUnavailable as error:
            told.append(error)

    async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as callers:
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as tasks:
                calls = Gatherer(database.work, size=lambda _: 1, tasks=tasks, bounds=SMALL)
                callers.create_task(caller(calls))
                await settled()
                raise asyncio.CancelledError
    assert len(told) == 1


@given(
    arrivals=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    poisoned=st.frozensets(st.integers(0, 19), max_size=4),
    items_max=st.integers(1, 5),
    batches_max=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_whatever_meets_everybody_gets_exactly_his_own_answer(
    arrivals: list[int], poisoned: frozenset[int], items_max: int, batches_max: int
) -> None:
    async def story() -> None:
        database = Database(poisoned=poisoned)
        bounds = Bounds(batches_max=batches_max, slow_max=1, items_max=items_max)
        async with gathering(database, bounds) as calls, asyncio.TaskGroup() as group:
            callers = Callers(calls)
            for number, pauses in enumerate(arrivals):
                callers.start(group, number)
                for _ in range(pauses):
                    await asyncio.sleep(0)
                if pauses == 3:
                    database.let.set()
            database.let.set()
        for number in range(len(arrivals)):
            told = callers.told[number]
            wrong = number in poisoned
            assert isinstance(told, InvalidContent) if wrong else told == f"answer to {number}"
        assert sorted(database.done) == sorted(set(range(len(arrivals))) - poisoned)
        first = [batch for batch in database.batches if len(batch) > 1 or batch[0] not in poisoned]
        assert all(len(batch) <= items_max and batch == sorted(batch) for batch in first)

    asyncio.run(story())
