"""Inbound over HTTP: accept one, and give it back byte for byte."""

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, payload_member, reads_as_json, rfc3339, with_members
from app.api.auth import sees_messages
from app.api.calls import Api, path_id, query_of
from app.api.fields import Fields, duration, moment
from app.api.payloads import read_payload
from app.api.problems import Refusal
from app.api.turns import status_fields
from app.api.waits import WAIT_PARAMETERS, read_wait, turn_when
from app.domain.errors import InvalidContent, Problem
from app.domain.ids import INBOUND_PREFIX, TURN_PREFIX, format_id
from app.domain.json_text import AsSent, Kind, is_strict_json, parse_envelope
from app.domain.model import API_SOURCE, Accepted, Arrival, ClaimedInbound, Joining
from app.engine.accept import recall
from app.engine.inspect import find_inbound, find_inbound_place
from app.engine.keys import Principal
from app.engine.wake import queue_topic

PRIORITY_MAX: Final = 100
JOINED_MAX: Final = 100
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


async def accept_inbound(api: Api, request: Request, principal: Principal) -> Response:
    """Take one inbound. What is answered with 2xx is committed."""
    key = idempotency_key(request)
    body = await api.body(request)
    arrival = read_arrival(api, parse_envelope(body, SHAPE), key=key, principal=principal)
    accepted = await _admitted(api, arrival)
    note_accepted(api, arrival, accepted)
    status, fields = accepted_answer(accepted)
    headers = {"Location": f"/v1/inbound/{fields['id']}"}
    if accepted.duplicate:
        headers["Idempotency-Replayed"] = "true"
    return json_answer(fields, status=status, headers=headers)


async def _admitted(api: Api, arrival: Arrival) -> Accepted:
    """What is new needs room in its queue; what is known is answered in any case: no provider is to retry for ever."""
    admitted = await api.admission.admit(arrival.queue)
    if admitted.refusal is not None:
        (known,) = await recall(api.core.pool, [arrival])
        if known is None:
            api.core.metrics.accepts.labels(arrival.queue, admitted.refusal.code).inc()
            raise admitted.refusal
        return known
    # What fails without an answer may have been committed.
    new = admitted.count
    try:
        accepted = await api.commits.accept(arrival)
        new = int(not accepted.duplicate)
        return accepted
    finally:
        api.admission.settle(admitted, new=new)


def note_accepted(api: Api, arrival: Arrival, accepted: Accepted) -> None:
    """Count what was accepted, and tell who waits for it."""
    if not accepted.duplicate:
        api.core.wakes.tell(queue_topic(arrival.queue))
    result = "new" if not accepted.duplicate else "duplicate" if accepted.same_body else "reused"
    api.core.metrics.accepts.labels(arrival.queue, result).inc()


def accepted_answer(accepted: Accepted) -> tuple[int, dict[str, object]]:
    """Status and fields of what was accepted; raises `Refusal` where its key stands for another body."""
    inbound = format_id(INBOUND_PREFIX, accepted.inbound)
    turn = format_id(TURN_PREFIX, accepted.turn)
    if not accepted.same_body:
        raise Refusal("idempotency_key_reused", members={"id": inbound, "turn": turn})
    fields = {
        "id": inbound,
        "turn": turn,
        "state": accepted.state,
        "duplicate": accepted.duplicate,
        "key_expires_at": rfc3339(accepted.key_expires_at),
    }
    return 200 if accepted.duplicate else 202, fields


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
        joining=_joining(api, queue),
    )


def _joining(api: Api, queue: str) -> Joining | None:
    settings = api.core.settings
    policy = settings.queues[queue]
    if policy.coalesce_quiet_seconds is None:
        return None
    return Joining(
        quiet_seconds=policy.coalesce_quiet_seconds,
        seconds_max=policy.longest_coalesce_seconds,
        inbound_max=JOINED_MAX,
        # Joined turns fit into the answer of one claim.
        bytes_max=settings.limits.answer_bytes_max,
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
    digest = hashlib.sha256(b"inbound.1")
    for part in parts:
        # By their lengths, so that no two different requests spell the same bytes.
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    return digest.digest()


async def show_inbound(api: Api, request: Request, principal: Principal) -> Response:
    """One inbound with what became of it."""
    inbound = path_id(request, INBOUND_PREFIX)
    wait = read_wait(query_of(request, *WAIT_PARAMETERS), limits=api.core.settings.limits)
    place = await find_inbound_place(api.core.pool, inbound)
    if place is None or not principal.sees(place.queue):
        raise Refusal("not_found")
    turn = await turn_when(api.core, place.turn, wait=wait)
    # Read only now: no body is held while somebody waits.
    view = await find_inbound(api.core.pool, inbound)
    if turn is None or view is None:
        raise Refusal("not_found")
    status = status_fields(turn, messages=sees_messages(principal))
    fields, raw = inbound_members(view.content)
    fields |= {"turn": format_id(TURN_PREFIX, view.turn)}
    return json_answer(with_members(fields | status, *raw))


async def show_payload(api: Api, request: Request, principal: Principal) -> Response:
    """The bytes of one inbound, to keep and not to show."""
    view = await find_inbound(api.core.pool, path_id(request, INBOUND_PREFIX))
    if view is None or not principal.sees(view.queue):
        raise Refusal("not_found")
    headers = {
        "Content-Type": view.content.content_type,
        "Content-Disposition": f'attachment; filename="{request.path_params["id"]}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(view.content.body or b"", headers=headers)


def inbound_members(
    inbound: ClaimedInbound,
) -> tuple[dict[str, object], tuple[tuple[str, bytes], ...]]:
    """Spell one inbound: plain fields, and members that stand as JSON already."""
    name = format_id(INBOUND_PREFIX, inbound.id)
    fields: dict[str, object] = {
        "id": name,
        "source": inbound.source,
        "received_at": rfc3339(inbound.received_at),
        "content_type": inbound.content_type,
        "headers": dict(inbound.headers),
    }
    metadata = ("metadata", (inbound.metadata or "null").encode())
    if inbound.body is None:
        fields["payload_url"] = f"/v1/inbound/{name}/payload"
        return fields, (metadata,)
    return fields, (metadata, payload_member(inbound.body, strict_json=inbound.strict_json))
