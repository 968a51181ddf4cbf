"""The power of the checker: it finds every planted bug, and nothing where there is none."""

import pytest

from tests.history.check import check
from tests.plants.cases import CASES, PLANTS
from tests.plants.scenarios import Scenario
from tests.plants.stage import Stage

SCENARIOS = sorted({scenario for scenario, _ in CASES.values()}, key=lambda one: one.__name__)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_without_a_bug_every_promise_is_kept(stage: Stage, scenario: Scenario) -> None:
    await scenario(stage)
    history = await stage.history()
    assert history.rows.turns
    assert list(map(str, check(history))) == []


@pytest.mark.parametrize("name", CASES)
async def test_a_planted_bug_is_found(stage: Stage, name: str) -> None:
    scenario, rule = CASES[name]
    with PLANTS[name].planted():
        await scenario(stage)
    assert rule in {violation.rule for violation in check(await stage.history())}


def test_every_plant_has_its_scenario() -> None:
    assert PLANTS.keys() == CASES.keys()
    assert len(PLANTS) >= 20
