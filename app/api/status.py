"""How a turn stands, for whoever may know: its state, what it waits for, what it said and what is to follow."""

from datetime import MAXYEAR
from uuid import UUID

from app.api.answers import message_id, rfc3339
from app.domain.ids import INBOUND_PREFIX, TURN_PREFIX, format_id
from app.domain.lifecycle import MessageState, TurnState
from app.domain.model import FollowUpView, WaitView
from app.domain.seal import spell
from app.engine.inspect import MessageView
from app.engine.standing import HeldSeal, TurnView


def turn_fields(turn: TurnView) -> dict[str, object]:
    """Which turn it is."""
    inbound = None if turn.inbound is None else format_id(INBOUND_PREFIX, turn.inbound)
    return {"id": format_id(TURN_PREFIX, turn.id), "inbound": inbound}


def status_fields(turn: TurnView, *, messages: bool, listed: bool = False) -> dict[str, object]:
    """How a turn stands. Without `messages` not a word of those who write and decide them; `listed` among others."""
    fields: dict[str, object] = {
        "queue": turn.queue,
        "conversation": turn.conversation,
        "state": turn.state,
        "reason": turn.reason,
        "attempt": turn.attempt,
        "created_at": rfc3339(turn.created_at),
        "due_at": _due(turn),
        "hold": hold_fields(turn.hold, turn_state=turn.state, words=messages),
        "wait": _wait(turn.wait, words=messages),
        "payload_hash": None if turn.payload_hash is None else spell(turn.payload_hash),
        "about": _turn_id(turn.about),
        "root": _turn_id(turn.root),
        "depth": turn.depth,
    }
    if messages and not listed:
        fields["messages"] = [message_fields(message) for message in turn.messages]
        fields["follow_ups"] = [follow_up_fields(one) for one in turn.follow_ups]
        fields["seals"] = _seals(turn)
    return fields


def hold_fields(
    held: HeldSeal | None, *, turn_state: str, words: bool = True
) -> dict[str, object] | None:
    """A hold and what was decided about it. Without `words` nothing that an agent or a reviewer wrote."""
    if held is None:
        return None
    hold = held.hold
    live = "escalated" if turn_state == TurnState.ESCALATED else "open"
    return {
        "seal": held.seal,
        "state": live if hold.decision is None else "decided",
        "payload_hash": hold.payload_hash,
        "demanded_by": hold.demanded_by,
        "note": hold.note if words else None,
        "on_deadline": hold.on_deadline,
        "held_at": rfc3339(hold.held_at),
        "deadline_at": rfc3339(hold.deadline_at),
        "reminders": hold.reminders,
        "decision": hold.decision,
        "decided_at": None if hold.decided_at is None else rfc3339(hold.decided_at),
        "decided_by": hold.decided_by if words else None,
        "comment": hold.comment if words else None,
        "new_hash": hold.new_hash,
    }


def _due(turn: TurnView) -> str | None:
    """When a turn may run that does not yet; None for one that no clock keeps."""
    waits_for_a_time = turn.state in (TurnState.SCHEDULED, TurnState.QUEUED)
    # A paused source holds it up for no time: the driver spells that as the last of all years.
    return rfc3339(turn.due_at) if waits_for_a_time and turn.due_at.year < MAXYEAR else None


def _wait(wait: WaitView | None, *, words: bool) -> dict[str, object] | None:
    if wait is None:
        return None
    return {
        "name": wait.name,
        "note": wait.note if words else None,
        "payload_hash": wait.payload_hash,
        "asked_at": rfc3339(wait.asked_at),
        "deadline_at": rfc3339(wait.deadline_at),
    }


def follow_up_fields(one: FollowUpView) -> dict[str, object]:
    """What a seal committed for later."""
    return {
        "turn": format_id(TURN_PREFIX, one.turn),
        "inbound": format_id(INBOUND_PREFIX, one.inbound),
        "queue": one.queue,
        "conversation": one.conversation,
        "state": one.state,
        "key": one.key,
        "delay_seconds": one.delay_seconds,
        "not_before": None if one.not_before is None else rfc3339(one.not_before),
        "due_at": None if one.due_at is None else rfc3339(one.due_at),
    }


def _seals(turn: TurnView) -> list[dict[str, object]]:
    """The numbers under which sets of the turn can be read, and which of them is live."""
    hashes = {held.seal: held.hold.payload_hash for held in turn.seals}
    live = None
    if turn.payload_hash is not None:
        live = turn.seal
        hashes[live] = spell(turn.payload_hash)
    return [
        {"seal": seal, "payload_hash": hashes[seal], "is_live": seal == live}
        for seal in sorted(hashes)
    ]


def _turn_id(turn: UUID | None) -> str | None:
    return None if turn is None else format_id(TURN_PREFIX, turn)


def message_fields(message: MessageView) -> dict[str, object]:
    """How a message stands. Its next attempt has a time once nothing else has to end before."""
    moves = message.state == MessageState.PENDING and message.blocked_by is None
    return {
        "id": message_id(message.id),
        "destination": message.destination,
        "state": message.state,
        "attempts": message.attempts,
        "next_attempt_at": rfc3339(message.due_at) if moves else None,
        "blocked_by": message_id(message.blocked_by),
        "idempotency_key": message.key,
        "receipt": message.receipt,
        "reason": message.reason,
    }
