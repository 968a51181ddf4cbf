"""What JSON is: one grammar for everybody, its depth and its end found in linear time."""

import json
import re
from array import array
from itertools import accumulate
from typing import Final

# Well under the interpreter's own limit of 1,000 frames, which callers share.
DEPTH_MAX: Final = 512
STRICT_DEPTH_MAX: Final = 64
NUMBER_CHARACTERS_MAX: Final = 300


class NotJson(ValueError):
    """Something the standard library reads and JSON does not have."""


def refuse_constant(name: str) -> object:
    """Stand for a parser of NaN and Infinity, which JSON has not."""
    raise NotJson(f"{name} is not JSON")


def _short_number(text: str) -> None:
    if len(text) > NUMBER_CHARACTERS_MAX:
        raise NotJson("a number is too long")


# `len` stands for a parser of numbers that costs nothing and has no limit of digits.
_SKIP: Final = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=refuse_constant)
_STRICT: Final = json.JSONDecoder(
    parse_int=_short_number, parse_float=_short_number, parse_constant=refuse_constant
)

_SPACE: Final = re.compile(r"[ \t\n\r]*+")
# Possessive, and with an optional end: no start is tried twice.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[{]}"))
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_PAIRED: Final = re.compile(
    r"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)


def is_strict_json(body: bytes) -> bool:
    """Tell whether every reader of JSON takes these bytes.

    That is UTF-8 without a byte order mark, a depth of at most 64, no NaN, no lone surrogate and
    no number of more than 300 characters.
    """
    try:
        text = body.decode()
        if deeper_than(STRICT_DEPTH_MAX, body):
            return False
        _STRICT.decode(text)
    except (ValueError, RecursionError):
        return False
    return _SURROGATE.search(text) is None or _PAIRED.fullmatch(text) is not None


def end_of_space(text: str, at: int) -> int:
    """Find where the white space that may start at `at` ends."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def skip(text: str, at: int) -> int:
    """Find the end of the value that starts at `at`; `JSONDecodeError` if it is no JSON."""
    try:
        return _SKIP.raw_decode(text, at)[1]
    except NotJson as error:
        raise json.JSONDecodeError(str(error), text, at) from None


def deeper_than(depth_max: int, body: bytes) -> bool:
    """Tell whether brackets outside of strings nest deeper; for bodies that may be no JSON too."""
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return False
    steps = _STRING.sub(b"", body).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(array("b", steps)), default=0) > depth_max
