"""`Retry-After` in all its forms, read so that the answer is never sooner than what was asked, and
never absurd.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

RETRY_AFTER_SECONDS_MAX = 86_400.0

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})"
_FORMS = (
    rf"[a-z]{{3}}, (?P<day>\d{{2}}) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} (?:gmt|utc)",
    rf"[a-z]{{6,9}}, (?P<day>\d{{2}})-(?P<month>[a-z]{{3}})-(?P<year>\d{{2}}) {_TIME} (?:gmt|utc)",
    rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[\d ]\d) {_TIME} (?P<year>\d{{4}})",
)
_DATES = tuple(re.compile(form, re.ASCII | re.IGNORECASE) for form in _FORMS)
_SECONDS = re.compile(r"-?\d{1,300}(?:\.\d{1,20})?", re.ASCII)
_CENTURY_YEARS = 100
_FUTURE_YEARS_MAX = 50
# Written so, though a datetime does not know it.
_LEAP_SECOND = 60


def parse_retry_after(values: Sequence[str], *, now: datetime) -> float | None:
    """Seconds to wait, from 0 to a day, or None when nothing readable was said. Never raises.

    `values` are all values of the header. Of several the longest counts. A date is measured from
    `now`, which has a zone.
    """
    waits: list[float] = []
    for value in values:
        rest = value
        for form in _DATES:
            for found in form.finditer(rest):
                date = _date(found, now=now)
                if date is not None:
                    waits.append((date - now).total_seconds())
            rest = form.sub("", rest)
        waits.extend(
            float(part) for part in map(str.strip, rest.split(",")) if _SECONDS.fullmatch(part)
        )
    return min(max(*waits, 0.0), RETRY_AFTER_SECONDS_MAX) if waits else None


def parse_http_date(value: str, *, now: datetime) -> datetime | None:
    """The instant that an HTTP date names, in any of its three forms, or None. `now` settles a
    two-digit year.
    """
    for form in _DATES:
        found = form.fullmatch(value.strip())
        if found is not None:
            return _date(found, now=now)
    return None


def _date(found: re.Match[str], *, now: datetime) -> datetime | None:
    month = found["month"].lower()
    if month not in _MONTHS:
        return None
    year = int(found["year"])
    if len(found["year"]) == len("94"):
        year += now.year - now.year % _CENTURY_YEARS
        if year > now.year + _FUTURE_YEARS_MAX:
            year -= _CENTURY_YEARS
    second = int(found["second"])
    if second > _LEAP_SECOND:
        return None
    try:
        minute = datetime(
            year,
            _MONTHS.index(month) + 1,
            int(found["day"]),
            int(found["hour"]),
            int(found["minute"]),
            tzinfo=UTC,
        )
        return minute + timedelta(seconds=second)
    except (OverflowError, ValueError):
        return None
