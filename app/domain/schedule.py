"""Times that come again: cron expressions in a time zone, and even steps. Pure, and the same on every machine.

A schedule that names its hours follows the clock on the wall: a time that the wall does not show fires once, when the
gap ends, and one that it shows twice fires the first time. One whose hour is `*` follows the hours that pass: it fires
in each of them, and nothing fires for an hour that there was not.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_MINUTE: Final = timedelta(minutes=1)
_SECOND: Final = timedelta(seconds=1)
# The longest that a clock on the wall is put back, and what is looked at behind a moment for it.
_PUT_BACK: Final = timedelta(hours=3)
_FIELDS: Final = 5
_CHARACTERS_MAX: Final = 255
# Any moment serves to see whether an expression can be read, and ever fires.
_SOME_TIME: Final = datetime(2024, 1, 1)  # noqa: DTZ001 - a time on the wall


def is_expression(text: str) -> bool:
    """Whether it is a cron expression of five fields that fires at all."""
    if len(text) > _CHARACTERS_MAX or not text.isascii() or len(text.split()) != _FIELDS:
        return False
    try:
        return next(CronSim(text, _SOME_TIME), None) is not None
    except CronSimError:
        return False


def zone_of(name: str) -> tzinfo:
    """A time zone by its name, as this machine knows it; raises `LookupError`, `ValueError` or `OSError`."""
    return UTC if name == "UTC" else ZoneInfo(name)


def steps(*, seconds: int, after: datetime, now: datetime, most: int) -> list[datetime]:
    """The last `most` multiples of so many seconds since 1970 that are behind `after` and not behind `now`."""
    first = int(after.timestamp()) // seconds + 1
    last = int(now.timestamp()) // seconds
    first = max(first, last - most + 1)
    return [datetime.fromtimestamp(n * seconds, UTC) for n in range(first, last + 1)]


def times(
    expression: str, *, zone: tzinfo, after: datetime, now: datetime, most: int
) -> list[datetime]:
    """The last `most` times of an expression that are behind `after` and not behind `now`, in UTC, in order."""
    hourly = expression.split()[1] == "*"
    found: set[datetime] = set()
    for wall in CronSim(expression, _latest_wall(now, zone) + _SECOND, reverse=True):
        moments = _moments(wall, zone, hourly=hourly)
        found.update(moment for moment in moments if after < moment <= now)
        # Times on the wall go back one by one; while it shows them twice, the moments do not.
        is_twice = hourly and len(moments) > 1
        if (moments and moments[-1] <= after) or (len(found) >= most and not is_twice):
            break
    return sorted(found)[-most:]


def _latest_wall(now: datetime, zone: tzinfo) -> datetime:
    """The latest time that the wall has shown: for a while after it was put back, that is not the present one."""
    local = now.astimezone(zone)
    before = (now - _PUT_BACK).astimezone(zone)
    put_back = (before.utcoffset() or timedelta()) - (local.utcoffset() or timedelta())
    return local.replace(tzinfo=None, microsecond=0) + max(put_back, timedelta())


def _moments(wall: datetime, zone: tzinfo, *, hourly: bool) -> tuple[datetime, ...]:
    """When the wall shows a time, in order."""
    shown = tuple(_shown(wall, zone))
    if hourly:
        return shown
    while not shown:
        wall += _MINUTE
        shown = tuple(_shown(wall, zone))
    return shown[:1]


def _shown(wall: datetime, zone: tzinfo) -> Iterator[datetime]:
    seen: datetime | None = None
    for fold in (0, 1):
        moment = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if moment != seen and moment.astimezone(zone).replace(tzinfo=None) == wall:
            seen = moment
            yield moment
