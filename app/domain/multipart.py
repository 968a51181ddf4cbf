"""Forms with files, as bytes: every part with its names, bounded in their number, read in linear time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from app.domain.form import Fields
from app.domain.webhook import Refused, Result

PARTS_MAX: Final = 1000
HEADER_BYTES_MAX: Final = 16 << 10

_BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_PARAMETER: Final = re.compile(
    r';\s*(name|filename|filename\*|charset)\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|([^\s;"]*+))',
    re.IGNORECASE,
)
_BREAK: Final = b"\r\n"
_END: Final = b"--"


@dataclass(frozen=True, slots=True)
class Part:
    """One part. `filename` is None for a field; `charset` is "" where none is said."""

    name: str
    value: bytes = field(repr=False)
    filename: str | None = None
    content_type: str = ""
    charset: str = ""


def read_multipart(content_type: str, body: bytes) -> Sequence[Part]:
    """Read `multipart/form-data` by its boundary; raises `Refused` for what is none, or is cut short."""
    found = _BOUNDARY.search(content_type)
    if found is None or not content_type.lower().startswith("multipart/form-data"):
        raise Refused(Result.MALFORMED, "multipart_needed")
    boundary = (found[1] or found[2]).rstrip().encode("latin-1", "replace")
    delimiter = _BREAK + _END + boundary
    whole = _BREAK + body
    if whole.count(delimiter) > PARTS_MAX + 1:
        raise Refused(Result.MALFORMED, "too_many_parts")
    pieces = whole.split(delimiter)
    if len(pieces) < 2 or not pieces[-1].startswith(_END):  # noqa: PLR2004 - before and behind
        raise Refused(Result.MALFORMED, "multipart_cut_short")
    return [_part(piece) for piece in pieces[1:-1]]


def fields_of(parts: Sequence[Part]) -> Fields:
    """The parts that are no files, like the fields of any other form."""
    return [(part.name.encode(), part.value) for part in parts if part.filename is None]


def _part(piece: bytes) -> Part:
    # Behind a boundary there may be spaces, then the line ends.
    padding, line_end, rest = piece.partition(_BREAK)
    if padding.strip(b" \t") or not line_end:
        raise Refused(Result.MALFORMED, "multipart_invalid")
    if rest.startswith(_BREAK):
        head, value = b"", rest[len(_BREAK) :]
    else:
        head, blank, value = rest.partition(_BREAK * 2)
        if not blank or len(head) > HEADER_BYTES_MAX:
            raise Refused(Result.MALFORMED, "multipart_invalid")
    lines = [line.partition(":") for line in head.decode("utf-8", "replace").split("\r\n")]
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    told = _parameters(headers.get("content-disposition", ""))
    type_ = headers.get("content-type", "")
    return Part(
        name=told.get("name", ""),
        value=value,
        filename=told.get("filename*", told.get("filename")),
        content_type=type_.partition(";")[0].strip().lower(),
        charset=_parameters(type_).get("charset", ""),
    )


def _parameters(header: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in _PARAMETER.finditer(header):
        name, quoted, plain = one[1].lower(), one[2], one[3]
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
        if name == "filename*":
            # Its character set, its language, and the text in %XX.
            value = unquote(value.rpartition("'")[2], errors="replace")
        found.setdefault(name, value)
    return found
