"""Few passes go at once; many are spaced by how long a pass takes, and none waits longer than that."""

import asyncio
import time

import pytest

from app.workers.pace import BURST, SPACE_SECONDS, SPACE_SECONDS_MAX, Pace


async def test_a_few_passes_go_at_once() -> None:
    pace = Pace()
    pace.space_seconds = 60.0
    began = time.monotonic()
    for _ in range(BURST):
        await pace.gather(more=False)
    assert time.monotonic() - began < 1.0


async def test_many_passes_are_spaced() -> None:
    pace = Pace()
    began = time.monotonic()
    for _ in range(BURST + 1 + 20):
        await pace.gather(more=False)
    assert time.monotonic() - began >= 19.9 * SPACE_SECONDS


async def test_those_that_were_spaced_go_at_once_again_after_a_rest() -> None:
    pace = Pace()
    pace.space_seconds = 0.05
    for _ in range(2 * BURST):
        await pace.gather(more=False)
    await asyncio.sleep((BURST + 1) * pace.space_seconds)
    began = time.monotonic()
    for _ in range(BURST):
        await pace.gather(more=False)
    assert time.monotonic() - began < 2 * pace.space_seconds


async def test_where_more_is_on_its_way_the_second_pass_waits_already() -> None:
    pace = Pace()
    pace.space_seconds = 0.05
    await pace.gather(more=True)
    began = time.monotonic()
    await pace.gather(more=True)
    assert time.monotonic() - began >= 0.9 * pace.space_seconds


@pytest.mark.parametrize(
    ("took", "space"),
    [
        (0.0, SPACE_SECONDS),
        (0.001, SPACE_SECONDS),
        (0.004, 0.008),
        (0.006, 0.012),
        (5.0, SPACE_SECONDS_MAX),
        # A clock that stood still or a pass that ended at once changes no bound.
        (-1.0, SPACE_SECONDS),
    ],
)
async def test_a_pass_takes_no_more_than_half_of_the_time_between_bounds(
    took: float, space: float
) -> None:
    now = [100.0]
    pace = Pace(lambda: now[0])
    await pace.gather(more=True)
    now[0] += took
    pace.passed()
    assert pace.space_seconds == pytest.approx(space)
