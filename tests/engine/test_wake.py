"""Who is woken: those who wait for just this, here at once and in the other processes soon."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from app.engine import wake as module
from app.engine.wake import CHANNEL, EVERYBODY, OUTBOX, Wakes, queue_topic, turn_topic
from tests.database import options_for

MANY = 400
ECHO_SECONDS = 0.1


@pytest.fixture
async def two(database_url: str) -> AsyncIterator[tuple[Wakes, Wakes]]:
    """The wake-ups of two processes that hear one another."""
    here, there = Wakes(options_for(database_url)), Wakes(options_for(database_url))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one.run()) for one in (here, there)]
        async with asyncio.timeout(10):
            while not (here.listening and there.listening):
                await asyncio.sleep(0.005)
        yield here, there
        for one in running:
            one.cancel()


async def heard(event: asyncio.Event) -> None:
    async with asyncio.timeout(5):
        await event.wait()


async def test_another_process_hears_of_a_turn_and_of_no_other(two: tuple[Wakes, Wakes]) -> None:
    here, there = two
    turn, other = uuid4(), uuid4()
    with there.waiting(turn_topic(turn)) as told, there.waiting(turn_topic(other)) as untold:
        here.tell(turn_topic(turn))
        await heard(told)
        assert not untold.is_set()


async def test_what_is_for_this_process_alone_is_not_told_to_others(
    two: tuple[Wakes, Wakes],
) -> None:
    here, there = two
    with (
        here.waiting(OUTBOX) as mine,
        there.waiting(OUTBOX) as theirs,
        there.waiting(queue_topic("q")) as later,
    ):
        here.wake_here(OUTBOX)
        here.wake_here(EVERYBODY)
        assert mine.is_set()
        here.tell(queue_topic("q"))
        await heard(later)
        assert not theirs.is_set()


async def test_who_waits_for_one_of_very_many_turns_is_woken_all_the_same(
    two: tuple[Wakes, Wakes],
) -> None:
    here, there = two
    turns = [uuid4() for _ in range(MANY)]
    with there.waiting(turn_topic(turns[-1])) as told:
        here.tell(*map(turn_topic, turns))
        await heard(told)


async def test_while_nobody_can_be_told_what_is_untold_stays_small(database_url: str) -> None:
    alone = Wakes(options_for(database_url))
    for _ in range(5000):
        alone.tell(turn_topic(uuid4()))
    kept = alone._untold  # noqa: SLF001 - what it keeps
    assert len(kept) <= 1000
    other = Wakes(options_for(database_url))
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        told = stack.enter_context(other.waiting(turn_topic(uuid4())))
        running = [group.create_task(other.run())]
        async with asyncio.timeout(10):
            while not other.listening:
                await asyncio.sleep(0.005)
        told.clear()
        running.append(group.create_task(alone.run()))
        await heard(told)
        for one in running:
            one.cancel()


@contextlib.asynccontextmanager
async def overheard(database_url: str) -> AsyncIterator[list[str]]:
    """The topics that leave any process, heard by somebody who tells nobody that he listens."""
    topics: list[str] = []
    connection = await asyncpg.connect(database_url)
    try:
        await connection.add_listener(CHANNEL, lambda *told: topics.extend(json.loads(told[3])[1:]))
        yield topics
    finally:
        await connection.close()


async def until_alone(one: Wakes) -> None:
    async with asyncio.timeout(10):
        while not one.alone:
            await asyncio.sleep(0.005)


async def test_who_is_alone_tells_nobody_and_whoever_comes_is_heard_of_and_told(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ECHO_SECONDS", ECHO_SECONDS)
    monkeypatch.setattr(module, "_ANSWER_SECONDS", ECHO_SECONDS)
    here, there = Wakes(options_for(database_url)), Wakes(options_for(database_url))
    async with overheard(database_url) as topics, asyncio.TaskGroup() as group:
        running = [group.create_task(here.run())]
        await until_alone(here)
        with here.waiting("a") as mine:
            here.tell("a")
            assert mine.is_set()
        await asyncio.sleep(3 * ECHO_SECONDS)
        assert topics == []
        running.append(group.create_task(there.run()))
        async with asyncio.timeout(10):
            while here.alone:
                await asyncio.sleep(0.005)
            while EVERYBODY not in topics:
                await asyncio.sleep(0.005)
        with there.waiting("b") as theirs:
            here.tell("b")
            await heard(theirs)
            # Perhaps by the first of them, which not all hear at once.
            async with asyncio.timeout(5):
                while "b" not in topics:
                    await asyncio.sleep(0.005)
        assert topics == [EVERYBODY, "b"]
        running.pop().cancel()
        await until_alone(here)
        running.pop().cancel()


async def test_those_who_are_there_answer_somebody_new(database_url: str) -> None:
    here, there = Wakes(options_for(database_url)), Wakes(options_for(database_url))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(here.run())]
        await until_alone(here)
        running.append(group.create_task(there.run()))
        async with asyncio.timeout(5):
            while here.alone or not there.listening:
                await asyncio.sleep(0.005)
        await asyncio.sleep(2 * module._ANSWER_SECONDS)  # noqa: SLF001 - by then they have answered
        assert not here.alone
        assert not there.alone
        for one in running:
            one.cancel()


async def cut(database_url: str) -> None:
    """End the connections of all who listen."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'sinksweep wake' and datname = current_database()"
        )
    finally:
        await connection.close()


async def test_what_was_kept_back_while_the_connection_was_dead_is_made_up_for(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", ECHO_SECONDS)
    monkeypatch.setattr(module, "_ECHO_SECONDS", 20 * ECHO_SECONDS)
    here, there = Wakes(options_for(database_url)), Wakes(options_for(database_url))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(here.run())]
        await until_alone(here)
        # Until its next echo it does not know that nobody hears it. Then the other is heard before it is alone again.
        await cut(database_url)
        monkeypatch.setattr(module, "_ANSWER_SECONDS", 5.0)
        running.append(group.create_task(there.run()))
        async with asyncio.timeout(5):
            while not there.listening:
                await asyncio.sleep(0.005)
        with there.waiting("a") as theirs:
            here.tell("a")
            await heard(theirs)
        for one in running:
            one.cancel()
