"""The seal over HTTP: a whole set of messages is checked and addressed, or refused with everything that is wrong."""

import hashlib
from collections.abc import Iterable
from typing import Final, Literal, assert_never

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, message_id
from app.api.calls import Api, path_id
from app.api.fields import Fields
from app.api.problems import Refusal
from app.api.sets import MESSAGE, read_set
from app.api.turns import lease_token, lost
from app.domain.ids import TURN_PREFIX, format_id
from app.domain.json_text import Items, Kind, parse_envelope
from app.domain.lifecycle import TurnState
from app.domain.model import (
    AlreadySealed,
    LeaseLost,
    NoSuchTurn,
    Sealed,
    SealRequest,
)
from app.engine.inspect import Place
from app.engine.keys import Principal
from app.engine.seal import find_seal
from app.engine.wake import OUTBOX, queue_topic, turn_topic
from app.settings import Limits
from app.telemetry import Metrics

# What a message may need around its payload: headers, names and the spelling of both.
MESSAGE_ENVELOPE_BYTES: Final = 8192

_NOT_BUILT: Final = ("hold", "follow_ups")


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
        "messages": Items(MESSAGE, limits.messages_max),
        "order": Kind.VALUE,
        **dict.fromkeys(_NOT_BUILT, Kind.VALUE),
    }
    fields = Fields(parse_envelope(body, shape))
    place = await api.places.find(turn, principal=principal)
    token = lease_token(fields)
    fields.not_built(*_NOT_BUILT)
    order = _read_order(fields)
    proposal = await read_set(api, fields, place=place)
    digest = request_hash(proposal.asked, order=order)
    sealing = SealRequest(turn, token, digest, proposal.messages, order)
    if proposal.against is None:
        outcome = await api.commits.seal(sealing)
    elif (earlier := await find_seal(core.pool, sealing)) is not None:
        # It was allowed once: whoever repeats it learns what came of it.
        outcome = earlier
    else:
        raise proposal.against
    count, queue = core.metrics.seals, core.queue_label(place.queue)
    match outcome:
        case Sealed():
            _note(core.metrics, queue, outcome)
            # The queue too: a turn that waited for the lane may be the head of it now.
            core.wakes.tell(OUTBOX, turn_topic(turn), queue_topic(place.queue))
            return _answer(place, outcome)
        case AlreadySealed():
            count.labels(queue, "already_sealed").inc()
            raise Refusal("already_sealed", members={"payload_hash": outcome.payload_hash})
        case LeaseLost() | NoSuchTurn():
            count.labels(queue, "lease_lost").inc()
            raise lost(api, outcome)
        case _:
            assert_never(outcome)


def _note(metrics: Metrics, queue: str, sealed: Sealed) -> None:
    """Count a seal and time it. An empty set has nothing to wait for: with it the turn is replied."""
    metrics.seals.labels(queue, "repeated" if sealed.repeated else "sealed").inc()
    if sealed.held_seconds is not None:
        metrics.claim_to_seal_seconds.labels(queue).observe(sealed.held_seconds)
    if sealed.age_seconds is not None and sealed.state == TurnState.REPLIED:
        metrics.accept_to_replied_seconds.labels(queue).observe(sealed.age_seconds)


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


def _read_order(fields: Fields) -> Literal["strict"] | None:
    order = fields.string("order")
    match order:
        case None | "strict":
            return order
        case _:
            fields.refuse("order", "order_unknown")
            return None


def request_hash(hashes: Iterable[bytes], *, order: str | None = None) -> bytes:
    """SHA-256 over the order and the hash of each message: the same set is the same request, however it was spelled."""
    kind = "request.1" if order is None else f"request.1 {order}"
    return hashlib.sha256(kind.encode() + b"".join(hashes)).digest()
