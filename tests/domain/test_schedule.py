"""Scheduled times: what the wall shows once, twice or never, in every zone, looked at from anywhere."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.schedule import is_expression, steps, times

PARIS = ZoneInfo("Europe/Paris")
SPRING, AUTUMN = "2026-03-29", "2026-10-25"


def _day(day: str, expression: str, zone: ZoneInfo = PARIS) -> list[str]:
    """What fires on one day, as UTC hours and minutes."""
    midnight = datetime.fromisoformat(day).replace(tzinfo=zone)
    next_one = (midnight + timedelta(days=1)).replace(tzinfo=zone)
    second = timedelta(seconds=1)
    found = times(expression, zone=zone, after=midnight - second, now=next_one - second, most=5000)
    return [f"{one:%H:%M}" for one in found]


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("30 2 * * *", ["01:00"]),
        ("0 2 * * *", ["01:00"]),
        ("59 1 * * *", ["00:59"]),
        ("0 3 * * *", ["01:00"]),
        ("30 3 * * *", ["01:30"]),
        ("*/30 2 * * *", ["01:00"]),
        ("30 2,3 * * *", ["01:00", "01:30"]),
        ("* 2 * * *", ["01:00"]),
        ("30 2 29 3 *", ["01:00"]),
        ("30 2 * * SUN", ["01:00"]),
    ],
)
def test_a_time_that_does_not_exist_fires_once_when_the_gap_ends(
    expression: str, fires: list[str]
) -> None:
    assert _day(SPRING, expression) == fires


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("30 2 * * *", ["00:30"]),
        ("0 2 * * *", ["00:00"]),
        ("0 3 * * *", ["02:00"]),
        ("*/30 2 * * *", ["00:00", "00:30"]),
        ("30 */2 * * 0", ["22:30", "00:30", *[f"{hour:02}:30" for hour in range(3, 22, 2)]]),
    ],
)
def test_a_time_that_comes_twice_fires_the_first_time(expression: str, fires: list[str]) -> None:
    assert _day(AUTUMN, expression) == fires


def test_what_fires_every_hour_fires_in_each_hour_that_passes() -> None:
    assert len(_day(SPRING, "30 * * * *")) == 23
    assert len(_day(AUTUMN, "30 * * * *")) == 25
    assert len(_day(SPRING, "*/15 * * * *")) == 23 * 4
    assert len(_day(AUTUMN, "* * * * *")) == 25 * 60
    assert _day(AUTUMN, "30 * * * *")[:4] == ["22:30", "23:30", "00:30", "01:30"]


def test_on_all_other_days_the_wall_is_followed() -> None:
    assert _day("2026-07-01", "30 2 * * *") == ["00:30"]
    assert _day("2026-12-01", "30 2 * * *") == ["01:30"]
    assert _day("2026-12-01", "30 2 * * 0") == []


def test_half_an_hour_put_back_and_a_day_that_was_left_out() -> None:
    lord_howe, apia = ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Pacific/Apia")
    assert len(_day("2026-04-05", "45 1 * * *", lord_howe)) == 1
    assert len(_day("2026-10-04", "15 2 * * *", lord_howe)) == 1
    found = times(
        "0 9 * * *",
        zone=apia,
        after=datetime(2011, 12, 29, 0, tzinfo=UTC),
        now=datetime(2012, 1, 1, 0, tzinfo=UTC),
        most=10,
    )
    # The 30th was never there: it fires when the 31st begins.
    assert [f"{one:%d %H}" for one in found] == ["29 19", "30 10", "30 19", "31 19"]


@given(
    expression=st.sampled_from(
        ["30 2 * * *", "*/30 2 * * *", "30 * * * *", "*/7 * * * *", "0 */2 * * *", "15 1,2,3 * * 0"]
    ),
    start=st.sampled_from(["2026-03-28", "2026-10-24", "2026-06-01"]),
    cuts=st.lists(st.integers(0, 3 * 86_400), max_size=40),
    zone=st.sampled_from(["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_however_often_it_is_looked_nothing_is_left_out_and_nothing_comes_twice(
    expression: str, start: str, cuts: list[int], zone: str
) -> None:
    began = datetime.fromisoformat(start).replace(tzinfo=UTC)
    moments = [began + timedelta(seconds=one) for one in sorted({0, *cuts, 3 * 86_400})]
    told = {"zone": ZoneInfo(zone), "most": 10_000}
    whole = times(expression, after=moments[0], now=moments[-1], **told)  # type: ignore[arg-type]
    parts = [
        time
        for after, now in pairwise(moments)
        for time in times(expression, after=after, now=now, **told)  # type: ignore[arg-type]
    ]
    assert parts == whole
    few = times(expression, zone=ZoneInfo(zone), after=moments[0], now=moments[-1], most=5)
    assert few == whole[-5:]


@pytest.mark.parametrize("most", [1, 20, 100])
def test_of_many_the_last_are_given_and_in_order(most: int) -> None:
    # In the middle of the hour that the wall shows for the second time.
    now = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    found = times("* * * * *", zone=PARIS, after=now - timedelta(days=300), now=now, most=most)
    assert found == [now - timedelta(minutes=n) for n in range(most - 1, -1, -1)]


def test_steps_are_the_same_for_everybody() -> None:
    now = datetime(2026, 1, 1, 0, 0, 45, tzinfo=UTC)
    found = steps(seconds=20, after=now - timedelta(seconds=60), now=now, most=10)
    assert [one.second for one in found] == [0, 20, 40]
    assert steps(seconds=20, after=now, now=now + timedelta(seconds=14), most=10) == []
    last = steps(seconds=20, after=now - timedelta(days=400), now=now, most=2)
    assert [one.second for one in last] == [20, 40]


@pytest.mark.parametrize(
    "text",
    ["* * * * *", "0 9 * * 1-5", "*/5 8-18 * * MON-FRI", "0 0 L * *", "0 0 29 2 *", "0 12 * * 1#2"],
)
def test_what_cron_takes_is_taken(text: str) -> None:
    assert is_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@daily",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "0 0 30 2 *",
        "a b c d e",
        "\u0663 * * * *",
        "0 0 * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "0," * 500 + "0 * * * *",
    ],
)
def test_what_no_cron_takes_or_never_fires_is_refused(text: str) -> None:
    assert not is_expression(text)


@given(st.text(alphabet="0123456789*/,-#LW ", max_size=30))
def test_no_text_breaks_the_reader(text: str) -> None:
    is_expression(text)
