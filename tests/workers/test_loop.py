"""The one loop: it survives its passes, rests as told, and stops at once."""

import asyncio
import time

import pytest

from app.engine.transaction import DatabaseUnavailable
from app.workers.loop import Loop, run_loop
from tests.workers.conftest import OpenCore


async def test_a_pass_that_fails_is_tried_again_and_readiness_hears_of_the_next_success(
    opening: OpenCore, caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()
    passes = 0

    async def tick() -> float:
        nonlocal passes
        passes += 1
        if passes == 1:
            raise RuntimeError("broken")
        stop.set()
        return 1.0

    async with opening({}) as core:
        began = time.monotonic()
        await run_loop(Loop("test", tick, 1.0), core=core, stop=stop)
        finished_at, stale_seconds = core.passes["test"]
    assert passes == 2
    assert finished_at > began
    assert stale_seconds == 10.0
    assert "a pass failed" in caplog.text


async def test_a_database_that_is_away_is_one_line_and_not_one_for_each_pass(
    opening: OpenCore, caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()
    passes = 0

    async def tick() -> float:
        nonlocal passes
        passes += 1
        if passes == 4:
            stop.set()
        raise DatabaseUnavailable

    async with opening({}) as core:
        await run_loop(Loop("test", tick, 1.0), core=core, stop=stop)
    assert passes == 4
    assert caplog.text.count("a pass found the database away") == 1


async def test_a_rest_is_cut_short_by_a_wake_up_and_by_a_stop(opening: OpenCore) -> None:
    stop, woken = asyncio.Event(), asyncio.Event()
    passed = asyncio.Event()
    passes = 0

    async def tick() -> float:
        nonlocal passes
        passes += 1
        passed.set()
        return 3600.0

    async with opening({}) as core, asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(run_loop(Loop("test", tick, 1.0, woken), core=core, stop=stop))
        for expected in (1, 2):
            await passed.wait()
            passed.clear()
            assert passes == expected
            woken.set()
        await passed.wait()
        stop.set()
    assert passes == 3


async def test_a_wake_up_during_a_pass_is_not_lost(opening: OpenCore) -> None:
    stop, woken = asyncio.Event(), asyncio.Event()
    passes = 0

    async def tick() -> float:
        nonlocal passes
        passes += 1
        if passes == 1:
            woken.set()
        else:
            stop.set()
        return 3600.0

    async with opening({}) as core, asyncio.timeout(5):
        await run_loop(Loop("test", tick, 1.0, woken), core=core, stop=stop)
    assert passes == 2
