"""`Retry-After` in every form that was seen in the wild."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.retry_after import RETRY_AFTER_SECONDS_MAX, parse_http_date, parse_retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DAY = 86_400.0
IMF = "Sun, 01 Mar 2026 12:02:00 GMT"
RFC850 = "Sunday, 01-Mar-26 12:02:00 GMT"
ASCTIME = "Sun Mar  1 12:02:00 2026"


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (["120"], 120.0),
        ([" 120 "], 120.0),
        (["1.5"], 1.5),
        (["0"], 0.0),
        (["-5"], 0.0),
        (["99999999999999999999"], DAY),
        (["9" * 300], DAY),
        (["86401"], DAY),
        ([IMF], 120.0),
        ([RFC850], 120.0),
        ([ASCTIME], 120.0),
        ([IMF.lower()], 120.0),
        (["Sun, 01 Mar 2026 11:00:00 GMT"], 0.0),
        (["Fri, 31 Dec 9999 23:59:59 GMT"], DAY),
        (["Sun, 01 Mar 2026 12:00:60 GMT"], 60.0),
        (["120", "60"], 120.0),
        (["60", IMF], 120.0),
        (["120, 60"], 120.0),
        (["60, 120"], 120.0),
        ([f"60, {IMF}"], 120.0),
        ([f"{IMF}, {RFC850}, 30"], 120.0),
        (["120, soon"], 120.0),
        (["-5", "7"], 7.0),
        ([], None),
        ([""], None),
        ([","], None),
        (["soon"], None),
        (["1e9"], None),
        (["0x10"], None),
        (["inf"], None),
        (["nan"], None),
        (["١٢"], None),
        (["9" * 5000], None),
        (["Tue, 31 Feb 2026 12:00:00 GMT"], None),
        (["Sun, 01 Mar 2026 25:00:00 GMT"], None),
        (["Sun, 01 Mar 2026 12:00:61 GMT"], None),
        (["Fri, 31 Dec 9999 23:59:60 GMT"], None),
        (["Sun, 01 Xxx 2026 12:00:00 GMT"], None),
        (["Sun, 00 Mar 2026 12:00:00 GMT"], None),
        (["Sun, 01 Mar 0000 12:00:00 GMT"], None),
        (["Sun, 01 Mar 2026 12:02:00 +0200"], None),
        (["2026-03-01T12:02:00Z"], None),
    ],
)
def test_every_form_has_its_safe_reading(values: list[str], seconds: float | None) -> None:
    assert parse_retry_after(values, now=NOW) == seconds


@given(
    st.lists(
        st.one_of(
            st.text(),
            st.integers().map(str),
            st.floats().map(str),
            st.from_regex(
                r"[A-Z][a-z]{2}, [0-9]{2} (Jan|Feb|Dec) [0-9]{4} [0-9:]{8} GMT", fullmatch=True
            ),
            st.from_regex(r"[A-Z][a-z]{5,8}, [0-9]{2}-Feb-[0-9]{2} [0-9:]{8} GMT", fullmatch=True),
        ),
        max_size=4,
    ),
    st.datetimes(timezones=st.just(UTC)),
)
def test_whatever_is_said_the_wait_is_within_a_day(values: list[str], now: datetime) -> None:
    seconds = parse_retry_after(values, now=now)
    assert seconds is None or 0.0 <= seconds <= RETRY_AFTER_SECONDS_MAX


@given(st.integers(0, 86_400), st.integers(0, 86_400))
def test_the_wait_is_never_shorter_than_any_that_was_asked_for(first: int, second: int) -> None:
    date = (NOW + timedelta(seconds=second)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert parse_retry_after([f"{first}, {date}"], now=NOW) == max(first, second)


@pytest.mark.parametrize(
    ("year", "full"), [("26", 2026), ("75", 2075), ("76", 2076), ("77", 1977), ("99", 1999)]
)
def test_a_year_of_two_digits_lies_at_most_fifty_years_ahead(year: str, full: int) -> None:
    date = parse_http_date(f"Sunday, 01-Mar-{year} 12:02:00 GMT", now=NOW)
    assert date == datetime(full, 3, 1, 12, 2, tzinfo=UTC)


def test_what_is_no_date_is_none() -> None:
    assert parse_http_date("yesterday", now=NOW) is None
    assert parse_http_date(f"{IMF} and more", now=NOW) is None
    assert parse_http_date(f" {IMF} ", now=NOW) == NOW + timedelta(seconds=120)
