"""What must be true of holds: nothing leaves before its decision, and then what was decided about, once, for good."""

import base64
import json
from collections import defaultdict
from collections.abc import Iterator

from app.domain.ids import TURN_PREFIX, parse_id
from app.domain.seal import message_hash, payload_hash, spell
from tests.history.history import CLOCK_SECONDS_MAX, Call, History
from tests.history.rows import Event, KeptMessage
from tests.history.waiting_rows import KeptFollowUp, KeptHold

# By these a held set is let go, itself or in what an edit made of it.
LETS_GO = frozenset({"approve", "edit", "send"})
# The move of each decision; the deadline's own are made by `expire`.
_MOVES = {name: name for name in ("approve", "edit", "reject", "revise", "cancel")}
_WAITS = ("held", "escalated")


def moves_of(history: History, hold: KeptHold) -> list[Event]:
    """The moves that ended a hold: of its turn, from its seal to the next one."""
    found: list[Event] = []
    made = 0
    for event in history.turn_events.get(hold.turn, ()):
        if made == hold.seal and event.from_state in _WAITS:
            found.append(event)
        made += event.verb in ("seal", "edit", "escalate")
    return [event for event in found if event.to_state != "escalated"]


def nothing_leaves_before_its_decision(history: History) -> Iterator[str]:
    """Nothing of a set that was held is received before it was let go, and nothing at all where it was not."""
    for hold in history.rows.holds:
        ended = next((event for event in moves_of(history, hold)), None)
        for message in history.sets.get((hold.turn, hold.seal), ()):
            for take in history.attempts_at(message.id):
                goes_itself = hold.decision in ("approve", "send")
                if ended is None or not goes_itself or take.id < ended.id:
                    yield f"{message.key} was taken, and its set was decided as {hold.decision}"
            if hold.decision == "edit":
                # What stays goes under its key, as a message of the set that replaced it.
                continue
            for receipt in history.receipts_by_key.get(message.key, ()):
                until = None if ended is None else history.log_time(ended) - CLOCK_SECONDS_MAX
                if hold.decision not in LETS_GO or until is None or receipt.got.at < until:
                    yield f"{message.key} was received, and its set was decided as {hold.decision}"


def a_set_that_is_void_is_cancelled(history: History) -> Iterator[str]:
    """Nothing of a set that was rejected, sent back or replaced is left to be sent."""
    for hold in history.rows.holds:
        if hold.decision in ("edit", "reject", "revise", "cancel"):
            for message in history.sets.get((hold.turn, hold.seal), ()):
                if message.state != "cancelled":
                    yield f"{message.id} is {message.state}, and its set was decided as {hold.decision}"


def what_was_approved_is_what_left(history: History) -> Iterator[str]:
    """The hash that was decided about is that of the set that was shown, and the set that is sent has that hash."""
    follow_ups: dict[tuple[str, int], list[KeptFollowUp]] = defaultdict(list)
    for one in history.rows.follow_ups:
        follow_ups[one.turn, one.seal].append(one)
    for hold in history.rows.holds:
        if hold.decision in LETS_GO:
            is_edited = hold.decision == "edit"
            seal, wanted = hold.seal + is_edited, hold.new_hash if is_edited else hold.payload_hash
            messages = history.sets.get((hold.turn, seal), [])
            left = _hash_of(hold, messages, follow_ups.get((hold.turn, seal), []))
            if left != wanted:
                yield f"{hold.turn} was approved as {wanted}, and what left is {left}"
    shown = {(hold.turn, hold.payload_hash): hold.decision for hold in history.rows.holds}
    for turn, calls in _decided(history).items():
        for call in calls:
            about = (turn, call.asked.payload_hash or "")
            if call.granted is None:
                continue
            if about not in shown:
                yield f"{turn} was decided about {call.asked.payload_hash}, which nobody was shown"
            elif call.granted.decision != shown[about]:
                yield f"{about} was decided as {call.granted.decision}, and {shown[about]} is kept"


def _hash_of(hold: KeptHold, messages: list[KeptMessage], later: list[KeptFollowUp]) -> str:
    """The hash of a set, from what is kept of it. An edit carries the follow-ups over, wherever they stand."""
    strict = messages[0].strict if messages else hold.strict
    turn = parse_id(TURN_PREFIX, hold.turn)
    assert turn is not None
    digest = payload_hash(
        turn=turn,
        attempt=hold.attempt,
        order="strict" if strict else None,
        messages=[_message_hash(message) for message in messages],
        follow_ups=[bytes.fromhex(one.hash.removeprefix("sha256:")) for one in later],
    )
    return spell(digest)


def _message_hash(message: KeptMessage) -> bytes:
    return message_hash(
        destination=message.destination,
        recipient=message.recipient,
        conversation=message.conversation,
        headers=json.loads(message.headers),
        content_type=message.content_type,
        delay_seconds=message.delay_seconds,
        body=base64.b64decode(message.body_base64),
    )


def _decided(history: History) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.asked.verb == "decide":
            found[call.asked.turn or ""].append(call)
    return found


def a_decision_is_final(history: History) -> Iterator[str]:
    """A hold is ended once, as is kept of it, and whoever was granted a decision was told that one."""
    for turn, events in history.turn_events.items():
        ends = [e.verb for e in events if e.from_state in _WAITS and e.to_state not in _WAITS]
        decided = [hold for hold in history.holds_of.get(turn, ()) if hold.decision]
        if len(ends) != len(decided):
            yield f"{turn} has {len(decided)} holds that were decided, and ended {ends}"
    for hold in history.rows.holds:
        moves = [event.verb for event in moves_of(history, hold)]
        expected = [_MOVES.get(hold.decision or "", "expire")] if hold.decision else []
        if hold.decision == "cancel" and hold.decided_by == "system":
            expected = ["expire"]
        if moves != expected:
            yield f"the hold of {hold.turn} was decided as {hold.decision}, and ended by {moves}"
        told = {
            (call.granted.decision, call.granted.by)
            for call in _decided(history).get(hold.turn, ())
            if call.granted and call.asked.payload_hash == hold.payload_hash
        }
        if told - {(hold.decision, hold.decided_by)}:
            yield f"a decision about {hold.turn} was granted as {sorted(map(str, told))}, and {hold} is kept"


def nobody_is_made_to_decide(history: History) -> Iterator[str]:
    """What a deadline does is the system's, happens only behind it, and only as the hold says."""
    for hold in history.rows.holds:
        for event in history.turn_events.get(hold.turn, ()):
            if event.verb == "expire" and event.from_state == "held":
                mine = _is_of(history, event, hold)
                if mine and event.at < hold.deadline_at:
                    yield f"{hold.turn} expired {hold.deadline_at - event.at:.1f} s before its deadline"
        by_itself = any(event.verb == "expire" for event in moves_of(history, hold))
        if by_itself != (hold.decided_by == "system" and hold.decision is not None):
            yield f"{hold.turn} was decided by {hold.decided_by} as {hold.decision}"
        if by_itself and hold.decision != hold.on_deadline:
            yield f"{hold.turn} was to {hold.on_deadline} at its deadline, and did {hold.decision}"


def _is_of(history: History, event: Event, hold: KeptHold) -> bool:
    made = 0
    for other in history.turn_events.get(hold.turn, ()):
        if other.id == event.id:
            return made == hold.seal
        made += other.verb in ("seal", "edit", "escalate")
    return False


def a_hold_is_never_loosened(history: History) -> Iterator[str]:
    """Where a queue holds every set, none leaves without; and none is sent at its deadline but where it says so."""
    terms = history.terms
    queues = {turn.id: turn.queue for turn in history.rows.turns if turn.about is None}
    held = {(hold.turn, hold.seal) for hold in history.rows.holds}
    edited = {(hold.turn, hold.seal + 1) for hold in history.rows.holds if hold.decision == "edit"}
    for set_ in history.sets:
        if queues.get(set_[0]) in terms.held_queues and set_ not in held | edited:
            yield f"set {set_[1]} of {set_[0]} was never held"
    for hold in history.rows.holds:
        if hold.on_deadline == "send" and queues.get(hold.turn) not in terms.sent_queues:
            yield f"{hold.turn} is sent at its deadline, and its queue does not say so"


def an_expired_hold_escalates(history: History) -> Iterator[str]:
    """Once there are no more faults, whoever decides was told of each hold that lasts, and of each that has expired."""
    if history.healed is None:
        return
    late = history.rows.moment.database_at - history.terms.slack_seconds
    turns = {turn.id: turn for turn in history.rows.turns}
    for hold in history.rows.holds:
        turn = turns.get(hold.turn)
        if turn is None or turn.queue not in history.terms.told_queues:
            continue
        said = [
            json.loads(base64.b64decode(one.body_base64))
            for one in history.told_of.get(turn.id, ())
        ]
        asked = any(
            one["kind"] == "hold" and one["payload_hash"] == hold.payload_hash for one in said
        )
        if hold.decision is None and hold.held_at < late and not asked:
            yield f"nobody was told that {turn.id} waits for a decision"
        expired = [
            event.at
            for event in history.turn_events.get(turn.id, ())
            if event.to_state == "escalated" and _is_of(history, event, hold)
        ]
        again = any(one["reason"] == "hold_expired" for one in said)
        if expired and expired[0] < late and not again:
            yield f"nobody was told that the hold of {turn.id} has expired"


def who_tells_is_never_told_of(history: History) -> Iterator[str]:
    """What is said to people is about turns that work, and never about what is said to people."""
    telling = {turn.id for turn in history.rows.turns if turn.about is not None}
    for turn in history.rows.turns:
        if turn.about in telling:
            yield f"{turn.id} tells of {turn.about}, which itself tells of another"


def what_stays_keeps_its_key(history: History) -> Iterator[str]:
    """An edited set has the old key for what it took over as it was, and keys of their own for what was added."""
    for hold in history.rows.holds:
        if hold.decision != "edit":
            continue
        before = history.sets.get((hold.turn, hold.seal), [])
        after = history.sets.get((hold.turn, hold.seal + 1), [])
        old = {message.key for message in before}
        left = [_content(message) for message in after]
        for message in before:
            if message.key in {one.key for one in after} or _content(message) not in left:
                continue
            # Two that say the same are taken over one for one.
            stayed = [one for one in after if _content(one) == _content(message) and one.key in old]
            if len(stayed) < min(
                left.count(_content(message)),
                [_content(one) for one in before].count(_content(message)),
            ):
                yield f"{message.key} stays in the set of {hold.turn}, and has another key now"


def _content(message: KeptMessage) -> tuple[str, str | None, str | None, str]:
    return (message.destination, message.recipient, message.conversation, message.body_base64)


RULES = (
    nothing_leaves_before_its_decision,
    a_set_that_is_void_is_cancelled,
    what_was_approved_is_what_left,
    a_decision_is_final,
    nobody_is_made_to_decide,
    a_hold_is_never_loosened,
    an_expired_hold_escalates,
    who_tells_is_never_told_of,
    what_stays_keeps_its_key,
)
