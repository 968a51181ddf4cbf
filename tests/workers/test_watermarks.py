"""A take begins behind what it has taken before, and goes back to the beginning often enough."""

from datetime import UTC, datetime, timedelta

from app.workers.watermarks import FULL_SECONDS, FULL_SECONDS_MAX, SLACK, Watermarks

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Seconds:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_look_is_full_and_the_next_begin_behind_it() -> None:
    marks = Watermarks(Seconds())
    assert marks.begin() == {}
    marks.end({"crm": NOON})
    assert marks.begin() == {"crm": NOON - SLACK}
    marks.end({"crm": NOON + timedelta(seconds=5), "desk": NOON})
    assert marks.begin() == {"crm": NOON + timedelta(seconds=5) - SLACK, "desk": NOON - SLACK}


def test_what_is_older_takes_the_mark_back() -> None:
    """There may be more of it."""
    seconds = Seconds()
    marks = Watermarks(seconds)
    marks.begin()
    marks.end({"crm": NOON})
    seconds.now = FULL_SECONDS
    assert marks.begin() == {}
    marks.end({"crm": NOON - timedelta(hours=1)})
    assert marks.begin() == {"crm": NOON - timedelta(hours=1) - SLACK}


def test_a_look_is_full_again_after_a_second() -> None:
    seconds = Seconds()
    marks = Watermarks(seconds)
    marks.begin()
    marks.end({"crm": NOON})
    seconds.now = FULL_SECONDS - 0.01
    assert marks.begin()
    marks.end({})
    seconds.now = FULL_SECONDS
    assert not marks.begin()


def test_a_full_look_that_failed_keeps_nobody_from_the_marks() -> None:
    """It may have taken longer than a statement may, and would the next time."""
    seconds = Seconds()
    marks = Watermarks(seconds)
    marks.begin()
    marks.end({"crm": NOON})
    seconds.now = FULL_SECONDS
    assert not marks.begin()
    assert marks.begin() == {"crm": NOON - SLACK}
    seconds.now = FULL_SECONDS + 1
    marks.end({})
    seconds.now = FULL_SECONDS + FULL_SECONDS_MAX
    assert not marks.begin()


def test_full_looks_that_take_long_are_rarer_up_to_a_bound() -> None:
    for took, rest in ((0.2, 4.0), (60.0, FULL_SECONDS_MAX)):
        seconds = Seconds()
        marks = Watermarks(seconds)
        marks.begin()
        seconds.now = took
        marks.end({"crm": NOON})
        seconds.now = took + rest - 0.01
        assert marks.begin()
        seconds.now = took + rest + 0.01
        assert not marks.begin()
