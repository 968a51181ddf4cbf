"""JSON as it was sent: envelopes are read strictly, and what is inside stays the sender's bytes.

Whatever the bytes are, reading them ends in linear time with a result or `InvalidContent`.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from app.domain.errors import InvalidContent, Problem
from app.domain.json_grammar import (
    AS_IT_IS,
    DEPTH_MAX,
    NUMBER_CHARACTERS_MAX,
    SMALL_BYTES,
    NotJson,
    collector_paused,
    deeper_than,
    end_of_space,
    is_strict_json,
    refuse_constant,
    skip,
)

__all__ = ["AsSent", "Items", "Kind", "RawJson", "Shape", "is_strict_json", "parse_envelope"]

PROBLEMS_MAX: Final = 20
_NAME_CHARACTERS_MAX: Final = 255


class RawJson(bytes):
    """One JSON value exactly as it was sent, without the white space around it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AsSent:
    """A parsed value and its own spelling, for values that are compared as sent."""

    value: object
    text: str


class Kind(Enum):
    """How a field is read: parsed, as a `RawJson`, or as an `AsSent`."""

    VALUE = "value"
    RAW = "raw"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Items:
    """A field that holds an array of objects of one shape, at most `items_max`.

    With `apart` an item with problems of its own takes nobody with it: its place in the list
    holds its `InvalidContent`.
    """

    shape: "Shape"
    items_max: int
    apart: bool = False


Shape = Mapping[str, Kind | Items]


class _Refused(ValueError):
    """A value that is JSON and cannot be taken as parsed."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


def _integer(text: str) -> int:
    if len(text) > NUMBER_CHARACTERS_MAX:
        raise _Refused("number_too_large", "a number has at most 300 digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text) if len(text) <= NUMBER_CHARACTERS_MAX else math.inf
    if math.isinf(value):
        raise _Refused("number_too_large", "a number is too large or too long")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused("unknown_field", "a field is repeated")
    return value


_PARSE: Final = json.JSONDecoder(
    parse_int=_integer,
    parse_float=_float,
    parse_constant=refuse_constant,
    object_pairs_hook=_unique,
)

_OPENING: Final = re.compile(r"[ \t\n\r]*+\{[ \t\n\r]*+(\})?")
# A name and its colon; a short string without escapes behind it as well, which most values are.
_PLAIN_NAME: Final = re.compile(
    r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+(?:"([^"\\\x00-\x1f]{0,128}+)")?'
)
_COLON: Final = re.compile(r"[ \t\n\r]*+:[ \t\n\r]*+")
_AFTER_FIELD: Final = re.compile(r"[ \t\n\r]*+(?:(\})|,[ \t\n\r]*+(?=\"))")
_AFTER_ITEM: Final = re.compile(r"[ \t\n\r]*+(?:(\])|,[ \t\n\r]*+)")

_TOO_DEEP: Final = Problem("", "json_too_deep", f"at most {DEPTH_MAX} levels")


def parse_envelope(body: bytes, shape: Shape) -> dict[str, object]:
    """Read one JSON object by its shape; null means absent.

    Raises `InvalidContent` for everything else, with at most 20 problems: `unknown_field` for a
    field that is unknown or repeated, `json_invalid`, `json_not_utf8`, `json_too_deep` (over 512
    levels), `wrong_type`, `too_many` items, and `number_too_large` in what is parsed.
    """
    try:
        text = body.decode()
        if not deeper_than(DEPTH_MAX, body):
            with collector_paused() if len(body) > SMALL_BYTES else AS_IT_IS:
                return _Reader(text).read(shape)
        problem = _TOO_DEEP
    except UnicodeDecodeError as error:
        problem = Problem("", "json_not_utf8", f"not UTF-8 at byte {error.start}")
    except json.JSONDecodeError as error:
        problem = Problem("", "json_invalid", f"{error.msg} (character {error.pos})")
    except RecursionError:
        problem = _TOO_DEEP
    raise InvalidContent(problem)


class _Reader:
    """One pass over one text, collecting what is wrong beside the grammar."""

    __slots__ = ("problems", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.problems: list[Problem] = []

    def read(self, shape: Shape) -> dict[str, object]:
        text = self.text
        opening = _OPENING.match(text)
        if opening is None:
            end = skip(text, end_of_space(text, 0))
            self.problems.append(Problem("", "wrong_type", "a JSON object is needed"))
            fields = dict[str, object]()
        else:
            fields, end = self._fields(opening, shape, "")
        end = end_of_space(text, end)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        if self.problems:
            raise InvalidContent(*self.problems)
        return fields

    def _fields(
        self, opening: re.Match[str], shape: Shape, pointer: str
    ) -> tuple[dict[str, object], int]:
        text, at, closing = self.text, opening.end(), opening[1]
        if closing is None and not text.startswith('"', at):
            raise json.JSONDecodeError("Expecting the name of a field", text, at)
        fields: dict[str, object] = {}
        seen: set[str] = set()
        while closing is None:
            plain = _PLAIN_NAME.match(text, at)
            if plain is None:
                (name, at), string = _odd_name(text, at), None
            else:
                name, string = plain.groups()
                at = plain.end() if string is None else plain.start(2) - 1
            kind = shape.get(name)
            if kind is None or name in seen:
                self._problem(pointer, name, "unknown_field", "repeated" if kind else "unknown")
                at = skip(text, at)
            elif plain is not None and string is not None and kind is Kind.VALUE:
                fields[name], at = string, plain.end()
            elif text.startswith("null", at):
                at += 4
            elif kind is Kind.RAW:
                start, at = at, skip(text, at)
                fields[name] = RawJson(text[start:at].encode())
            elif isinstance(kind, Items):
                fields[name], at = self._items(at, kind, pointer, name)
            else:
                start = at
                value, at = self._value(at, pointer, name)
                fields[name] = value if kind is Kind.VALUE else AsSent(value, text[start:at])
            seen.add(name)
            after = _AFTER_FIELD.match(text, at)
            if after is None:
                raise json.JSONDecodeError("Expecting ',' and a field, or '}'", text, at)
            closing, at = after[1], after.end()
        return fields, at

    def _value(self, at: int, pointer: str, name: str) -> tuple[object, int]:
        try:
            return _PARSE.raw_decode(self.text, at)
        except NotJson as error:
            raise json.JSONDecodeError(str(error), self.text, at) from None
        except _Refused as refused:
            self._problem(pointer, name, refused.code, refused.detail)
            return None, skip(self.text, at)

    def _items(
        self, at: int, items: Items, pointer: str, name: str
    ) -> tuple[list[dict[str, object] | InvalidContent], int]:
        text = self.text
        read: list[dict[str, object] | InvalidContent] = []
        if not text.startswith("[", at):
            self._problem(pointer, name, "wrong_type", "an array of objects is needed")
            return read, skip(text, at)
        at = end_of_space(text, at + 1)
        if text.startswith("]", at):
            return read, at + 1
        below = _join(pointer, name)
        closing: str | None = None
        while closing is None:
            if len(read) == items.items_max:
                detail = f"at most {items.items_max}"
                self._problem(pointer, name, "too_many", detail)
                raise InvalidContent(*self.problems)
            item, at = self._item(at, items, below, str(len(read)))
            read.append(item)
            after = _AFTER_ITEM.match(text, at)
            if after is None:
                raise json.JSONDecodeError("Expecting ',' or ']'", text, at)
            closing, at = after[1], after.end()
        return read, at

    def _item(
        self, at: int, items: Items, pointer: str, name: str
    ) -> tuple[dict[str, object] | InvalidContent, int]:
        if not items.apart:
            return self._object(at, items.shape, pointer, name)
        outer, self.problems = self.problems, []
        try:
            item, end = self._object(at, items.shape, pointer, name)
            return (InvalidContent(*self.problems) if self.problems else item), end
        except InvalidContent as invalid:
            return invalid, skip(self.text, at)
        finally:
            self.problems = outer

    def _object(
        self, at: int, shape: Shape, pointer: str, name: str
    ) -> tuple[dict[str, object], int]:
        opening = _OPENING.match(self.text, at)
        if opening is None:
            self._problem(pointer, name, "wrong_type", "a JSON object is needed")
            return {}, skip(self.text, at)
        return self._fields(opening, shape, _join(pointer, name))

    def _problem(self, pointer: str, name: str, code: str, detail: str) -> None:
        self.problems.append(Problem(_join(pointer, name), code, detail))
        if len(self.problems) == PROBLEMS_MAX:
            raise InvalidContent(*self.problems)


def _odd_name(text: str, at: int) -> tuple[str, int]:
    """Read a name that has escapes, and its colon."""
    name, at = _PARSE.raw_decode(text, at)
    colon = _COLON.match(text, at)
    if colon is None:
        raise json.JSONDecodeError("Expecting ':'", text, at)
    return name, colon.end()


def _join(pointer: str, name: str) -> str:
    # A name is the sender's: it may be long, or hold half a surrogate pair that no answer can.
    short = name[:_NAME_CHARACTERS_MAX].encode("utf-8", "replace").decode()
    return f"{pointer}/{short.replace('~', '~0').replace('/', '~1')}"
