"""One sealed set over HTTP, whole: what a person decides on, byte for byte, also once it was superseded."""

import base64
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer
from app.api.calls import Api, path_id, query_of
from app.api.problems import Refusal
from app.api.status import follow_up_fields, hold_fields, message_fields
from app.api.turns import read_number
from app.domain.ids import TURN_PREFIX, format_id
from app.domain.seal import spell
from app.engine.keys import Principal
from app.engine.sealed_set import SetFollowUp, SetMessage, find_set

SEAL_MAX: Final = 32_767


async def show_set(api: Api, request: Request, principal: Principal) -> Response:
    """What a turn sealed: the last set, or the one under a number."""
    turn = path_id(request, TURN_PREFIX)
    query = query_of(request, "seal")
    seal = read_number(query, "seal", default=0, least=1, most=SEAL_MAX) or None
    await api.places.find(turn, principal=principal)
    found = await find_set(api.core.pool, turn, seal)
    if found is None:
        raise Refusal("not_found")
    return json_answer(
        {
            "turn": format_id(TURN_PREFIX, turn),
            "queue": found.queue,
            "conversation": found.conversation,
            "turn_state": found.state,
            "seal": found.seal,
            "is_live": found.is_live,
            "payload_hash": spell(found.payload_hash),
            "order": "strict" if found.is_strict else None,
            "hold": hold_fields(found.hold, turn_state=found.state),
            "messages": [_message(one) for one in found.messages],
            "follow_ups": [_follow_up(one) for one in found.follow_ups],
        }
    )


def _message(one: SetMessage) -> dict[str, object]:
    return message_fields(one.message) | {
        "to": one.message.recipient,
        "address": dict(one.address),
        "conversation": one.message.conversation,
        "headers": dict(one.headers),
        "delay_seconds": one.delay_seconds,
        "content_type": one.message.content_type,
        "payload_base64": _spelled(one.body),
    }


def _follow_up(one: SetFollowUp) -> dict[str, object]:
    body = None if one.body is None else _spelled(one.body)
    return follow_up_fields(one.follow_up) | {
        "content_type": one.content_type,
        "payload_base64": body,
    }


def _spelled(body: bytes) -> str:
    """Base64 whatever it is: no reader of numbers may come between the bytes and the eye."""
    return base64.b64encode(body).decode()
