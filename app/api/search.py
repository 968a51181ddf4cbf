"""Search over HTTP: turns and messages by what a person on call knows of them, newest first, a page at a time."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, rfc3339
from app.api.arrivals import KEY
from app.api.auth import sees_messages
from app.api.calls import Api, query_of
from app.api.cursors import read_cursor, write_cursor
from app.api.fields import Fields
from app.api.status import message_fields, status_fields, turn_fields
from app.api.turns import read_number
from app.domain.ids import TURN_PREFIX, format_id, parse_id
from app.domain.lifecycle import MessageState, TurnState
from app.engine.inspect import MessageView
from app.engine.keys import Principal
from app.engine.search_messages import MessageFilter, search_messages
from app.engine.search_turns import TurnFilter, search_turns
from app.engine.standing import TurnView

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 200
PAGE: Final = ("cursor", "limit")


async def list_turns(api: Api, request: Request, principal: Principal) -> Response:
    """Turns, without their messages."""
    names = ("state", "queue", "conversation", "key", "root", "about")
    query = query_of(request, *names, *PAGE)
    fields = Fields(query)
    wanted = TurnFilter(
        states=read_states(fields, TurnState),
        queues=visible(fields.name("queue"), principal),
        conversation=fields.name("conversation", code="conversation_invalid"),
        key=_key(fields),
        root=_turn_named(fields, "root"),
        about=_turn_named(fields, "about"),
    )
    question = _question("turns", query)
    fields.check()
    limit = read_limit(query)
    before = read_cursor(query.get("cursor"), question=question, principal=principal)
    sees = sees_messages(principal)
    turns, end = await search_turns(api.core.pool, wanted, limit=limit, before=before)
    return json_answer(
        {
            "items": [_turn(turn, sees=sees) for turn in turns],
            "next_cursor": write_cursor(end, question=question, principal=principal),
        }
    )


async def list_messages(api: Api, request: Request, principal: Principal) -> Response:
    """Outbox messages, without their bodies."""
    query = query_of(request, "state", "queue", "destination", "turn", *PAGE)
    fields = Fields(query)
    wanted = MessageFilter(
        states=read_states(fields, MessageState),
        queues=visible(fields.name("queue"), principal),
        destination=fields.name("destination"),
        turn=_turn_named(fields, "turn"),
    )
    question = _question("outbox", query)
    fields.check()
    limit = read_limit(query)
    before = read_cursor(query.get("cursor"), question=question, principal=principal)
    messages, end = await search_messages(api.core.pool, wanted, limit=limit, before=before)
    return json_answer(
        {
            "items": [_message(message) for message in messages],
            "next_cursor": write_cursor(end, question=question, principal=principal),
        }
    )


def visible(queue: str | None, principal: Principal) -> list[str] | None:
    """The queues to look in; None is all. One that the key may not see holds nothing, like one that does not exist."""
    if queue is not None:
        return [queue] if principal.sees(queue) else []
    return None if principal.queues is None else sorted(principal.queues)


def read_states(fields: Fields, known: Iterable[str]) -> frozenset[str] | None:
    """Read states with commas between them."""
    text = fields.string("state")
    if text is None:
        return None
    states = frozenset(text.split(","))
    if states - set(known):
        fields.refuse("state", "state_unknown", f"known are {', '.join(known)}")
        return None
    return states


def read_limit(query: Mapping[str, str]) -> int:
    """Read how many items a page may have; raises `InvalidContent`."""
    return read_number(query, "limit", default=LIMIT_DEFAULT, least=1, most=LIMIT_MAX)


def _turn_named(fields: Fields, name: str) -> UUID | None:
    text = fields.string(name)
    turn = None if text is None else parse_id(TURN_PREFIX, text)
    if turn is None and text is not None:
        fields.refuse(name, "id_invalid")
    return turn


def _key(fields: Fields) -> str | None:
    key = fields.string("key")
    if key is not None and KEY.fullmatch(key) is None:
        fields.refuse("key", "idempotency_key_invalid")
        return None
    return key


def _question(kind: str, query: Mapping[str, str]) -> dict[str, object]:
    """What a cursor belongs to: everything but how much is shown of it."""
    return {"list": kind, **{name: text for name, text in query.items() if name not in PAGE}}


def _turn(turn: TurnView, *, sees: bool) -> dict[str, object]:
    return turn_fields(turn) | status_fields(turn, messages=sees, listed=True)


def _message(message: MessageView) -> dict[str, object]:
    delivered_at = message.delivered_at
    return message_fields(message) | {
        "turn": format_id(TURN_PREFIX, message.turn),
        "queue": message.queue,
        "conversation": message.conversation,
        "to": message.recipient,
        "content_type": message.content_type,
        "sealed_at": rfc3339(message.sealed_at),
        "delivered_at": None if delivered_at is None else rfc3339(delivered_at),
    }
