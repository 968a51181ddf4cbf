"""The power of the checker: it finds every planted bug, and nothing where there is none."""

from pathlib import Path

import pytest

from app.engine import take
from tests.history.check import check
from tests.plants.__main__ import run
from tests.plants.cases import CASES, PLANTS
from tests.plants.planting import Edit
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


def test_a_plant_leaves_nothing_behind() -> None:
    statement = take.SQL["take_messages"]
    with PLANTS["blind-take"].planted():
        assert take.SQL["take_messages"].text != statement.text
    assert take.SQL["take_messages"] is statement


def test_a_plant_whose_words_are_gone_is_an_error() -> None:
    stale = Edit(take, "take_messages", {"words that are not there": ""})
    with pytest.raises(AssertionError, match="does not say"), stale.planted():
        pass


def test_the_command_lists_the_bugs_and_runs_the_service_with_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run([]) == 2
    listed = capsys.readouterr().out
    assert all(name in listed for name in PLANTS)
    missing = str(tmp_path / "missing.toml")
    assert run(["no-polling", "serve", "--config", missing]) != 0


def test_every_plant_has_its_scenario() -> None:
    assert PLANTS.keys() == CASES.keys()
    assert len(PLANTS) >= 20
