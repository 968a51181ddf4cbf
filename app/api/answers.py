"""Answers as bytes: JSON with bodies spliced in exactly as they were sent, and times with their zone."""

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final
from uuid import UUID

from starlette.responses import Response

from app.domain.ids import MESSAGE_PREFIX, format_id
from app.domain.media import JSON

# Without spaces, and in ASCII: no name or reason can break the encoding of an answer.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_NO_HEADERS: Final = MappingProxyType[str, str]({})
_JSON_TYPE: Final = (b"content-type", JSON.encode())


def to_json(value: object) -> bytes:
    """Write a value as compact JSON in ASCII."""
    return _ENCODER.encode(value).encode()


class _JsonAnswer(Response):
    """An answer whose header lines are written here instead of derived: nearly every answer is one."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str]) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _JSON_TYPE]
        for name, value in headers.items():
            self.raw_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))


def json_answer(
    body: bytes | Mapping[str, object],
    *,
    status: int = 200,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Response:
    """Answer with JSON: a mapping, or bytes that are JSON already."""
    return _JsonAnswer(body if isinstance(body, bytes) else to_json(body), status, headers)


def with_members(fields: Mapping[str, object], *raw: tuple[str, bytes]) -> bytes:
    """Write an object of `fields` (at least one) and members whose JSON stands already."""
    parts = [to_json(fields)[:-1]]
    parts += [b',"%b":%b' % (name.encode(), value) for name, value in raw]
    return b"".join([*parts, b"}"])


def payload_member(body: bytes, *, strict_json: bool) -> tuple[str, bytes]:
    """Name and JSON of a body: as it is when every reader takes it, else in base64."""
    if strict_json:
        return "payload", body
    return "payload_base64", b'"%b"' % base64.b64encode(body)


def rfc3339(moment: datetime) -> str:
    """Spell a time of the database, in UTC."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def message_id(message: UUID | None) -> str | None:
    """Spell the id of a message, if there is one."""
    return None if message is None else format_id(MESSAGE_PREFIX, message)
