"""Cursors of lists: where a page ended, good for the same question of the same key alone."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.api.answers import to_json
from app.domain.errors import InvalidContent, Problem

if TYPE_CHECKING:
    from app.engine.keys import Principal

_QUESTION_BYTES: Final = 8
_LENGTH: Final = 16 + _QUESTION_BYTES


def write_cursor(
    end: UUID | None, *, question: Mapping[str, object], principal: "Principal"
) -> str | None:
    """Spell where a page ended; None at the end of the list."""
    if end is None:
        return None
    return base64.urlsafe_b64encode(end.bytes + _mark(question, principal)).decode()


def read_cursor(
    text: str | None, *, question: Mapping[str, object], principal: "Principal"
) -> UUID | None:
    """Read what `next_cursor` said; raises `InvalidContent` for anything else, another question's cursor included."""
    if text is None:
        return None
    try:
        given = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        given = b""
    if len(given) != _LENGTH or given[16:] != _mark(question, principal):
        raise InvalidContent(Problem("/cursor", "cursor_invalid"))
    return UUID(bytes=given[:16])


def _mark(question: Mapping[str, object], principal: "Principal") -> bytes:
    asked = to_json([principal.key_id, sorted(question.items())])
    return hashlib.sha256(b"cursor.1" + asked).digest()[:_QUESTION_BYTES]
