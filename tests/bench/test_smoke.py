"""The bench still works: each scenario runs for a fraction of a second. The figures mean nothing here."""

import time
from collections.abc import AsyncIterator

import pytest

from tests.bench.__main__ import BEGIN, END, MORE, PAGE, between
from tests.bench.alone import CALLS
from tests.bench.extent import SMOKE
from tests.bench.figures import Figures, percentile
from tests.bench.flames import Box, picture, sampled
from tests.bench.processor import ROOT, SEND, measure, told
from tests.bench.scenarios import SCENARIOS
from tests.bench.stage import Stage, open_stage


@pytest.fixture(scope="module")
async def stage() -> AsyncIterator[Stage]:
    """One stage for all of them."""
    async with open_stage() as opened:
        yield opened


@pytest.mark.parametrize("name", [*SCENARIOS, *MORE])
async def test_a_scenario_measures_what_it_says(name: str, stage: Stage) -> None:
    figures = Figures()
    await {**SCENARIOS, **MORE}[name](stage, SMOKE, figures)
    kept = list(figures)
    assert kept
    for figure in kept:
        # For so short a moment Postgres may have nothing to do.
        assert figure.median > 0 or figure.name.endswith("of an idle second"), figure
        assert figure.ratio is None or figure.ratio > 0, figure
    assert figures.table().count("\n") == len(kept) + 1


def test_processor_time_is_measured_for_every_call_of_two_trees_in_turn() -> None:
    calls = (*CALLS, SEND)
    took = measure([ROOT, ROOT], calls, windows=2, count=70)
    for call in calls:
        assert [len(own) for own in took[call]] == [2, 2]
        assert all(microseconds > 0 for own in took[call] for microseconds in own)
        assert told(call, took[call]).startswith(f"| {call} | ")


def test_a_flame_is_as_wide_as_its_share_and_stands_on_who_called_it() -> None:
    box = Box("call", samples=100)
    box.above = {"f": Box("f", "/x/app/api/f.py", 75), "g": Box("<g>", "/w/x/y.py", 25)}
    box.above["f"].above = {"rare": Box("rare", "/x/y.py", 0)}
    drawn = picture(box)
    assert drawn.count("<rect") == 3
    assert 'f, app/api/f.py: 75.0 %</title>\n<rect x="0.0" y="0" width="900.0"' in drawn
    assert '&lt;g&gt;, w/x/y.py: 25.0 %</title>\n<rect x="900.0" y="0" width="300.0"' in drawn


async def test_samples_are_of_the_process_itself() -> None:
    box = Box("all")
    with sampled(box):
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
    assert box.samples > 10


def test_a_ratio_is_of_one_repeat_and_a_median_of_all() -> None:
    figures = Figures()
    for ours, limit in ((10.0, 20.0), (30.0, 30.0), (8.0, 10.0)):
        figures.add("accepts", "/s", ours, limit=limit, limit_name="pgbench")
    (figure,) = figures
    assert (figure.median, figure.limit, figure.ratio) == (10.0, 20.0, 0.8)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert percentile([7.0], 0.5) == 7.0


def test_the_table_takes_the_place_of_the_one_before_and_of_nothing_else() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    once = between(page, "| a | table |")
    assert once == f"{before}{BEGIN}\n| a | table |\n\n{END}{after}"
    assert between(once, "| a | table |") == once
