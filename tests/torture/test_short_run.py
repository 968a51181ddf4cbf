"""A short run of the torture, with faults of every kind: nothing is lost, doubled, reordered or left behind."""

from pathlib import Path

import pytest

from tests.torture.course import torture
from tests.torture.schedule import Kind

SEED = 20
SECONDS = 18.0
# Close together, so that every kind comes.
PAUSE_SECONDS = (0.2, 0.5)


@pytest.mark.timeout(180)
async def test_a_short_run_with_faults_of_every_kind_breaks_nothing(tmp_path: Path) -> None:
    report = await torture(
        tmp_path, seed=SEED, seconds=SECONDS, pause_seconds=PAUSE_SECONDS, say=print
    )
    # Shown when the test fails; the logs are in its temporary folder.
    print(*report.lines(), sep="\n")
    assert report.violations == []
    assert report.figures.faults.keys() == set(Kind)
    assert report.figures.turns["replied"] > 100
    assert report.figures.arrived_twice > 0
