"""The bench still works: each scenario runs for a fraction of a second. The figures mean nothing here."""

from collections.abc import AsyncIterator

import pytest

from tests.bench.__main__ import BEGIN, END, MORE, PAGE, between
from tests.bench.extent import SMOKE
from tests.bench.figures import Figures, percentile
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
        assert figure.median > 0, figure
        assert figure.ratio is None or figure.ratio > 0, figure
    assert figures.table().count("\n") == len(kept) + 1


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
