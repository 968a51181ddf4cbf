"""Reading the fields of a parsed object: every value checked, every problem collected before the refusal."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.errors import InvalidContent, Problem

NAME_BYTES_MAX: Final = 255
PROBLEMS_MAX: Final = 100

# Control characters, and halves of surrogate pairs, which no database stores.
_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NOT_IN_TEXT: Final = re.compile(r"[\x00\ud800-\udfff]")
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
# The instant before it is minus infinity to the driver, and comes back as a time without a zone.
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC) + timedelta(microseconds=1)


class Fields:
    """One object of a request. What is wrong with it is collected in `problems`."""

    __slots__ = ("pointer", "problems", "values")

    def __init__(
        self,
        values: Mapping[str, object],
        *,
        pointer: str = "",
        problems: list[Problem] | None = None,
    ) -> None:
        self.values = values
        self.pointer = pointer
        self.problems = [] if problems is None else problems

    def refuse(self, name: str, code: str, detail: str = "") -> None:
        """Note that something is wrong with a field."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(f"{self.pointer}/{name}", code, detail))

    def check(self) -> None:
        """Raise `InvalidContent` if anything was wrong."""
        if self.problems:
            raise InvalidContent(*self.problems)

    def string(self, name: str, *, required: bool = False) -> str | None:
        """Any string; None when it is absent or wrong."""
        value = self.values.get(name)
        if value is None:
            if required:
                self.refuse(name, "required")
            return None
        if not isinstance(value, str):
            self.refuse(name, "wrong_type", "a string is needed")
            return None
        return value

    def name(
        self, name: str, *, code: str = "name_invalid", required: bool = False, least: int = 1
    ) -> str | None:
        """A name of at least so many characters and at most 255 bytes, without control characters."""
        value = self.string(name, required=required)
        if value is None:
            return None
        # In this order: half a character has no bytes.
        if (
            len(value) < least
            or _NOT_IN_NAMES.search(value)
            or len(value.encode()) > NAME_BYTES_MAX
        ):
            self.refuse(name, code)
            return None
        return value

    def text(self, name: str, *, bytes_max: int, required: bool = False) -> str | None:
        """Words for people: anything but NUL and half characters."""
        value = self.string(name, required=required)
        if value is None:
            return None
        if _NOT_IN_TEXT.search(value) or not 1 <= len(value.encode()) <= bytes_max:
            self.refuse(name, "text_invalid", f"1 to {bytes_max} bytes without NUL")
            return None
        return value

    def integer(self, name: str, *, default: int, least: int, most: int) -> int:
        """A whole number, spelled as one."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, "wrong_type", "a whole number is needed")
        elif not least <= value <= most:
            self.refuse(name, "out_of_range", f"{least} to {most}")
        else:
            return value
        return default

    def seconds(self, name: str, *, seconds_max: float) -> float:
        """A duration; 0 when it is absent or wrong."""
        return duration(self, name, self.values.get(name), seconds_max=seconds_max)

    def flag(self, name: str) -> bool:
        """True or false; false when it is absent."""
        value = self.values.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            self.refuse(name, "wrong_type", "true or false is needed")
            return False
        return value

    def not_built(self, *names: str) -> None:
        """Refuse fields that would have no effect yet."""
        for name in names:
            if self.values.get(name) is not None:
                self.refuse(name, "not_supported")


def duration(fields: Fields, name: str, value: object, *, seconds_max: float) -> float:
    """Read a number of seconds; 0 when it is absent or wrong."""
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        fields.refuse(name, "wrong_type", "a number of seconds is needed")
    elif not (math.isfinite(value) and 0 <= value <= seconds_max):
        fields.refuse(name, "out_of_range", f"0 to {seconds_max:g}")
    else:
        # Also turns a negative zero into the one zero.
        return float(value) + 0.0
    return 0.0


def moment(fields: Fields, name: str, value: object) -> datetime | None:
    """Read an RFC 3339 time with its zone, in UTC; None when it is absent or wrong."""
    if value is None:
        return None
    if not isinstance(value, str):
        fields.refuse(name, "wrong_type", "an RFC 3339 time is needed")
        return None
    parts = _TIME.fullmatch(value)
    if parts is None:
        fields.refuse(name, "time_invalid")
        return None
    day, clock, fraction, zone = parts.groups()
    if zone is None:
        fields.refuse(name, "time_zone_missing")
        return None
    try:
        exact = f"{day}T{clock}{(fraction or '')[:7]}{zone.upper()}"
        return max(datetime.fromisoformat(exact).astimezone(UTC), _EARLIEST)
    except (ValueError, OverflowError):
        fields.refuse(name, "time_invalid")
        return None


def escaped(name: str) -> str:
    """A name as a part of a pointer. It may hold half a surrogate pair, which no answer should."""
    return shown(name[:NAME_BYTES_MAX]).replace("~", "~0").replace("/", "~1")


def shown(text: str) -> str:
    """Text of somebody else as an answer can hold it."""
    return text.encode("utf-8", "replace").decode()
