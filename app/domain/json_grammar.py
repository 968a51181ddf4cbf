"""What JSON is: one grammar for everybody, its depth and its end found in linear time."""

import gc
import json
import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import accumulate
from operator import add
from typing import Final

# Well under the interpreter's own limit of 1,000 frames, which callers share.
DEPTH_MAX: Final = 512
STRICT_DEPTH_MAX: Final = 64
NUMBER_CHARACTERS_MAX: Final = 300
# What makes so few values that the collector does not matter.
SMALL_BYTES: Final = 4096
AS_IT_IS: Final = nullcontext()


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
_BITS: Final = bytes.maketrans(b"[{]}", b"1100")
_UNMARKED: Final = bytes(set(range(256)) - set(b'[{]}"'))
# Eight brackets are one octet, an opening one is a set bit: how far it leads up, and its summit.
_STEPS: Final = [
    [1 if octet >> bit & 1 else -1 for bit in range(7, -1, -1)] for octet in range(256)
]
_RISES: Final = bytes(sum(steps) & 0xFF for steps in _STEPS)
_PEAKS: Final = bytes(max(accumulate(steps, initial=0)) for steps in _STEPS)
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
        with collector_paused() if len(body) > SMALL_BYTES else AS_IT_IS:
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


@contextmanager
def collector_paused() -> Iterator[None]:
    """Hold back the collector of cycles, which JSON has not.

    Each few hundred values would make it search everything again that the process holds.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def deeper_than(depth_max: int, body: bytes) -> bool:
    """Tell whether brackets outside of strings nest deeper; for bodies that may be no JSON too.

    An escaped backslash or quote counts as nothing, also where an escape has no place.
    """
    if len(body) <= depth_max or body.count(b"[") + body.count(b"{") <= depth_max:
        return False
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # Two neighbouring quotes leave everything else inside or outside, as it was.
    marks = unescaped.translate(_BITS, _UNMARKED).replace(b'""', b"")
    bits = b"".join(marks.split(b'"')[::2])
    # Filled up with closing brackets, which lead no higher.
    octets = len(bits) // 8 + 1
    packed = int(bits.ljust(8 * octets, b"0"), 2).to_bytes(octets, "big")
    ground = accumulate(array("b", packed.translate(_RISES)), initial=0)
    highest: int = max(map(add, ground, packed.translate(_PEAKS)))
    return highest > depth_max
