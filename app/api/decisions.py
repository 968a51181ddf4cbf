"""Decisions over HTTP: what a person says about a held set, bound to the hash of what he saw.

Only a key that may approve decides, and no agent has one. The first decision stays: the same again is answered with it.
"""

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import Final, assert_never, cast

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer, rfc3339
from app.api.calls import Api, path_id
from app.api.fields import Fields
from app.api.follow_ups import reach_of
from app.api.messages import MESSAGE
from app.api.problems import Refusal, queue_not_configured
from app.api.seals import body_bytes_max, count_follow_ups, set_fields
from app.api.sets import read_set
from app.domain.errors import InvalidContent, Problem, SinksweepError
from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX, format_id, parse_id
from app.domain.json_text import Items, Kind, parse_envelope
from app.domain.model import (
    SYSTEM,
    AlreadyDecided,
    Choice,
    Decided,
    Decision,
    EditedMessage,
    Hold,
    NoSuchTurn,
    NotAllowed,
    NotHeld,
    NotIntact,
    PayloadChanged,
    RevisionsExhausted,
    UnknownMessage,
)
from app.engine.decide import Outcome, decide
from app.engine.inspect import Place
from app.engine.keys import Principal
from app.engine.wake import OUTBOX, SWEEP, queue_topic, turn_topic

COMMENT_BYTES_MAX: Final = 4000
HASH_BYTES_MAX: Final = 255

_EDITED: Final = {**MESSAGE, "id": Kind.VALUE}


async def decide_turn(api: Api, request: Request, principal: Principal) -> Response:
    """Approve what a turn has sealed, change it, reject it, or send it back."""
    core = api.core
    turn = path_id(request, TURN_PREFIX)
    limits = core.settings.limits
    body = await api.body(request, bytes_max=body_bytes_max(limits))
    shape: dict[str, Kind | Items] = {
        **dict.fromkeys(("decision", "payload_hash", "by", "comment"), Kind.VALUE),
        "messages": Items(_EDITED, limits.messages_max),
    }
    fields = Fields(parse_envelope(body, shape))
    place = await api.places.find(turn, principal=principal)
    name = _name(fields)
    payload_hash = fields.text("payload_hash", bytes_max=HASH_BYTES_MAX, required=True)
    by = _by(fields)
    comment = fields.text("comment", bytes_max=COMMENT_BYTES_MAX)
    edited, against = await _edit(api, fields, place, principal)
    fields.check()
    if name == "revise" and place.queue not in core.turn_policies:
        # How often it may be sent back is not known here.
        against = queue_not_configured()
    decision = Decision(
        turn=turn,
        decision=name or "reject",
        payload_hash=payload_hash or "",
        by=by or "",
        key=principal.key_id,
        request_hash=request_hash(name or "", edited),
        comment=comment,
        messages=edited,
        allowed=against is None,
    )
    (outcome,) = await decide(
        core.pool,
        [decision],
        policies=core.turn_policies,
        ids=core.ids,
        key_seconds=core.settings.keys.idempotency_seconds,
    )
    return _answer(api, place, outcome, against)


def request_hash(name: str, edited: Sequence[EditedMessage] | None) -> bytes:
    """SHA-256 over the decision and its messages: the same words with another comment are the same decision."""
    digest = hashlib.sha256(b"decision.1 " + name.encode())
    if edited is not None:
        digest.update(b" messages")
        for one in edited:
            digest.update(one.asked or one.draft.hash)
            digest.update(b"-" if one.replaces is None else one.replaces.bytes)
    return digest.digest()


def _name(fields: Fields) -> Choice | None:
    name = fields.string("decision", required=True)
    match name:
        case None | "approve" | "reject" | "revise":
            return name
        case _:
            fields.refuse("decision", "decision_unknown")
            return None


def _by(fields: Fields) -> str | None:
    by = fields.name("by", required=True)
    if by is not None and _reads_as(by) == SYSTEM:
        fields.refuse("by", "name_invalid", "what nobody decided is recorded under this name")
    return by


def _reads_as(name: str) -> str:
    """What somebody who reads this name takes it for: without width, case, and what is not seen."""
    seen = unicodedata.normalize("NFKC", name).casefold()
    return "".join(one for one in seen if one.isprintable() and not one.isspace())


async def _edit(
    api: Api, fields: Fields, place: Place, principal: Principal
) -> tuple[list[EditedMessage] | None, SinksweepError | None]:
    """What the reviewer wants sent instead, checked like the messages of a seal, and what is against it."""
    given = fields.values.get("messages")
    if given is None:
        return None, None
    if fields.values.get("decision") not in (None, "approve"):
        fields.refuse("messages", "messages_not_allowed")
    items = cast("Sequence[dict[str, object]]", given)
    replaced = [
        Fields(item, pointer=f"/messages/{n}", problems=fields.problems).string("id")
        for n, item in enumerate(items)
    ]
    ids = [None if text is None else parse_id(MESSAGE_PREFIX, text) for text in replaced]
    for n, (text, id_) in enumerate(zip(replaced, ids, strict=True)):
        if text is not None and id_ is None:
            fields.refuse(f"messages/{n}/id", "id_invalid")
    reach = reach_of(api.core.settings, place, principal=principal)
    proposed = await read_set(api, fields, reach=reach)
    edited = [
        EditedMessage(draft, id_, asked)
        for draft, id_, asked in zip(proposed.messages, ids, proposed.asked, strict=True)
    ]
    return edited, proposed.against


def _answer(api: Api, place: Place, outcome: Outcome, against: SinksweepError | None) -> Response:
    core = api.core
    results = core.metrics.decisions
    queue = core.queue_label(place.queue)
    if isinstance(outcome, Decided | AlreadyDecided | NotIntact):
        # Something may leave, follow, or be told, and the lane may have another head; by this call or its deadline.
        core.wakes.tell(OUTBOX, SWEEP, queue_topic(place.queue), turn_topic(place.turn))
    if isinstance(outcome, Decided):
        said = outcome.hold.decision or ""
        results.labels(queue, "repeated" if outcome.repeated else said).inc()
        if not outcome.repeated:
            count_follow_ups(core.metrics, queue, outcome.follow_ups)
        return _decided(place, outcome)
    refusal = _refusal(outcome, against)
    code = refusal.code if isinstance(refusal, Refusal) else "invalid_content"
    results.labels(queue, code).inc()
    raise refusal


def _decided(place: Place, outcome: Decided) -> Response:
    return json_answer(
        {
            "turn": format_id(TURN_PREFIX, place.turn),
            "state": outcome.state,
            **_said(outcome.hold),
            **set_fields(outcome.messages, outcome.follow_ups),
        }
    )


def _said(hold: Hold) -> dict[str, object]:
    """What was decided first."""
    return {
        "decision": hold.decision,
        "payload_hash": hold.payload_hash,
        "new_hash": hold.new_hash,
        "by": hold.decided_by,
        "at": None if hold.decided_at is None else rfc3339(hold.decided_at),
        "comment": hold.comment,
    }


def _refusal(
    outcome: AlreadyDecided
    | PayloadChanged
    | NotHeld
    | RevisionsExhausted
    | NotIntact
    | UnknownMessage
    | NotAllowed
    | NoSuchTurn,
    against: SinksweepError | None,
) -> SinksweepError:
    match outcome:
        case AlreadyDecided():
            members = {"turn_state": outcome.state, **_said(outcome.hold)}
            return Refusal("already_decided", members=members)
        case PayloadChanged():
            members = {"payload_hash": outcome.payload_hash, "turn_state": outcome.state}
            return Refusal("payload_changed", members=members)
        case NotHeld():
            return Refusal("not_held", members={"turn_state": outcome.state})
        case RevisionsExhausted():
            members = {"revisions_max": outcome.revisions_max, "turn_state": outcome.state}
            return Refusal("revisions_exhausted", members=members)
        case NotIntact():
            return Refusal("integrity", members={"turn_state": outcome.state})
        case UnknownMessage():
            pointer = f"/messages/{outcome.position}/id"
            return InvalidContent(Problem(pointer, "message_unknown"))
        case NotAllowed():
            return against or queue_not_configured()
        case NoSuchTurn():
            return Refusal("not_found")
        case _:
            assert_never(outcome)
