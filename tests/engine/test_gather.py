"""Calls that meet share a transaction, and nobody notices anything of the others but the time that it saved."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import InvalidContent
from app.engine.gather import LOCK_WAIT_MS, Bounds, Gatherer
from app.engine.transaction import Busy, DatabaseUnavailable
from tests.engine.gathering import SECONDS_MAX, SMALL, Callers, Database, gathering, settled

if TYPE_CHECKING:
    Calls = Gatherer[int, str]


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
