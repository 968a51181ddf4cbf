"""The engine and the model of it never differ, whatever happens in whatever order, and everything comes to rest."""

import asyncio

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Machine
from tests.model.stage import Stage

EXAMPLES = 40
STEPS = 60


@pytest.mark.timeout(0)
def test_the_engine_does_what_the_model_says(
    database_url: str, pytestconfig: pytest.Config
) -> None:
    examples: int | None = pytestconfig.getoption("examples", None)
    profile = settings(
        max_examples=examples or EXAMPLES,
        stateful_step_count=STEPS,
        derandomize=examples is None,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    with asyncio.Runner() as runner:
        stage = Stage.open(runner, database_url)
        try:
            story = type("Story", (Machine,), {"stage": stage})
            run_state_machine_as_test(story, settings=profile)
        finally:
            stage.close()
