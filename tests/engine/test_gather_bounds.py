"""Calls that meet have bounds: so many are on their way and so many wait, so many bytes and so long."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.engine import gather
from app.engine.gather import Bounds, Gatherer
from app.engine.transaction import Overloaded
from tests.engine.gathering import SMALL, Callers, Database, gathering, settled

if TYPE_CHECKING:
    Calls = Gatherer[int, str]


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
