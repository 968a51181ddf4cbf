"""Logs and rows come back as they were written, also after their writer was killed."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.held_stories import decide, deciding, later, seal_held
from tests.engine.stories import draft
from tests.engine.waiting_stories import telling
from tests.history.examples import Run, change, find, good_run
from tests.history.log import Log, Posted, encode, from_lines, read_folder, to_line
from tests.history.rows import FILE, Rows, read_database, read_rows, write_rows

if TYPE_CHECKING:
    from tests.engine.stories import Sink

ROOT = Path(__file__).resolve().parents[2]


def write(run: Run, folder: Path) -> None:
    """A run as a folder, with a file for each side of it."""
    for record in run.records:
        with Log(folder / f"{type(record).__name__}.jsonl") as log:
            log(record)
    write_rows(run.history().rows, folder)


def test_every_record_comes_back_as_it_was() -> None:
    records = good_run().records
    assert list(from_lines(map(to_line, records))) == records


def test_a_folder_comes_back_as_one_run(tmp_path: Path) -> None:
    run = good_run()
    write(run, tmp_path)
    assert sorted(read_folder(tmp_path), key=repr) == sorted(run.records, key=repr)
    assert read_rows(tmp_path) == run.history().rows


def test_only_the_last_line_may_be_unfinished() -> None:
    whole = to_line(good_run().records[1])
    assert len(list(from_lines([whole, whole[:20]]))) == 1
    with pytest.raises(ValueError, match=r"delimiter|Unterminated|Expecting"):
        list(from_lines([whole[:20], whole]))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(KeyError):
        list(from_lines(['{"kind": "rumour"}', ""]))


@pytest.mark.parametrize("spoilt", [False, True])
def test_the_command_ends_with_its_verdict(tmp_path: Path, spoilt: bool) -> None:
    run = good_run()
    if spoilt:
        change(run.records, find(run.records, Posted, 2), key="another")
    write(run, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.history", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == int(spoilt), done.stderr
    assert ("nothing_is_invented" in done.stdout) == spoilt
    assert ("all hold" in done.stdout) != spoilt


async def test_the_database_is_read_in_the_words_of_the_api(
    sink: "Sink", database_url: str, tmp_path: Path
) -> None:
    turn, _ = await sink.sealed("a", draft("1", "c"), draft("2", "c"), conversation="c")
    await sink.hold("b", "c")
    rows = await read_database(database_url)
    assert [one.key for one in rows.keys] == ["a", "b"]
    assert [one.state for one in rows.turns] == ["sealed", "processing"]
    assert [one.state for one in rows.messages] == ["pending", "pending"]
    (first, second) = rows.messages
    assert (first.id, first.key, second.blocked_by) == (first.key, first.id, first.id)
    assert {one.turn for one in rows.messages} == {rows.turns[0].id}
    assert await sink.state(turn) == "sealed"
    assert rows.inbound[0].turn == rows.turns[0].id
    assert [(e.verb, e.message) for e in rows.events[:3]] == [
        ("accept", None),
        ("claim", None),
        ("seal", None),
    ]
    assert abs(rows.events[0].at - rows.moment.database_at) < 60
    write_rows(rows, tmp_path)
    assert (tmp_path / FILE).exists()
    assert asdict(read_rows(tmp_path)) == asdict(rows)
    assert isinstance(read_rows(tmp_path), Rows)


async def test_what_waits_is_read_in_the_words_of_the_api(
    sink: "Sink", database_url: str, tmp_path: Path
) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=(later("soon"), later("own")))
    await sink.signal(telling((await sink.parked("b", name="paid")).turn, "paid"))
    await decide(sink, deciding(held.turn, sealed.payload_hash))
    rows = await read_database(database_url)
    turns = {turn.id: turn for turn in rows.turns}
    (hold,), (wait,), (signal,) = rows.holds, rows.waits, rows.signals
    assert (hold.payload_hash, hold.decision, hold.decided_by) == (
        sealed.payload_hash,
        "approve",
        "ada",
    )
    assert turns[hold.turn].payload_hash == hold.payload_hash
    assert (wait.name, wait.ended, wait.signal) == ("paid", "signal", signal.number)
    assert signal.body_base64 == encode(b'"yes"')
    assert [turns[one.child].depth for one in rows.follow_ups] == [1, 1]
    assert {one.inbound for one in rows.follow_ups} <= {one.id for one in rows.inbound}
    write_rows(rows, tmp_path)
    assert asdict(read_rows(tmp_path)) == asdict(rows)
