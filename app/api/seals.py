"""The seal over HTTP: a whole set of messages is checked and addressed, or refused with everything that is wrong."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, Literal, assert_never

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, message_id
from app.api.calls import Api, path_id
from app.api.fields import Fields
from app.api.follow_ups import FOLLOW_UP, reach_of
from app.api.holds import HoldWish, plan_hold, read_hold
from app.api.messages import MESSAGE
from app.api.problems import Refusal
from app.api.sets import read_set
from app.api.status import hold_fields
from app.api.turns import lease_token, lost
from app.domain.ids import INBOUND_PREFIX, TURN_PREFIX, format_id
from app.domain.json_text import Items, Kind, parse_envelope
from app.domain.lifecycle import TurnState
from app.domain.model import (
    AlreadySealed,
    LeaseLost,
    NoSuchTurn,
    Sealed,
    SealedFollowUp,
    SealedMessage,
    SealRequest,
)
from app.engine.follow_ups import find_depth
from app.engine.inspect import Place
from app.engine.keys import Principal
from app.engine.sealed import find_seal
from app.engine.standing import HeldSeal
from app.engine.wake import OUTBOX, SWEEP, queue_topic, turn_topic
from app.settings import Limits
from app.telemetry.metrics import Metrics

# What a message may need around its payload: headers, names and the spelling of both.
MESSAGE_ENVELOPE_BYTES: Final = 8192


def body_bytes_max(limits: Limits) -> int:
    """How long the body of a seal may be: a whole set in base64, with its envelopes."""
    envelopes = (limits.messages_max + limits.follow_ups_max) * MESSAGE_ENVELOPE_BYTES
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
        "follow_ups": Items(FOLLOW_UP, limits.follow_ups_max),
        "hold": Kind.VALUE,
    }
    fields = Fields(parse_envelope(body, shape))
    place = await api.places.find(turn, principal=principal)
    token = lease_token(fields)
    order = _read_order(fields)
    wish = read_hold(fields, limits=limits)
    depth = await find_depth(core.pool, turn) if fields.values.get("follow_ups") else None
    reach = reach_of(core.settings, place, principal=principal, depth=depth)
    proposed = await read_set(api, fields, reach=reach)
    digest = request_hash(
        proposed.asked,
        order=order,
        follow_ups=[one.hash for one in proposed.follow_ups],
        hold=wish,
    )
    policy = core.settings.queues.get(place.queue)
    plan = None if policy is None else plan_hold(wish, policy, proposed.routes, limits=limits)
    sealing = SealRequest(turn, token, digest, proposed.messages, order, proposed.follow_ups, plan)
    if proposed.against is None:
        outcome = await api.commits.seal(sealing)
    elif (earlier := await find_seal(core.pool, sealing)) is not None:
        # It was allowed once: whoever repeats it learns what came of it.
        outcome = earlier
    else:
        raise proposed.against
    count, queue = core.metrics.seals, core.queue_label(place.queue)
    match outcome:
        case Sealed():
            _note(core.metrics, queue, outcome)
            core.wakes.tell(turn_topic(turn))
            if outcome.messages:
                core.wakes.tell(OUTBOX)
            if outcome.promotes or outcome.follow_ups:
                # A turn that waited for the lane is the head of it now, or one has come to be.
                core.wakes.tell(queue_topic(place.queue))
            if outcome.hold is not None or outcome.follow_ups:
                # Somebody is to be told, or something follows at once.
                core.wakes.tell(SWEEP)
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
    if not sealed.repeated:
        if sealed.hold is not None:
            metrics.holds.labels(queue, sealed.hold.demanded_by).inc()
        count_follow_ups(metrics, queue, sealed.follow_ups)


def count_follow_ups(metrics: Metrics, queue: str, follow_ups: Sequence[SealedFollowUp]) -> None:
    """Count what was asked for later, by what became of it."""
    for one in follow_ups:
        was = "duplicate" if one.duplicate else "held" if one.state == "held" else "accepted"
        metrics.follow_ups.labels(queue, was).inc()


def _answer(place: Place, sealed: Sealed) -> Response:
    held = None if sealed.hold is None else HeldSeal(sealed.seal, sealed.hold)
    return json_answer(
        {
            "turn": format_id(TURN_PREFIX, place.turn),
            "state": sealed.state,
            "payload_hash": sealed.payload_hash,
            **set_fields(sealed.messages, sealed.follow_ups),
            "hold": hold_fields(held, turn_state=sealed.state),
        }
    )


def set_fields(
    messages: Sequence[SealedMessage], follow_ups: Sequence[SealedFollowUp]
) -> dict[str, object]:
    """What a set consists of, as its seal and its decision are answered."""
    return {
        "messages": [
            {"id": message_id(one.id), "idempotency_key": one.key, "state": one.state}
            for one in messages
        ],
        "follow_ups": [
            {
                "turn": format_id(TURN_PREFIX, one.turn),
                "inbound": format_id(INBOUND_PREFIX, one.inbound),
                "state": one.state,
                "queue": one.queue,
                "key": one.key,
                "duplicate": one.duplicate,
            }
            for one in follow_ups
        ],
    }


def _read_order(fields: Fields) -> Literal["strict"] | None:
    order = fields.string("order")
    match order:
        case None | "strict":
            return order
        case _:
            fields.refuse("order", "order_unknown")
            return None


def request_hash(
    hashes: Iterable[bytes],
    *,
    order: str | None = None,
    follow_ups: Sequence[bytes] = (),
    hold: HoldWish | None = None,
) -> bytes:
    """SHA-256 over the order, the hash of each message and follow-up, and the hold that is asked for.

    The same set is the same request, however it was spelled.
    """
    kind = "request.1" if order is None else f"request.1 {order}"
    digest = hashlib.sha256(kind.encode() + b"".join(hashes))
    if follow_ups:
        # No hash is as long as these words: what stands behind them is no message.
        digest.update(b" follow_ups" + b"".join(follow_ups))
    if hold is not None:
        digest.update(b" hold" + hold.spelled)
    return digest.digest()
