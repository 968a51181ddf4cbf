"""A small run of what waits, in which every promise is kept: a turn that parks, is held, edited and followed up."""

import json
from typing import Any
from uuid import UUID

from app.domain.ids import TURN_PREFIX, format_id
from app.domain.seal import message_hash, payload_hash, spell
from tests.history.examples import CRM, LANE, SCOPE, Run
from tests.history.log import (
    Answered,
    Given,
    Healed,
    Heard,
    Input,
    Promise,
    Received,
    Terms,
    Told,
    encode,
)
from tests.history.rows import KeptAttempt, KeptInbound, KeptKey, KeptMessage, KeptTurn
from tests.history.waiting_rows import KeptFollowUp, KeptHold, KeptSignal, KeptWait

TURN = UUID(int=1)
HELD = format_id(TURN_PREFIX, TURN)
CHILD, TEXT = "turn_child", "text/plain"
LATER = bytes(32)
REASONS = {"hold": "held", "escalation": "hold_expired"}
SIGNAL = encode(b'"paid"')
# What was drafted, and what the reviewer made of it: one stays, one is another, one is added.
DRAFTED = {"msg_1": b"dear", "msg_2": b"cheap"}
EDITED = {"msg_3": b"dear", "msg_4": b"fair", "msg_5": b"bye"}
KEYS = {"msg_1": "k1", "msg_2": "k2", "msg_3": "k1", "msg_4": "k2", "msg_5": "k5"}


def _hash(bodies: dict[str, bytes], *follow_ups: bytes) -> str:
    hashes = [
        message_hash(
            destination=CRM,
            recipient=None,
            conversation=LANE,
            headers={},
            content_type=TEXT,
            delay_seconds=0.0,
            body=body,
        )
        for body in bodies.values()
    ]
    return spell(
        payload_hash(turn=TURN, attempt=2, order=None, messages=hashes, follow_ups=follow_ups)
    )


SHOWN, NEW = _hash(DRAFTED, LATER), _hash(EDITED, LATER)


def waiting_run() -> Run:
    """One turn from its accept to its answer, over a park, a hold that escalates, and an edit."""
    run = Run()
    run.records.append(
        Terms(turn_attempts_max=1, held_queues=("q",), told_queues=("q",), slack_seconds=1.0)
    )
    _arrive(run)
    _park(run)
    _hold(run)
    _decide(run)
    _tell(run)
    run.records.append(Healed(16.0))
    return run


def _arrive(run: Run) -> None:
    run.post(1.0, "h", name="h", state="queued", duplicate=False)
    # The example's turn has an id that is one.
    run.records[-1] = type(run.records[-1])(
        **{**_fields(run.records[-1]), "inbound": "in_h", "turn": HELD}
    )
    run.keys.append(KeptKey(SCOPE, "h", "in_h", HELD))
    run.inbound.append(KeptInbound("in_h", HELD, LANE, "application/json", "body h", 1.1))
    run.turns.append(KeptTurn(HELD, "q", LANE, 1, "replied", 2, 1, 1.1, None, NEW, 2))
    run.move(1.1, "accept", None, "queued", turn=HELD)


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


def _claim(run: Run, at: float, attempt: int, *heard: Heard, ended: str) -> None:
    token = f"token {attempt}"
    given = Given(HELD, token, attempt, (Input("in_h", "body h"),), 60.0, LANE, heard)
    run.call(at, "claim", Told("", 0, 200, turns=(given,)))
    run.attempts.append(KeptAttempt(HELD, attempt, token, ended))
    run.move(at + 0.1, "claim", "queued", "processing", turn=HELD, attempt=attempt)


def _park(run: Run) -> None:
    _claim(run, 2.0, 1, ended="parked")
    held: dict[str, Any] = {"turn": HELD, "token": "token 1", "name": "payment"}
    run.call(3.0, "park", Told("", 0, 200, "parked"), **held)
    run.move(3.1, "park", "processing", "parked", turn=HELD, attempt=1)
    run.waits.append(KeptWait(HELD, 1, "payment", None, 3.1, 60.0, "signal", 4.1, 1))
    told: dict[str, Any] = {"turn": HELD, "name": "payment", "request": "paid"}
    for at in (4.0, 4.5):
        run.call(at, "signal", Told("", 0, 200), bodies_base64=(SIGNAL,), **told)
    run.call(4.7, "signal", Told("", 0, 409), **{**told, "request": "another"})
    run.signals.append(KeptSignal(HELD, "payment", SIGNAL, None, False, 4.1))
    run.move(4.1, "wake", "parked", "queued", turn=HELD)
    _claim(run, 5.0, 2, Heard(1, "payment", SIGNAL), ended="sealed")


def _hold(run: Run) -> None:
    asked: dict[str, Any] = {
        "turn": HELD,
        "token": "token 2",
        "request": "set",
        "bodies_base64": tuple(map(encode, DRAFTED.values())),
        "follow_ups": 1,
    }
    promises = tuple(Promise(id_, KEYS[id_], "held") for id_ in DRAFTED)
    told = Told("", 0, 200, "held", payload_hash=SHOWN, messages=promises, follow_ups=(CHILD,))
    run.call(6.0, "seal", told, **asked)
    run.move(6.1, "seal", "processing", "held", turn=HELD, attempt=2)
    for position, (id_, body) in enumerate(DRAFTED.items()):
        run.move(6.1, "seal", None, "held", turn=HELD, message=id_)
        _message(run, id_, body, seal=1, position=position, place=None, state="cancelled")
    run.move(8.1, "expire", "held", "escalated", turn=HELD)
    run.holds.append(
        KeptHold(
            HELD, 1, 2, SHOWN, False, "queue", "escalate", 6.1, 8.0, 1, "edit", 9.1, "ada", NEW
        )
    )


def _message(
    run: Run, id_: str, body: bytes, *, seal: int, position: int, place: int | None, state: str
) -> None:
    attempts = int(seal == 2)
    run.messages.append(
        KeptMessage(
            id_, HELD, seal, position, "q", LANE, CRM, place, False, state, KEYS[id_], encode(body),
            TEXT, attempts, attempts, 19.5, None, None,
        )
    )  # fmt: skip


def _decide(run: Run) -> None:
    asked: dict[str, Any] = {"turn": HELD, "decision": "approve", "payload_hash": SHOWN}
    asked["bodies_base64"] = tuple(map(encode, EDITED.values()))
    told = Told("", 0, 200, "sealed", decision="edit", by="ada")
    run.call(
        8.5,
        "decide",
        Told("", 0, 409, code="payload_changed"),
        **{**asked, "payload_hash": "stale"},
    )
    run.call(9.0, "decide", told, **asked)
    run.call(9.5, "decide", told, **asked)
    run.move(9.1, "edit", "escalated", "sealed", turn=HELD)
    for id_ in DRAFTED:
        run.move(9.1, "edit", "held", "cancelled", turn=HELD, message=id_)
    for position, (id_, body) in enumerate(EDITED.items()):
        run.move(9.1, "edit", None, "pending", turn=HELD, message=id_)
        _message(run, id_, body, seal=2, position=position, place=position + 1, state="delivered")
    run.follow_ups.append(
        KeptFollowUp(HELD, 2, 0, "accepted", CHILD, "in_child", "q", "follow", spell(LATER))
    )
    run.keys.append(KeptKey("follow_up:q", "follow", "in_child", CHILD))
    run.inbound.append(KeptInbound("in_child", CHILD, LANE, "application/json", "later", 9.1))
    run.turns.append(
        KeptTurn(CHILD, "q", LANE, None, "scheduled", 0, 0, 99.0, None, None, 0, root=HELD, depth=1)
    )
    run.move(9.1, "accept", None, "scheduled", turn=CHILD)
    for number, (id_, body) in enumerate(EDITED.items()):
        _deliver(run, 10.0 + number, HELD, id_, encode(body), TEXT)
    run.move(12.5, "settle", "sealed", "replied", turn=HELD)


def _deliver(run: Run, at: float, turn: str, message: str, body: str, kind: str) -> None:
    of = {"turn": turn, "message": message}
    request, key = f"request {at}", KEYS.get(message, message)
    run.move(at, "take", "pending", "sending", **of)
    run.records.append(Received(request, at + 0.1, CRM, key, body, True, key, kind))
    run.records.append(Answered(request, at + 0.2, 204))
    run.move(at + 0.3, "settle", "sending", "delivered", **of)


def _tell(run: Run) -> None:
    """Somebody was told of the hold, and again when it had expired."""
    for number, kind in enumerate(("hold", "escalation"), 1):
        turn, id_ = f"turn_told{number}", f"msg_told{number}"
        run.turns.append(
            KeptTurn(turn, "q", None, None, "replied", 0, 0, 6.2, None, "sha256:0", 1, about=HELD)
        )
        run.move(6.2 * number, "escalate", None, "sealed", turn=turn)
        run.move(6.2 * number, "escalate", None, "pending", turn=turn, message=id_)
        body = encode(
            json.dumps({"kind": kind, "reason": REASONS[kind], "payload_hash": SHOWN}).encode()
        )
        _deliver(run, 13.0 + number, turn, id_, body, "application/json")
        run.move(13.5 + number, "settle", "sealed", "replied", turn=turn)
        run.messages.append(
            KeptMessage(
                id_, turn, 1, 0, "q", None, CRM, None, False, "delivered", id_, body,
                "application/json", 1, 1, 19.5, None, None,
            )
        )  # fmt: skip
