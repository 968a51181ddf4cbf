"""What somebody wants to say, as bytes: `payload` is kept as it was spelled, `payload_base64` brings anything."""

import base64
import binascii

from app.api.fields import Fields
from app.domain.json_text import RawJson
from app.domain.media import JSON, is_json_type
from app.wire.headers import header_problems

Payload = tuple[str, bytes]


def read_payload(fields: Fields) -> Payload | None:
    """Content type and bytes; None with the problem noted."""
    raw = fields.values.get("payload")
    encoded = fields.string("payload_base64")
    content_type = fields.string("content_type")
    if content_type is not None and header_problems({}, content_type=content_type):
        fields.refuse("content_type", "content_type_invalid")
        return None
    if isinstance(raw, RawJson):
        if encoded is not None:
            fields.refuse("payload", "payload_ambiguous")
            return None
        if content_type is not None and not is_json_type(content_type):
            fields.refuse("content_type", "content_type_invalid", "a payload is JSON")
            return None
        return content_type or JSON, bytes(raw)
    if encoded is None:
        if fields.values.get("payload_base64") is None:
            fields.refuse("payload", "payload_missing")
        return None
    if content_type is None:
        if fields.values.get("content_type") is None:
            fields.refuse("content_type", "content_type_missing")
        return None
    try:
        return content_type, base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        fields.refuse("payload_base64", "base64_invalid")
        return None
