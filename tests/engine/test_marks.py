"""Where claims begin: at the front, or where earlier ones have been; and what came to lie before is found in time."""

from datetime import UTC, datetime, timedelta

import pytest

from app.engine.marks import (
    LOOK_SECONDS,
    LOOK_SECONDS_MAX,
    LOOK_SHARE,
    MEASURE_SECONDS,
    SLACK,
    STEPPED_MAX,
    Marks,
    Stepped,
)
from tests.engine.stories import QUEUE

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
DEAD = Stepped(STEPPED_MAX + 2, NOON)


def _at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def _marks(stepped: Stepped = DEAD, *, took: float = 0.01) -> Marks:
    """After a first claim of one turn, which began at zero and went over so much."""
    marks = Marks()
    look = marks.look([QUEUE], now=0.0)
    assert look.measured
    assert look.marks == ()
    marks.note(look, [QUEUE], [(QUEUE, 0, NOON)], stepped, is_empty=False, now=took)
    return marks


def test_a_front_over_which_little_is_dead_is_read_from_the_beginning() -> None:
    marks = _marks(Stepped(STEPPED_MAX + 1, NOON))
    look = marks.look([QUEUE], now=MEASURE_SECONDS - 0.1)
    assert list(look.marks) == []
    assert not look.measured
    assert marks.look([QUEUE], now=MEASURE_SECONDS + 0.1).measured


def test_behind_what_is_dead_claims_begin_shortly_before_the_last_of_each_priority() -> None:
    marks = _marks()
    look = marks.look([QUEUE], now=0.5)
    assert list(look.marks) == [(QUEUE, 0, NOON - SLACK)]
    marks.note(
        look, [QUEUE], [(QUEUE, 0, _at(2)), (QUEUE, 7, _at(1))], None, is_empty=False, now=0.6
    )
    # One that was put back long ago does not lower it.
    marks.note(look, [QUEUE], [(QUEUE, 0, _at(-90))], None, is_empty=False, now=0.6)
    look = marks.look([QUEUE], now=0.7)
    assert set(look.marks) == {(QUEUE, 0, _at(2) - SLACK), (QUEUE, 7, _at(1) - SLACK)}


@pytest.mark.parametrize(
    ("took", "rests"),
    [(0.001, LOOK_SECONDS), (0.2, 0.2 / LOOK_SHARE), (3.0, LOOK_SECONDS_MAX)],
)
def test_the_front_is_looked_at_again_in_time(took: float, rests: float) -> None:
    marks = _marks(took=took)
    assert not marks.look([QUEUE], now=took + rests - 0.01).measured
    look = marks.look([QUEUE], now=took + rests + 0.01)
    assert (look.marks, look.measured) == ((), True)
    # And once nothing is dead any more, from there on.
    marks.note(look, [QUEUE], [], Stepped(1, _at(2)), is_empty=False, now=20.0)
    assert list(marks.look([QUEUE], now=20.1).marks) == []


def test_a_look_that_fails_keeps_nobody_from_the_marks() -> None:
    """It may have taken longer than a statement may, and would the next time."""
    marks = _marks()
    assert marks.look([QUEUE], now=2.0).measured
    look = marks.look([QUEUE], now=6.0)
    assert (list(look.marks), look.measured) == ([(QUEUE, 0, NOON - SLACK)], False)
    assert marks.look([QUEUE], now=2.0 + LOOK_SECONDS_MAX).measured


def test_a_clock_that_goes_back_takes_the_marks_along() -> None:
    """What is due by it then is due before them, and would be given out one look at a time until it has caught up."""
    marks = _marks()
    look = marks.look([QUEUE], now=2.0)
    assert look.measured
    marks.note(
        look,
        [QUEUE],
        [(QUEUE, 7, _at(-3700))],
        Stepped(DEAD.entries, _at(-3600)),
        is_empty=False,
        now=2.1,
    )
    assert set(marks.look([QUEUE], now=2.2).marks) == {
        (QUEUE, 0, _at(-3600) - SLACK),
        (QUEUE, 7, _at(-3700) - SLACK),
    }


def test_what_nobody_has_left_is_behind_the_mark_though_others_have_claimed_it() -> None:
    marks = Marks()
    look = marks.look([QUEUE], now=0.0)
    marks.note(look, [QUEUE], [], DEAD, is_empty=False, now=0.1)
    assert list(marks.look([QUEUE], now=0.2).marks) == [(QUEUE, 0, NOON - SLACK)]


def test_a_queue_has_marks_of_its_own() -> None:
    marks = _marks()
    assert marks.look(["other"], now=0.5).measured
    assert marks.look([QUEUE, "another"], now=0.5).measured
    assert list(marks.look([QUEUE], now=0.5).marks) != []
