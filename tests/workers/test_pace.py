"""Few passes go at once; many are spaced, and none waits longer than the space between two."""

import asyncio
import time

from app.workers.pace import BURST, Pace

SECONDS = 0.05


async def test_a_few_passes_go_at_once() -> None:
    pace = Pace()
    began = time.monotonic()
    for _ in range(BURST):
        await pace.gather(60.0, more=False)
    assert time.monotonic() - began < 1.0


async def test_many_passes_are_spaced() -> None:
    pace = Pace()
    began = time.monotonic()
    for _ in range(BURST + 1 + 6):
        await pace.gather(SECONDS, more=False)
    assert time.monotonic() - began >= 5.9 * SECONDS


async def test_those_that_were_spaced_go_at_once_again_after_a_rest() -> None:
    pace = Pace()
    for _ in range(2 * BURST):
        await pace.gather(SECONDS, more=False)
    await asyncio.sleep((BURST + 1) * SECONDS)
    began = time.monotonic()
    for _ in range(BURST):
        await pace.gather(SECONDS, more=False)
    assert time.monotonic() - began < 2 * SECONDS


async def test_where_more_is_on_its_way_the_second_pass_waits_already() -> None:
    pace = Pace()
    await pace.gather(SECONDS, more=True)
    began = time.monotonic()
    await pace.gather(SECONDS, more=True)
    assert time.monotonic() - began >= 0.9 * SECONDS
