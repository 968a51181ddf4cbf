"""What people on call do to turns and messages: cancel, redrive, resolve, resend. Each call may be repeated."""

from typing import Final, Literal
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer
from app.api.calls import Api, path_id
from app.api.fields import Fields
from app.api.problems import Refusal
from app.domain.errors import InvalidContent, Problem
from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX, format_id
from app.domain.json_text import Kind, parse_envelope
from app.domain.lifecycle import MessageState, TurnState
from app.domain.model import Changed
from app.engine.cancel import cancel_messages, cancel_turns
from app.engine.inspect import Place, find_message_place
from app.engine.keys import Principal
from app.engine.redrive import redrive_messages, redrive_turns
from app.engine.resend import resend_messages
from app.engine.resolve import resolve_messages
from app.engine.wake import OUTBOX, RESEND, queue_topic, turn_topic

# Where something stands that an earlier redrive has set going.
_TURN_GOES: Final = frozenset(TurnState) - {
    TurnState.UNDELIVERED,
    TurnState.FAILED,
    TurnState.CANCELLED,
}
_MESSAGE_GOES: Final = frozenset(
    {MessageState.PENDING, MessageState.SENDING, MessageState.DELIVERED}
)


async def cancel_turn(api: Api, request: Request, principal: Principal) -> Response:
    """End a turn, or what it has not delivered yet."""
    place = await _turn(api, request, principal)
    (outcome,) = await cancel_turns(api.core.pool, [place.turn], by=principal.key_id)
    done = outcome is not None and outcome.state != TurnState.REPLIED
    return _turn_answer(api, place, outcome, done=done, code="not_cancellable")


async def redrive_turn(api: Api, request: Request, principal: Principal) -> Response:
    """Give a failed or undelivered turn a new allowance."""
    place = await _turn(api, request, principal)
    (outcome,) = await redrive_turns(api.core.pool, [place.turn], by=principal.key_id)
    done = outcome is not None and _redriven(outcome, goes=_TURN_GOES)
    return _turn_answer(api, place, outcome, done=done, code="not_redrivable")


async def cancel_message(api: Api, request: Request, principal: Principal) -> Response:
    """Send a message no more; one that is being sent gets no next attempt."""
    await read_nothing(api, request)
    message, place = await _message(api, request, principal)
    (outcome,) = await cancel_messages(api.core.pool, [message], by=principal.key_id)
    # A held set is decided about as a whole, or cancelled with its turn.
    kept = (MessageState.DELIVERED, MessageState.HELD)
    done = outcome is not None and outcome.state not in kept
    return _message_answer(api, message, place, outcome, done=done, code="not_cancellable")


async def redrive_message(api: Api, request: Request, principal: Principal) -> Response:
    """Give a dead or unknown message a new allowance."""
    await read_nothing(api, request)
    message, place = await _message(api, request, principal)
    (outcome,) = await redrive_messages(api.core.pool, [message], by=principal.key_id)
    done = outcome is not None and _redriven(outcome, goes=_MESSAGE_GOES)
    return _message_answer(api, message, place, outcome, done=done, code="not_redrivable")


async def resend_message(api: Api, request: Request, principal: Principal) -> Response:
    """Have a delivered message sent once more, under its old key; it stays delivered."""
    await read_nothing(api, request)
    message, place = await _message(api, request, principal)
    (outcome,) = await resend_messages(api.core.pool, [message], by=principal.key_id)
    if outcome is not None and outcome.changed:
        api.core.wakes.tell(RESEND)
    done = outcome is not None and outcome.state == MessageState.DELIVERED
    return _message_answer(api, message, place, outcome, done=done, code="not_resendable")


async def resolve_message(api: Api, request: Request, principal: Principal) -> Response:
    """Note what somebody found who looked where an unknown message went."""
    state = _read_state(await api.body(request))
    message, place = await _message(api, request, principal)
    (outcome,) = await resolve_messages(api.core.pool, [message], state=state, by=principal.key_id)
    # What somebody found is so already, whoever said it.
    done = outcome is not None and outcome.state == state
    return _message_answer(api, message, place, outcome, done=done, code="not_resolvable")


def _redriven(outcome: Changed, *, goes: frozenset[TurnState] | frozenset[MessageState]) -> bool:
    return outcome.changed or (outcome.repeated and outcome.state in goes)


def _read_state(body: bytes) -> Literal["delivered", "cancelled"]:
    fields = Fields(parse_envelope(body, {"state": Kind.VALUE}))
    state = fields.string("state", required=True)
    fields.check()
    match state:
        case "delivered" | "cancelled":
            return state
        case _:
            raise InvalidContent(Problem("/state", "state_unknown", "delivered or cancelled"))


async def read_nothing(api: Api, request: Request) -> None:
    """These calls have no parameters: an empty body is an empty object, and any field is unknown."""
    # Clients name some type for a body that they do not send: then there is nothing to have one.
    sent = request.headers.get("content-length", "0") != "0"
    if sent or "transfer-encoding" in request.headers:
        body = await api.body(request)
        if body:
            parse_envelope(body, {})


async def _turn(api: Api, request: Request, principal: Principal) -> Place:
    await read_nothing(api, request)
    return await api.places.find(path_id(request, TURN_PREFIX), principal=principal)


async def _message(api: Api, request: Request, principal: Principal) -> tuple[UUID, Place]:
    message = path_id(request, MESSAGE_PREFIX)
    place = await find_message_place(api.core.pool, message)
    if place is None or not principal.sees(place.queue):
        raise Refusal("not_found")
    return message, place


def _turn_answer(
    api: Api, place: Place, outcome: Changed | None, *, done: bool, code: str
) -> Response:
    if outcome is None:
        raise Refusal("not_found")
    if not done:
        raise Refusal(code, members={"turn_state": outcome.state})
    if outcome.changed:
        _wake(api, place)
    return json_answer({"turn": format_id(TURN_PREFIX, place.turn), "state": outcome.state})


def _message_answer(
    api: Api, message: UUID, place: Place, outcome: Changed | None, *, done: bool, code: str
) -> Response:
    if outcome is None:
        raise Refusal("not_found")
    if not done:
        raise Refusal(code, members={"message_state": outcome.state})
    if outcome.changed:
        _wake(api, place)
    return json_answer({"id": format_id(MESSAGE_PREFIX, message), "state": outcome.state})


def _wake(api: Api, place: Place) -> None:
    """Whoever waits for the lane, for something to send, or for the turn."""
    api.core.wakes.tell(queue_topic(place.queue), OUTBOX, turn_topic(place.turn))
