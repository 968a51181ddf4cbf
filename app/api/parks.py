"""Parks and signals over HTTP: an attempt ends to wait for an event, a person or a time, and is told of it."""

import hashlib
import json
from typing import Final, assert_never
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, rfc3339
from app.api.calls import Api, path_id
from app.api.fields import Fields
from app.api.payloads import read_payload
from app.api.problems import Refusal, queue_not_configured
from app.api.turns import lease_token, lost
from app.core import Core
from app.domain.errors import InvalidContent, Problem
from app.domain.ids import TURN_PREFIX, format_id
from app.domain.json_text import Kind, parse_envelope
from app.domain.media import reads_as_json
from app.domain.model import (
    AlreadySignalled,
    AskedOtherwise,
    LeaseLost,
    NoParkSeconds,
    NoSuchTurn,
    Parked,
    Parking,
    ParksExhausted,
    PersonNeeded,
    Signal,
    Signalled,
    TooManySignals,
    TurnEnded,
)
from app.engine.inspect import Place
from app.engine.keys import Principal
from app.engine.park import Outcome as ParkOutcome
from app.engine.park import park
from app.engine.signal import Outcome as SignalOutcome
from app.engine.signal import signal
from app.engine.wake import SWEEP, queue_topic, turn_topic

NOTE_BYTES_MAX: Final = 4000

_PARK: Final = {
    "lease_token": Kind.VALUE,
    "name": Kind.VALUE,
    "seconds": Kind.VALUE,
    "payload_hash": Kind.VALUE,
    "note": Kind.VALUE,
}
_SIGNAL: Final = {
    "payload": Kind.RAW,
    "payload_base64": Kind.VALUE,
    "content_type": Kind.VALUE,
    "payload_hash": Kind.VALUE,
    "by": Kind.VALUE,
}
# The parts of a signal's path: the last one is the name, whatever is in it.
_PARTS: Final = 6


async def park_turn(api: Api, request: Request, principal: Principal) -> Response:
    """End an attempt to wait under the same handle. It costs nothing meanwhile, the attempt included."""
    core = api.core
    turn = path_id(request, TURN_PREFIX)
    fields = Fields(parse_envelope(await api.body(request), _PARK))
    place = await api.places.find(turn, principal=principal)
    limits = core.settings.limits
    seconds: float | None = fields.seconds("seconds", seconds_max=limits.park_seconds_max)
    if fields.values.get("seconds") is None:
        queue = core.settings.queues.get(place.queue)
        seconds = None if queue is None else min(queue.park_seconds, limits.park_seconds_max)
    parking = Parking(
        turn=turn,
        token=lease_token(fields),
        name=fields.name("name", required=True) or "",
        seconds=seconds,
        payload_hash=fields.name("payload_hash"),
        note=fields.text("note", bytes_max=NOTE_BYTES_MAX),
        parks_max=limits.parks_max,
    )
    fields.check()
    (outcome,) = await park(core.pool, [parking])
    _count_park(core, place, outcome)
    match outcome:
        case Parked():
            until = None if outcome.deadline_at is None else rfc3339(outcome.deadline_at)
            # Its signal was there before; or somebody is to be told that he is asked.
            topics = [queue_topic(place.queue)] if until is None else []
            topics += [SWEEP] if parking.payload_hash is not None else []
            core.wakes.tell(turn_topic(turn), *topics)
            return _answer(place, state=outcome.state, deadline_at=until)
        case ParksExhausted():
            raise Refusal("parks_exhausted", members={"parks_max": limits.parks_max})
        case NoParkSeconds():
            # What its queue says of how long a park lasts is not known here.
            raise queue_not_configured()
        case LeaseLost() | NoSuchTurn():
            raise lost(api, outcome)
        case _:
            assert_never(outcome)


async def signal_turn(api: Api, request: Request, principal: Principal) -> Response:
    """Tell a turn something under a name. It is kept where nobody waits for it yet."""
    turn = path_id(request, TURN_PREFIX)
    name = _name(request)
    # A signal may say nothing but its name.
    sent = request.headers.get("content-length", "0") != "0"
    has_body = sent or "transfer-encoding" in request.headers
    body = (await api.body(request) if has_body else b"") or b"{}"
    fields = Fields(parse_envelope(body, _SIGNAL))
    payload = (
        read_payload(fields)
        if any(fields.values.get(name) is not None for name in ("payload", "payload_base64"))
        or fields.values.get("content_type") is not None
        else None
    )
    content_type, content = payload or (None, None)
    payload_hash = fields.name("payload_hash")
    one = Signal(
        turn=turn,
        name=name,
        content_type=content_type,
        body=content,
        strict_json=content is not None and reads_as_json(content, content_type=content_type or ""),
        payload_hash=payload_hash,
        may_decide="approve" in principal.scopes,
        sent_by=fields.name("by"),
        sent_with=principal.key_id,
        request_hash=_request_hash(content_type, content, payload_hash),
    )
    fields.check()
    place = await api.places.find(turn, principal=principal)
    (outcome,) = await signal(api.core.pool, [one])
    _count_signal(api.core, place, outcome)
    return _signalled(api, place, name, outcome)


def _signalled(api: Api, place: Place, name: str, outcome: SignalOutcome) -> Response:
    match outcome:
        case Signalled():
            if outcome.woken:
                api.core.wakes.tell(queue_topic(place.queue), turn_topic(place.turn))
            return _answer(place, name=name, state=outcome.state, duplicate=outcome.duplicate)
        case AlreadySignalled():
            members = {"turn_state": outcome.state, "by": outcome.by, "at": rfc3339(outcome.at)}
            raise Refusal("already_signalled", members=members)
        case PersonNeeded():
            raise Refusal("scope_missing", detail="A person was asked: the key may not decide.")
        case AskedOtherwise():
            members = {"payload_hash": outcome.payload_hash, "turn_state": outcome.state}
            raise Refusal("payload_changed", members=members)
        case TurnEnded():
            raise Refusal("turn_ended", members={"turn_state": outcome.state})
        case TooManySignals():
            raise Refusal("too_many_signals", members={"turn_state": outcome.state})
        case NoSuchTurn():
            raise Refusal("not_found")
        case _:
            assert_never(outcome)


def _count_park(core: Core, place: Place, outcome: ParkOutcome) -> None:
    match outcome:
        case Parked():
            woken = outcome.deadline_at is None and not outcome.repeated
            result = "repeated" if outcome.repeated else "woken" if woken else "parked"
            if woken:
                core.metrics.parks_ended.labels("signal").inc()
        case ParksExhausted():
            result = "parks_exhausted"
        case NoParkSeconds():
            result = "queue_not_configured"
        case LeaseLost() | NoSuchTurn():
            result = "lease_lost"
        case _:
            assert_never(outcome)
    core.metrics.parks.labels(core.queue_label(place.queue), result).inc()


def _count_signal(core: Core, place: Place, outcome: SignalOutcome) -> None:
    match outcome:
        case Signalled():
            result = "duplicate" if outcome.duplicate else "woken" if outcome.woken else "kept"
            if outcome.woken:
                core.metrics.parks_ended.labels("signal").inc()
        case AlreadySignalled():
            result = "already_signalled"
        case PersonNeeded():
            result = "scope_missing"
        case AskedOtherwise():
            result = "payload_changed"
        case TurnEnded() | NoSuchTurn():
            result = "turn_ended"
        case TooManySignals():
            result = "too_many_signals"
        case _:
            assert_never(outcome)
    core.metrics.signals.labels(core.queue_label(place.queue), result).inc()


def _answer(place: Place, **fields: object) -> Response:
    return json_answer({"turn": format_id(TURN_PREFIX, place.turn), **fields})


def _name(request: Request) -> str:
    """The name in the path, percent-decoded: a slash that is encoded is a part of it."""
    parts = bytes(request.scope["raw_path"]).split(b"/")
    if len(parts) != _PARTS:
        raise Refusal("not_found")
    try:
        text = unquote_to_bytes(parts[-1]).decode()
    except UnicodeDecodeError:
        raise InvalidContent(Problem("/name", "name_invalid")) from None
    fields = Fields({"name": text})
    name = fields.name("name")
    fields.check()
    return name or ""


def _request_hash(content_type: str | None, body: bytes | None, payload_hash: str | None) -> bytes:
    """The same words about the same thing are the same signal, whoever says them."""
    said = json.dumps([content_type, payload_hash]).encode()
    return hashlib.sha256(said + b"\n" + (body or b"")).digest()
