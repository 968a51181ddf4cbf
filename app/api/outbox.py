"""Outbox messages over HTTP: what was sealed, what happened to it, and what the loopback channel received."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, payload_member, rfc3339, to_json, with_members
from app.api.calls import Api, path_id, query_of
from app.api.problems import Refusal
from app.api.status import message_fields
from app.api.turns import read_number
from app.domain.errors import InvalidContent, Problem
from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX, format_id
from app.domain.media import reads_as_json
from app.engine.inspect import EventView, find_message
from app.engine.keys import Principal
from app.engine.loopback import Received, list_received

RECEIVED_DEFAULT: Final = 20
RECEIVED_MAX: Final = 100

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# So many digits reach to the year 5138.
_CURSOR: Final = re.compile(r"([0-9]{1,17})\.([!-~]{1,255})")


async def show_message(api: Api, request: Request, principal: Principal) -> Response:
    """One message with its body, and every attempt at it."""
    detail = await find_message(api.core.pool, path_id(request, MESSAGE_PREFIX))
    if detail is None or not principal.sees(detail.message.queue):
        raise Refusal("not_found")
    message = detail.message
    delivered_at = message.delivered_at
    fields = message_fields(message) | {
        "turn": format_id(TURN_PREFIX, message.turn),
        "queue": message.queue,
        "conversation": message.conversation,
        "to": message.recipient,
        "address": dict(detail.address),
        "headers": dict(detail.headers),
        "content_type": message.content_type,
        "sealed_at": rfc3339(message.sealed_at),
        "delivered_at": None if delivered_at is None else rfc3339(delivered_at),
        "attempt_log": attempt_log(detail.events),
    }
    strict = reads_as_json(detail.body, content_type=message.content_type)
    return json_answer(with_members(fields, payload_member(detail.body, strict_json=strict)))


def attempt_log(events: Sequence[EventView]) -> list[dict[str, object]]:
    """Every attempt with how it ended, from the moves of its message; open ends are null."""
    attempts: dict[object, dict[str, object]] = {}
    for event in events:
        if event.attempt_id is None:
            continue
        entry = attempts.setdefault(
            event.attempt_id,
            {
                "attempt": event.attempt,
                "resend": event.verb == "resend",
                "started_at": None,
                "ended_at": None,
                "state": None,
                "reason": None,
                "status": None,
                "answer": None,
                "receipt": None,
            },
        )
        if event.verb == "take" or event.detail.get("step") == "begun":
            entry["started_at"] = rfc3339(event.at)
            continue
        # A resend moves nothing: what came of it stands beside.
        state = event.detail.get("outcome", event.to_state)
        entry |= {"ended_at": rfc3339(event.at), "state": state, "reason": event.reason}
        # A fact that comes late says less than the answer before it.
        entry |= {
            name: event.detail[name]
            for name in ("status", "answer", "receipt")
            if name in event.detail
        }
    return list(attempts.values())


async def list_loopback(api: Api, request: Request, principal: Principal) -> Response:
    """What the loopback channel received, newest first, a page at a time."""
    query = query_of(request, "cursor", "limit")
    limit = read_number(query, "limit", default=RECEIVED_DEFAULT, least=1, most=RECEIVED_MAX)
    received = await list_received(
        api.core.pool,
        queues=None if principal.queues is None else sorted(principal.queues),
        rows_max=limit + 1,
        after=read_cursor(query),
    )
    items: list[bytes] = []
    left = api.core.settings.limits.answer_bytes_max
    for one in received[:limit]:
        item = _received(one)
        left -= len(item)
        if items and left < 0:
            break
        items.append(item)
    more = len(received) > len(items)
    cursor = _cursor(received[len(items) - 1]) if more else None
    page = (b",".join(items), to_json(cursor))
    return json_answer(b'{"items":[%b],"next_cursor":%b}' % page)


def _cursor(last: Received) -> str:
    """Where a page ended: the time of its last message, in microseconds, and its key."""
    return f"{(last.last_at - _EPOCH) // _MICROSECOND}.{last.key}"


def read_cursor(query: Mapping[str, str]) -> tuple[datetime, str] | None:
    """Read what `next_cursor` said; raises `InvalidContent`."""
    text = query.get("cursor")
    if text is None:
        return None
    parts = _CURSOR.fullmatch(text)
    if parts is None:
        raise InvalidContent(Problem("/cursor", "wrong_type", "a next_cursor is needed"))
    return _EPOCH + int(parts[1]) * _MICROSECOND, parts[2]


def _received(one: Received) -> bytes:
    fields = {
        "idempotency_key": one.key,
        "queue": one.queue,
        "conversation": one.conversation,
        "destination": one.destination,
        "content_type": one.content_type,
        "headers": dict(one.headers),
        "first_at": rfc3339(one.first_at),
        "last_at": rfc3339(one.last_at),
        "times": one.times,
    }
    strict = reads_as_json(one.body, content_type=one.content_type)
    return with_members(fields, payload_member(one.body, strict_json=strict))
