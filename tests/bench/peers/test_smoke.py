"""The comparison still works: ours and the peer that needs no library run for a fraction of a second."""

import os
import tomllib
from pathlib import Path

import pytest

from tests.bench.peers.__main__ import Bench, sides
from tests.bench.peers.catalog import BY_NAME, ENTRIES
from tests.bench.peers.contenders import explained_by
from tests.bench.peers.environments import VERSIONS, versions
from tests.bench.peers.measures import SMOKE, Values, told
from tests.bench.peers.results import COLUMNS, COSTS, Results, Round
from tests.bench.peers.usage import cpu_seconds, resident_mb
from tests.bench.stage import open_stage
from tests.system.processes import Program


async def test_ours_and_the_bare_peer_are_measured_in_all_and_kept(tmp_path: Path) -> None:
    kept = tmp_path / "peers.json"
    async with open_stage() as stage, stage.database() as url:
        results = Results()
        peers = sides(["bare"], stage, tmp_path, results)
        bench = Bench(stage, SMOKE, url, results, kept)
        await bench.prepare()
        await bench.round(peers)
    (one,) = Results.read(kept).rounds["bare"]
    assert not one.failed
    assert one.calibration > 0
    for name in COLUMNS:
        assert one.values[name] > 0, name
        assert one.ours[name] > 0, name
    # Too little is done here for more of the costs than that they are there, and a drain is over at one look.
    costs = {name for name in COSTS if not name.startswith("drain")}
    assert costs <= {*one.values} & {*one.ours}


def _results(*rounds: tuple[Values, Values]) -> Results:
    return Results({"bare": [Round(values, ours, 100.0) for values, ours in rounds]})


def test_a_ratio_says_how_much_better_ours_is_whichever_way_is_better() -> None:
    text = _results(({"life": 100.0, "memory": 50.0}, {"life": 300.0, "memory": 100.0})).tables()
    assert "100 (3.00x)" in text
    assert "50.0 (0.50x)" in text


def test_a_ratio_is_of_one_round_and_a_median_of_all() -> None:
    rounds = [({"life": 10.0}, {"life": 20.0}), ({"life": 40.0}, {"life": 40.0})]
    text = _results(*rounds, ({"life": 10.0}, {"life": 90.0})).tables()
    assert "10.0 (2.00x)" in text


def test_what_is_missing_and_what_has_failed_is_told() -> None:
    results = _results(({}, {}))
    results.missing["Oban for Python"] = "it needs Python 3.12"
    results.rounds["bare"][0].failed = {"drains": "nothing came"}
    text = results.tables()
    assert "Oban for Python is not here: it needs Python 3.12" in text
    assert "bare, round 1, drains failed: nothing came" in text


def test_what_a_program_said_is_told_with_its_failure(tmp_path: Path) -> None:
    program = Program("worker", [], {}, tmp_path)
    program.log.write_text("its words\n", encoding="utf-8")
    with pytest.raises(AssertionError) as raised, explained_by([program]):
        raise AssertionError
    assert told(raised.value) == "AssertionError: worker: its words"


def test_a_run_that_is_taken_up_again_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "peers.json"
    results = _results(({"life": 1.0}, {"life": 2.0}))
    results.add("pg-boss", Round({"life": 3.0}, {"life": 4.0}, 5.0))
    results.write(path)
    again = Results.read(path)
    again.forget(["bare"])
    assert again.rounds == {"pg-boss": results.rounds["pg-boss"]}


def test_every_peer_has_its_program_and_its_pinned_versions() -> None:
    pinned = versions()
    assert len(BY_NAME) == len(ENTRIES)
    for entry in ENTRIES:
        assert entry.path.is_file(), entry.name
        assert entry.environment in pinned or entry.runs_in == "ours", entry.name
    for name, wish in tomllib.loads(VERSIONS.read_text(encoding="utf-8")).items():
        for package in wish.get("packages", ()):
            assert "==" in package, (name, package)


def test_processor_time_grows_with_work_and_memory_is_there() -> None:
    before = cpu_seconds(os.getpid())
    while cpu_seconds(os.getpid()) < before + 0.02:
        sum(range(10_000))
    assert resident_mb(os.getpid()) > 5


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_on_the_command_line_is_one_word(name: str) -> None:
    assert name == name.lower()
    assert " " not in name
