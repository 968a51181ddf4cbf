"""What must not be kept is blotted out of a body, however it was spelled there."""

import json
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final

BLOT: Final = b"***"

# What stands for other bytes than its own: in JSON, and in a form.
_IN_JSON: Final = re.compile(
    rb'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])'
)
_IN_FORM: Final = re.compile(rb"%[0-9a-fA-F]{2}|\+")


class NotBlotted(ValueError):
    """A secret was to be blotted out of a body, and does not stand in it in a spelling that is known."""


def blot(body: bytes, secrets: Iterable[str]) -> bytes:
    """The body with each of the secrets replaced by `***`; raises `NotBlotted` where one was not found.

    Known are plain text, JSON, a form, and JSON in a form, whichever of the characters were escaped there and how.
    """
    # One may be the beginning of another.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        sought, count = secret.encode("utf-8", "surrogatepass"), 0
        for layers in _LAYERS:
            body, found = _blotted(body, sought, layers)
            count += found
        if not count:
            raise NotBlotted
    return body


def _blotted(body: bytes, sought: bytes, layers: Sequence["_Layer"]) -> tuple[bytes, int]:
    """The body without what reads as `sought` behind these layers, and how often that was there."""
    plain: bytes = body
    starts: Sequence[int] = range(len(body) + 1)
    for layer in layers:
        plain, starts = layer(plain, starts)
    kept, end, count = bytearray(), 0, 0
    at = plain.find(sought)
    while at >= 0:
        kept += body[end : starts[at]] + BLOT
        end, count = starts[at + len(sought)], count + 1
        at = plain.find(sought, at + len(sought))
    return (bytes(kept) + body[end:], count) if count else (body, 0)


def _json(body: bytes, starts: Sequence[int]) -> tuple[bytes, Sequence[int]]:
    return _unescaped(body, starts, _IN_JSON, _read_json)


def _form(body: bytes, starts: Sequence[int]) -> tuple[bytes, Sequence[int]]:
    return _unescaped(body, starts, _IN_FORM, _read_form)


def _read_json(escape: bytes) -> bytes:
    text: str = json.loads(b'"%b"' % escape)
    return text.encode("utf-8", "surrogatepass")


def _read_form(escape: bytes) -> bytes:
    return b" " if escape == b"+" else bytes((int(escape[1:], 16),))


def _unescaped(
    body: bytes, starts: Sequence[int], escapes: re.Pattern[bytes], read: Callable[[bytes], bytes]
) -> tuple[bytes, Sequence[int]]:
    """What a body reads as, and for each byte of that, and for its end, where it begins in what was sent."""
    plain, begins, end = bytearray(), array("L"), 0
    for escape in escapes.finditer(body):
        at = escape.start()
        meant = read(escape[0])
        plain += body[end:at] + meant
        begins.extend(starts[end:at])
        begins.extend([starts[at]] * len(meant))
        end = escape.end()
    if not end:
        return body, starts
    plain += body[end:]
    begins.extend(starts[end:])
    return bytes(plain), begins


_Layer = Callable[[bytes, Sequence[int]], tuple[bytes, Sequence[int]]]
_LAYERS: Final[Sequence[Sequence[_Layer]]] = ((), (_json,), (_form,), (_form, _json))
