"""The seal over HTTP: a whole set of messages is checked and addressed, or refused with everything that is wrong."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, assert_never, cast

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, message_id
from app.api.calls import Api, path_id
from app.api.fields import Fields
from app.api.payloads import read_payload
from app.api.problems import Refusal
from app.api.turns import lease_token, lost
from app.channels import Draft
from app.core import Route
from app.domain.errors import InvalidContent, Problem
from app.domain.ids import TURN_PREFIX, format_id
from app.domain.json_text import Items, Kind, parse_envelope
from app.domain.model import (
    AlreadySealed,
    DraftMessage,
    LeaseLost,
    NoSuchTurn,
    Sealed,
    SealRequest,
)
from app.domain.seal import message_hash
from app.engine.inspect import Place
from app.engine.keys import Principal
from app.engine.seal import seal
from app.engine.wake import OUTBOX, queue_topic, turn_topic
from app.settings import Limits, Queue

# What a message may need around its payload: headers, names and the spelling of both.
MESSAGE_ENVELOPE_BYTES: Final = 8192
RECIPIENT_BYTES_MAX: Final = 1000

_NOT_BUILT: Final = ("hold", "follow_ups", "order")
_MESSAGE: Final = {
    "destination": Kind.VALUE,
    "to": Kind.VALUE,
    "payload": Kind.RAW,
    "payload_base64": Kind.VALUE,
    "content_type": Kind.VALUE,
    "headers": Kind.VALUE,
    "delay_seconds": Kind.VALUE,
    "conversation": Kind.VALUE,
}


def body_bytes_max(limits: Limits) -> int:
    """How long the body of a seal may be: a whole set in base64, with its envelopes."""
    envelopes = limits.messages_max * MESSAGE_ENVELOPE_BYTES
    return max(limits.body_bytes_max, limits.set_bytes_max * 4 // 3 + envelopes)


async def seal_turn(api: Api, request: Request, principal: Principal) -> Response:
    """End an attempt with its whole outbound set, or with nothing changed."""
    core = api.core
    turn = path_id(request, TURN_PREFIX)
    limits = core.settings.limits
    body = await api.body(request, bytes_max=body_bytes_max(limits))
    shape: dict[str, Kind | Items] = {
        "lease_token": Kind.VALUE,
        "messages": Items(_MESSAGE, limits.messages_max),
        **dict.fromkeys(_NOT_BUILT, Kind.VALUE),
    }
    fields = Fields(parse_envelope(body, shape))
    place = await api.places.find(turn, principal=principal)
    token = lease_token(fields)
    fields.not_built(*_NOT_BUILT)
    messages = read_set(api, fields, place=place)
    sealing = SealRequest(turn, token, request_hash(one.hash for one in messages), messages)
    (outcome,) = await seal(core.pool, [sealing], ids=core.ids)
    count = core.metrics.seals
    match outcome:
        case Sealed():
            count.labels(place.queue, "repeated" if outcome.repeated else "sealed").inc()
            # The queue too: a turn that waited for the lane may be the head of it now.
            core.wakes.tell(OUTBOX, turn_topic(turn), queue_topic(place.queue))
            return _answer(place, outcome)
        case AlreadySealed():
            count.labels(place.queue, "already_sealed").inc()
            raise Refusal("already_sealed", members={"payload_hash": outcome.payload_hash})
        case LeaseLost() | NoSuchTurn():
            count.labels(place.queue, "lease_lost").inc()
            raise lost(api, outcome)
        case _:
            assert_never(outcome)


def _answer(place: Place, sealed: Sealed) -> Response:
    return json_answer(
        {
            "turn": format_id(TURN_PREFIX, place.turn),
            "state": sealed.state,
            "payload_hash": sealed.payload_hash,
            "messages": [
                {"id": message_id(one.id), "idempotency_key": one.key, "state": one.state}
                for one in sealed.messages
            ],
            "follow_ups": [],
        }
    )


def request_hash(hashes: Iterable[bytes]) -> bytes:
    """SHA-256 over the hash of each message: the same set is the same request, however it was spelled."""
    return hashlib.sha256(b"request.1" + b"".join(hashes)).digest()


def read_set(api: Api, fields: Fields, *, place: Place) -> list[DraftMessage]:
    """Check every message of a set; raises `InvalidContent` with everything that is wrong."""
    core = api.core
    queue = core.settings.queues.get(place.queue)
    if queue is None:
        # Another replica may know it. What it allows is not for this one to guess.
        raise Refusal("queue_not_configured", headers={"Retry-After": "5"})
    given = fields.values.get("messages")
    if given is None:
        fields.refuse("messages", "required")
        given = []
    routes = {
        name: route
        for name, route in core.routes.items()
        if queue.destinations is None or name in queue.destinations
    }
    items = cast("Sequence[dict[str, object]]", given)
    drafts = [
        _read_message(
            Fields(item, pointer=f"/messages/{n}", problems=fields.problems),
            queue=queue,
            place=place,
            routes=routes,
            limits=core.settings.limits,
        )
        for n, item in enumerate(items)
    ]
    messages = [draft for draft in drafts if draft is not None]
    set_bytes_max = core.settings.limits.set_bytes_max
    if sum(len(message.body) for message in messages) > set_bytes_max:
        fields.refuse("messages", "set_too_large", f"at most {set_bytes_max} bytes")
    fields.check()
    return messages


def _read_message(
    fields: Fields, *, queue: Queue, place: Place, routes: dict[str, Route], limits: Limits
) -> DraftMessage | None:
    route = _destination(fields, routes)
    recipient = fields.text("to", bytes_max=RECIPIENT_BYTES_MAX)
    payload = read_payload(fields)
    headers = _headers(fields)
    delay = fields.seconds("delay_seconds", seconds_max=limits.delay_seconds_max)
    conversation = fields.name("conversation", code="conversation_invalid")
    if conversation not in (None, place.conversation) and queue.conversations != "any":
        fields.refuse("conversation", "conversation_not_allowed")
    if route is None or payload is None:
        return None
    content_type, body = payload
    allowed = route.settings.to_allow
    if recipient is not None and recipient not in allowed and "*" not in allowed:
        fields.refuse("to", "to_not_allowed")
    for name in headers:
        if name.lower() not in route.settings.headers_allow:
            fields.refuse(f"headers/{_escaped(name)}", "header_not_allowed")
    draft = Draft(
        destination=route.name,
        recipient=recipient,
        headers=headers,
        content_type=content_type,
        body=body,
    )
    _ask_channel(fields, route, draft)
    if conversation is None:
        conversation = place.conversation
    return DraftMessage(
        destination=route.name,
        recipient=recipient,
        conversation=conversation,
        headers=headers,
        content_type=content_type,
        body=body,
        delay_seconds=delay,
        hash=b""
        if fields.problems
        else message_hash(
            destination=route.name,
            recipient=recipient,
            conversation=conversation,
            headers=headers,
            content_type=content_type,
            delay_seconds=delay,
            body=body,
        ),
    )


def _destination(fields: Fields, routes: dict[str, Route]) -> Route | None:
    if fields.values.get("destination") is None:
        fields.refuse("destination", "destination_missing")
        return None
    name = fields.string("destination")
    if name is None:
        return None
    route = routes.get(name)
    if route is None:
        fields.refuse("destination", "destination_unknown")
    return route


def _headers(fields: Fields) -> dict[str, str]:
    value = fields.values.get("headers")
    if value is None:
        return {}
    if not isinstance(value, dict):
        fields.refuse("headers", "wrong_type", "an object of strings is needed")
        return {}
    headers: dict[str, str] = {}
    for name, text in value.items():
        if isinstance(text, str):
            headers[name] = text
        else:
            fields.refuse(f"headers/{_escaped(name)}", "wrong_type", "a string is needed")
    return headers


def _ask_channel(fields: Fields, route: Route, draft: Draft) -> None:
    known = {(one.pointer, one.code) for one in fields.problems}
    try:
        route.check(draft)
    except InvalidContent as invalid:
        for one in invalid.problems:
            there = Problem(f"{fields.pointer}{_shown(one.pointer)}", one.code, one.detail)
            if (there.pointer, there.code) not in known:
                fields.refuse(_shown(one.pointer).removeprefix("/"), one.code, one.detail)


def _escaped(name: str) -> str:
    return _shown(name[:255]).replace("~", "~0").replace("/", "~1")


def _shown(text: str) -> str:
    """A name may hold half a surrogate pair, which no answer should."""
    return text.encode("utf-8", "replace").decode()
