"""What a check says: how bad it is, in plain words, and what to do about it. Never a secret, a body or an address."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.doctor.patient import Patient


class Level(StrEnum):
    """How bad it is. Only `WRONG` fails the examination."""

    GOOD = "good"
    SKIPPED = "skipped"  # not looked at, and why
    WARNING = "warning"  # works, and somebody should know
    WRONG = "wrong"  # loses, stops or leaks something, now or soon


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found. `advice` is what to do, and empty where there is nothing to do."""

    level: Level
    text: str
    advice: str = ""


def good(text: str) -> Finding:
    """All is as it should be."""
    return Finding(Level.GOOD, text)


def skipped(text: str) -> Finding:
    """It was not looked at."""
    return Finding(Level.SKIPPED, text)


def warning(text: str, advice: str) -> Finding:
    """It works, and somebody should know."""
    return Finding(Level.WARNING, text, advice)


def wrong(text: str, advice: str) -> Finding:
    """It has to be put right."""
    return Finding(Level.WRONG, text, advice)


@dataclass(frozen=True, slots=True)
class Check:
    """One check: a stable code, what it needs, and the function that makes it.

    A check that needs the `schema` is left out where the database has another one, and one that needs the `database`
    where it cannot be reached.
    """

    code: str
    make: "Callable[[Patient], Awaitable[Sequence[Finding]]]"
    needs: str = "database"


def span(seconds: float) -> str:
    """A length of time for a person: `40 ms`, `12 s`, `3.5 h`."""
    for size, unit in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= 2 * size or (unit == "s" and seconds >= 1):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1000:.3g} ms"


def amount(size: float) -> str:
    """A number of bytes for a person: `512 MB`, `1.2 GB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 - the next unit
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"


def shown(text: str, *, characters_max: int = 60) -> str:
    """What somebody else has named, fit for a line of a terminal."""
    kept = "".join(one if one.isprintable() else "?" for one in text[:characters_max])
    return kept if len(text) <= characters_max else f"{kept}..."
