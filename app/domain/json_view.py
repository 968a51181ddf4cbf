"""JSON that was signed by its sender, read with limits: what is not there reads as nothing, and slices stay as sent."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from app.domain.json_grammar import (
    AS_IT_IS,
    NUMBER_CHARACTERS_MAX,
    SMALL_BYTES,
    STRICT_DEPTH_MAX,
    NotJson,
    collector_paused,
    deeper_than,
    end_of_space,
    refuse_constant,
    skip,
)
from app.domain.webhook import Refused, Result

Json = Any

# Items of one request that are looked at.
SLICES_MAX: Final = 10_000
_ANY: Final = "*"


def _integer(text: str) -> int:
    if len(text) > NUMBER_CHARACTERS_MAX:
        raise NotJson("a number is too long")
    return int(text)


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_constant=refuse_constant)
_NAME: Final = re.compile(r'"([^"\\\x00-\x1f]*+)"')


def read_json(body: bytes) -> Json:
    """Read a body of at most 64 levels; raises `Refused` for what is no JSON in UTF-8."""
    try:
        text = body.decode()
        if deeper_than(STRICT_DEPTH_MAX, body):
            raise Refused(Result.MALFORMED, "json_too_deep")
        with collector_paused() if len(body) > SMALL_BYTES else AS_IT_IS:
            return _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise Refused(Result.MALFORMED, "json_invalid") from None


def read_object(body: bytes) -> dict[str, Json]:
    """Read a body that is one JSON object; raises `Refused`."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise Refused(Result.MALFORMED, "json_object_needed")
    return value


def at(value: Json, *path: str | int) -> Json:
    """What stands at a path of names and positions; None where nothing does."""
    for part in path:
        if isinstance(part, str):
            value = value.get(part) if isinstance(value, dict) else None
        else:
            here = isinstance(value, list) and -len(value) <= part < len(value)
            value = value[part] if here else None
    return value


def path_of(dotted: str) -> tuple[str | int, ...]:
    """The path that a configuration spells with dots: `data.items.0.id`."""
    return tuple(
        int(part) if part.isascii() and part.isdigit() else part for part in dotted.split(".")
    )


def text_at(value: Json, *path: str | int) -> str:
    """The text at a path; "" where there is none. Half a surrogate pair, which no answer can hold, is replaced."""
    found = at(value, *path)
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else ""


def name_at(value: Json, *path: str | int) -> str:
    """The text or whole number at a path, as text: ids are either. "" where there is none."""
    found = at(value, *path)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return text_at(value, *path)


def number_at(value: Json, *path: str | int) -> float | None:
    """The number at a path; None where there is none."""
    found = at(value, *path)
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    try:
        return float(found) if is_number else None
    except OverflowError:
        return None


def time_at(value: Json, *path: str | int, per_second: int = 1) -> datetime | None:
    """The time at a path: Unix time, of which `per_second` are a second, or RFC 3339 with its zone; else None."""
    seconds = number_at(value, *path)
    try:
        if seconds is None and text_at(value, *path).isdigit():
            seconds = float(text_at(value, *path))
        if seconds is not None:
            return datetime.fromtimestamp(seconds / per_second, UTC)
        told = datetime.fromisoformat(text_at(value, *path))
        return told if told.tzinfo else None
    except (ValueError, OverflowError, OSError):
        return None


def list_at(value: Json, *path: str | int) -> list[Json]:
    """The array at a path; empty where there is none."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def object_at(value: Json, *path: str | int) -> dict[str, Json]:
    """The object at a path; empty where there is none."""
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def slices_at(body: bytes, *path: str) -> list[tuple[tuple[int, ...], bytes]]:
    """Every value at a path, as it was sent, with its positions; `*` in the path goes through an array.

    The body was read before, so that it is JSON. Raises `Refused` for more than 10,000.
    """
    text = body.decode()
    found: list[tuple[tuple[int, ...], bytes]] = []
    for positions, start, end in _spans(text, end_of_space(text, 0), path, ()):
        if len(found) >= SLICES_MAX:
            raise Refused(Result.MALFORMED, "too_many_items")
        found.append((positions, text[start:end].encode()))
    return found


def _spans(
    text: str, start: int, path: tuple[str, ...], positions: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    if not path:
        yield positions, start, skip(text, start)
        return
    step, *rest = path
    if step == _ANY and text.startswith("[", start):
        for n, value in enumerate(_values(text, start)):
            yield from _spans(text, value, tuple(rest), (*positions, n))
    elif step != _ANY and text.startswith("{", start):
        # Of a name that is repeated its last value counts, as everywhere.
        member = dict(_members(text, start)).get(step)
        if member is not None:
            yield from _spans(text, member, tuple(rest), positions)


def _values(text: str, start: int) -> Iterator[int]:
    here = end_of_space(text, start + 1)
    while not text.startswith("]", here):
        yield here
        here = end_of_space(text, skip(text, here))
        if text.startswith(",", here):
            here = end_of_space(text, here + 1)


def _members(text: str, start: int) -> Iterator[tuple[str, int]]:
    here = end_of_space(text, start + 1)
    while not text.startswith("}", here):
        plain = _NAME.match(text, here)
        name, here = (plain[1], plain.end()) if plain else _DECODER.raw_decode(text, here)
        here = end_of_space(text, end_of_space(text, here) + 1)
        yield name, here
        here = end_of_space(text, skip(text, here))
        if text.startswith(",", here):
            here = end_of_space(text, here + 1)
