"""Forms as bytes: names and values in their order, decoded once, an empty value kept, and bounded in their number."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

from app.domain.webhook import Refused, Result

FIELDS_MAX: Final = 1000

Fields = Sequence[tuple[bytes, bytes]]


def read_form(body: bytes, *, fields_max: int = FIELDS_MAX) -> Fields:
    """Read `application/x-www-form-urlencoded`, or a query; raises `Refused` for too many fields."""
    if not body:
        return ()
    if body.count(b"&") >= fields_max:
        raise Refused(Result.MALFORMED, "too_many_fields")
    pairs = (part.partition(b"=") for part in body.split(b"&") if part)
    return [(_decoded(name), _decoded(value)) for name, _, value in pairs]


def _decoded(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))


def values_of(fields: Fields, name: str) -> list[bytes]:
    """Every value of one name, in order."""
    wanted = name.encode()
    return [value for key, value in fields if key == wanted]


def text_of(fields: Fields, name: str) -> str:
    """The last value of a name as text, "" where there is none; what is not UTF-8 in it is replaced."""
    values = values_of(fields, name)
    return values[-1].decode("utf-8", "replace") if values else ""
