"""What an accept says, read and checked: the fields of one inbound, and the hash of what makes two of them the same."""

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from starlette.requests import Request

from app.api.calls import Api
from app.api.fields import Fields, duration, moment
from app.api.payloads import read_payload
from app.api.problems import Refusal
from app.core.items import joining_of
from app.domain.errors import InvalidContent, Problem
from app.domain.json_text import AsSent, Kind, is_strict_json
from app.domain.media import reads_as_json
from app.domain.model import API_SOURCE, Arrival
from app.engine.keys import Principal

PRIORITY_MAX: Final = 100
DEFAULT_QUEUE: Final = "default"

KEY: Final = re.compile(r"[!-~]{1,255}")
SHAPE: Final = {
    "queue": Kind.VALUE,
    "conversation": Kind.VALUE,
    "payload": Kind.RAW,
    "payload_base64": Kind.VALUE,
    "content_type": Kind.VALUE,
    "delay_seconds": Kind.TEXT,
    "not_before": Kind.TEXT,
    "priority": Kind.VALUE,
    "metadata": Kind.TEXT,
}


def idempotency_key(request: Request) -> str:
    """Read the header; raises `Refusal` without one, `InvalidContent` for one that cannot be a key."""
    values = [value for name, value in request.scope["headers"] if name == b"idempotency-key"]
    if not values:
        raise Refusal("idempotency_key_missing")
    key: str = values[0].decode("latin-1")
    if len(values) > 1 or KEY.fullmatch(key) is None:
        raise InvalidContent(Problem("", "idempotency_key_invalid"))
    return key


def read_arrival(
    api: Api, values: dict[str, object], *, key: str, principal: Principal, pointer: str = ""
) -> Arrival:
    """Check the fields of one inbound; raises `InvalidContent` with everything that is wrong."""
    limits = api.core.settings.limits
    fields = Fields(values, pointer=pointer)
    queue = fields.string("queue")
    queue = DEFAULT_QUEUE if values.get("queue") is None else queue
    # An unknown queue and one that the key may not see are the same.
    if queue is not None and not (queue in api.core.settings.queues and principal.sees(queue)):
        fields.refuse("queue", "queue_unknown")
    conversation = fields.name("conversation", code="conversation_invalid")
    payload = read_payload(fields)
    delay, not_before, as_sent = _when(fields, limits.delay_seconds_max)
    priority = fields.integer("priority", default=0, least=-PRIORITY_MAX, most=PRIORITY_MAX)
    metadata = _metadata(fields, limits.metadata_bytes_max)
    fields.check()
    if queue is None or payload is None:
        raise InvalidContent(Problem(pointer, "wrong_type"))
    content_type, content = payload
    return Arrival(
        scope=f"queue/{queue}",
        key=key,
        body_hash=body_hash(
            content=content,
            content_type=content_type,
            conversation=conversation,
            priority=priority,
            due=as_sent,
            metadata=None if metadata is None else metadata.value,
        ),
        queue=queue,
        source=API_SOURCE,
        conversation=conversation,
        content_type=content_type,
        body=content,
        strict_json=reads_as_json(content, content_type=content_type),
        metadata=None if metadata is None else metadata.text,
        priority=priority,
        delay_seconds=delay,
        not_before=not_before,
        delay_seconds_max=limits.delay_seconds_max,
        joining=joining_of(api.core.settings, queue),
    )


def _when(fields: Fields, seconds_max: float) -> tuple[float, datetime | None, str | None]:
    """Delay, time, and how either was spelled."""
    delay, not_before = fields.values.get("delay_seconds"), fields.values.get("not_before")
    if isinstance(delay, AsSent) and isinstance(not_before, AsSent):
        fields.refuse("not_before", "delay_ambiguous")
        return 0.0, None, None
    if isinstance(delay, AsSent):
        seconds = duration(fields, "delay_seconds", delay.value, seconds_max=seconds_max)
        return seconds, None, f"delay_seconds {delay.text}"
    if isinstance(not_before, AsSent):
        time = moment(fields, "not_before", not_before.value)
        return 0.0, time, f"not_before {not_before.text}"
    return 0.0, None, None


def _metadata(fields: Fields, bytes_max: int) -> AsSent | None:
    metadata = fields.values.get("metadata")
    if not isinstance(metadata, AsSent):
        return None
    if not isinstance(metadata.value, dict):
        fields.refuse("metadata", "wrong_type", "a JSON object is needed")
    elif len(metadata.text.encode()) > bytes_max:
        fields.refuse("metadata", "metadata_too_large", f"at most {bytes_max} bytes")
    elif not is_strict_json(metadata.text.encode()):
        fields.refuse("metadata", "metadata_invalid")
    else:
        return metadata
    return None


def body_hash(
    *,
    content: bytes,
    content_type: str,
    conversation: str | None,
    priority: int,
    due: str | None,
    metadata: object,
) -> bytes:
    """SHA-256 of what makes two requests under one key the same; the order of metadata's names does not count."""
    parts: Iterable[bytes | None] = (
        content,
        content_type.encode(),
        None if conversation is None else conversation.encode(),
        str(priority).encode(),
        None if due is None else due.encode(),
        None if metadata is None else json.dumps(metadata, sort_keys=True).encode(),
    )
    spelled = [b"inbound.1"]
    for part in parts:
        # By their lengths, so that no two different requests spell the same bytes.
        spelled += (b"-",) if part is None else (b"%d:" % len(part), part)
    return hashlib.sha256(b"".join(spelled)).digest()
