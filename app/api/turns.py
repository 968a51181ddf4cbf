"""Turns over HTTP: what they are, their story, and what the holder of a lease does with them short of sealing."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, assert_never
from uuid import UUID, uuid4

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, message_id, rfc3339
from app.api.auth import sees_messages
from app.api.calls import Api, path_id, query_of
from app.api.fields import Fields
from app.api.problems import Refusal
from app.api.status import status_fields, turn_fields
from app.api.waits import WAIT_PARAMETERS, read_wait, turn_when
from app.domain.errors import InvalidContent, Problem
from app.domain.ids import TURN_PREFIX, format_id
from app.domain.json_text import Kind, parse_envelope
from app.domain.model import HandBack, HandedBack, LeaseLost, NoSuchTurn, Renewal, Renewed
from app.engine.inspect import EventView, find_events, find_place
from app.engine.keys import Principal
from app.engine.release import release
from app.engine.renew import USAGE_FIELDS_MAX, renew
from app.engine.wake import queue_topic, turn_topic
from app.telemetry.metrics import count_wasted

EVENTS_DEFAULT: Final = 100
EVENTS_MAX: Final = 1000
NUMBER_MAX: Final = (1 << 63) - 1
REASON_BYTES_MAX: Final = 1000

_FIELD: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_AMOUNT: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,9})?", re.ASCII)

_RENEW: Final = {"lease_token": Kind.VALUE, "usage": Kind.VALUE}
_RELEASE: Final = {
    "lease_token": Kind.VALUE,
    "reason": Kind.VALUE,
    "delay_seconds": Kind.VALUE,
    "failed": Kind.VALUE,
    "final": Kind.VALUE,
}


async def show_turn(api: Api, request: Request, principal: Principal) -> Response:
    """One turn with its messages."""
    turn = path_id(request, TURN_PREFIX)
    wait = read_wait(query_of(request, *WAIT_PARAMETERS), limits=api.core.settings.limits)
    await api.places.find(turn, principal=principal)
    view = await turn_when(api.core, turn, wait=wait)
    if view is None:
        raise Refusal("not_found")
    return json_answer(turn_fields(view) | status_fields(view, messages=sees_messages(principal)))


async def list_events(api: Api, request: Request, principal: Principal) -> Response:
    """The story of a turn and its messages, a page at a time, in order."""
    turn = path_id(request, TURN_PREFIX)
    query = query_of(request, "cursor", "limit")
    after = read_number(query, "cursor", default=0, least=0, most=NUMBER_MAX)
    limit = read_number(query, "limit", default=EVENTS_DEFAULT, least=1, most=EVENTS_MAX)
    await api.places.find(turn, principal=principal)
    events = await find_events(api.core.pool, turn, after=after, events_max=limit + 1)
    if not events and await find_place(api.core.pool, turn) is None:
        # Its place was known from before: every turn that is there has a story.
        raise Refusal("not_found")
    page = events[:limit]
    sees = sees_messages(principal)
    shown = [event_fields(one, inside=sees) for one in page if sees or one.message is None]
    cursor = page[-1].number if len(events) > limit else None
    return json_answer({"items": shown, "next_cursor": cursor})


def event_fields(event: EventView, *, inside: bool) -> dict[str, object]:
    """One move; for whoever is not `inside`, without who made it and what he said."""
    return {
        "number": event.number,
        "at": rfc3339(event.at),
        "turn": format_id(TURN_PREFIX, event.turn),
        "message": message_id(event.message),
        "verb": event.verb,
        "from": event.from_state,
        "to": event.to_state,
        "attempt": event.attempt,
        "attempt_id": None if event.attempt_id is None else str(event.attempt_id),
        "reason": event.reason,
        "detail": dict(event.detail) if inside else {},
    }


def read_number(query: Mapping[str, str], name: str, *, default: int, least: int, most: int) -> int:
    """Read a whole number of the query; raises `InvalidContent`."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()):
        raise InvalidContent(Problem(f"/{name}", "wrong_type", "a whole number is needed"))
    # Nobody needs more digits than the largest number has.
    if len(text) > len(str(most)) or not least <= int(text) <= most:
        raise InvalidContent(Problem(f"/{name}", "out_of_range", f"{least} to {most}"))
    return int(text)


async def renew_lease(api: Api, request: Request, principal: Principal) -> Response:
    """Restore the claimed lease of whoever still holds it."""
    turn = path_id(request, TURN_PREFIX)
    fields = Fields(parse_envelope(await api.body(request), _RENEW))
    token = lease_token(fields)
    usage = read_usage(fields)
    fields.check()
    await api.places.find(turn, principal=principal)
    (outcome,) = await renew(api.core.pool, [Renewal(turn, token, usage)])
    match outcome:
        case Renewed():
            return json_answer(
                {
                    "lease_expires_in_seconds": outcome.lease_expires_in_seconds,
                    "stop": None,
                    "newer_inbound": outcome.newer_inbound,
                }
            )
        case LeaseLost() | NoSuchTurn():
            raise lost(api, outcome)
        case _:
            assert_never(outcome)


def read_usage(fields: Fields) -> dict[str, Decimal] | None:
    """What an attempt has used so far: numbers, or decimals spelled as strings."""
    given = fields.values.get("usage")
    if given is None:
        return None
    if not isinstance(given, dict) or len(given) > USAGE_FIELDS_MAX:
        fields.refuse("usage", "wrong_type", f"an object of at most {USAGE_FIELDS_MAX} fields")
        return None
    usage: dict[str, Decimal] = {}
    for name, value in given.items():
        spelled = _spelled(value)
        if not (_AMOUNT.fullmatch(spelled) and _FIELD.fullmatch(name)):
            fields.refuse("usage", "usage_invalid", "fields are words, totals are numbers from 0")
            return None
        usage[name] = Decimal(spelled)
    return usage


def _spelled(value: object) -> str:
    match value:
        case bool():
            return ""
        case int() | float():
            return f"{Decimal(repr(value)):f}"
        case str():
            return value
        case _:
            return ""


async def release_turn(api: Api, request: Request, principal: Principal) -> Response:
    """Take a turn back: free, as a failed attempt, or for good."""
    turn = path_id(request, TURN_PREFIX)
    fields = Fields(parse_envelope(await api.body(request), _RELEASE))
    token = lease_token(fields)
    reason = fields.text("reason", bytes_max=REASON_BYTES_MAX, required=True)
    limits = api.core.settings.limits
    delay = fields.seconds("delay_seconds", seconds_max=limits.delay_seconds_max)
    failed, final = fields.flag("failed"), fields.flag("final")
    fields.check()
    place = await api.places.find(turn, principal=principal)
    item = HandBack(turn, token, reason or "", delay, failed, final)
    (outcome,) = await hand_back(api, [item], queue=place.queue)
    match outcome:
        case HandedBack():
            return json_answer({"turn": format_id(TURN_PREFIX, turn), "state": outcome.state})
        case LeaseLost() | NoSuchTurn():
            raise lost(api, outcome)
        case _:
            assert_never(outcome)


async def hand_back(
    api: Api, items: Sequence[HandBack], *, queue: str
) -> Sequence[HandedBack | LeaseLost | NoSuchTurn]:
    """Release turns of one queue, and wake who waits for them."""
    core = api.core
    outcomes = await release(core.urgent, items, policies=core.turn_policies, jitter=core.jitter)
    core.wakes.tell(queue_topic(queue), *{turn_topic(item.turn) for item in items})
    for outcome in outcomes:
        if isinstance(outcome, HandedBack):
            count_wasted(core.metrics, outcome.wasted)
    return outcomes


def lease_token(fields: Fields) -> UUID:
    """Read the token. What cannot be one is held by nobody, like one that was never given."""
    text = fields.string("lease_token", required=True) or ""
    try:
        token = UUID(text)
    except ValueError:
        return uuid4()
    return token if str(token) == text else uuid4()


def lost(api: Api, outcome: LeaseLost | NoSuchTurn) -> Refusal:
    """What the holder of a token that no longer holds is told."""
    match outcome:
        case NoSuchTurn():
            return Refusal("not_found")
        case LeaseLost():
            api.core.metrics.leases_lost.labels(outcome.reason).inc()
            members = {"reason": outcome.reason, "turn_state": outcome.turn_state}
            return Refusal("lease_lost", members=members)
        case _:
            assert_never(outcome)
