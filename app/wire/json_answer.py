"""The JSON of an answer, read without trusting it: whatever it holds, what is not as documented is absent."""

import json
from collections.abc import Mapping

from app.wire.exchange import Answered


def json_object(answered: Answered) -> Mapping[str, object] | None:
    """The object that an answer is; None when it is cut, is no JSON, or is something else."""
    if not answered.complete:
        return None
    value = _parsed(answered.excerpt)
    return value if isinstance(value, dict) else None


def json_list(answered: Answered) -> list[object] | None:
    """The list that an answer is; None when it is cut, is no JSON, or is something else."""
    if not answered.complete:
        return None
    value = _parsed(answered.excerpt)
    return value if isinstance(value, list) else None


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def inside(value: object, *path: str | int) -> object:
    """What stands at a path of names and positions; None where there is nothing."""
    for step in path:
        match value, step:
            case dict(), str():
                value = value.get(step)
            case list(), int() if step < len(value):
                value = value[step]
            case _:
                return None
    return value


def list_inside(value: object, *path: str | int) -> list[object]:
    """The list at a path; empty for anything else."""
    found = inside(value, *path)
    return found if isinstance(found, list) else []


def text_inside(value: object, *path: str | int, most: int = 512) -> str | None:
    """The text at a path, a whole number as its digits; None for anything else, empty or longer than `most`."""
    found = inside(value, *path)
    if isinstance(found, int) and not isinstance(found, bool):
        found = str(found) if abs(found) < 1 << 64 else None
    if not isinstance(found, str) or not 1 <= len(found) <= most or not found.isprintable():
        return None
    return found


def seconds_inside(value: object, *path: str | int, most: float = 86_400.0) -> float | None:
    """The number of seconds at a path, from 0 to `most`; None for anything else."""
    found = inside(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not found >= 0:
        return None
    return min(float(found), most) if found < 1e300 else most  # noqa: PLR2004 - an int may be too long for a float
