"""What must be true of every move, and at the end of a run: declared edges, finality, and that everything got there."""

from collections.abc import Iterator, Mapping, Sequence

from app.domain.lifecycle import MESSAGE_MOVES, TURN_MOVES
from tests.history.history import CLOCK_SECONDS_MAX, History
from tests.history.rows import Event

_ENDED = frozenset({"replied", "undelivered", "failed", "cancelled"})
# In these a turn waits for somebody until its deadline.
_WAITS = frozenset({"held", "escalated", "parked"})
_GOES_ON = frozenset({"seal", "claim", "wake", "approve", "edit", "revise", "expire", "redrive"})
_Moves = Mapping[str, frozenset[tuple[str | None, str]]]


def only_declared_moves_are_made(history: History) -> Iterator[str]:
    """Each story is one chain of declared moves that ends where its turn or message is."""
    for turn in history.rows.turns:
        events = history.turn_events.get(turn.id, [])
        yield from _chain(turn.id, events, state=turn.state, declared=TURN_MOVES)
    for message in history.rows.messages:
        events = history.message_events.get(message.id, [])
        yield from _chain(message.id, events, state=message.state, declared=MESSAGE_MOVES)


def _chain(name: str, events: Sequence[Event], *, state: str, declared: _Moves) -> Iterator[str]:
    before: str | None = None
    for event in events:
        if event.from_state != before:
            yield f"{name} went on from {event.from_state} by {event.verb} while it was {before}"
        if (event.from_state, event.to_state) not in declared.get(event.verb, ()):
            yield f"{name} made an undeclared move: {event}"
        before = event.to_state
    if before != state:
        yield f"{name} is {state}, and its story ends {before}"


def cancel_is_final(history: History) -> Iterator[str]:
    """After a cancel was acknowledged nothing of it is sealed, woken or decided, and no attempt of it begins."""
    for call in history.calls:
        asked, told = call.asked, call.granted
        if told is None or asked.verb not in ("cancel", "cancel_message"):
            continue
        messages = (
            [asked.message or ""]
            if asked.verb == "cancel_message"
            else [message.id for message in history.messages_of.get(asked.turn or "", ())]
        )
        for message in messages:
            for take in history.events_of(message, "take"):
                if take.at > history.database_time(told.at) + CLOCK_SECONDS_MAX:
                    yield f"{message} was taken again after it was cancelled"
        for event in history.turn_events.get(asked.turn or "", ()):
            late = event.at > history.database_time(told.at) + CLOCK_SECONDS_MAX
            if event.verb in _GOES_ON and late and told.state == "cancelled":
                yield f"{event.turn} went on by {event.verb} after it was cancelled"


def every_turn_comes_to_its_end(history: History) -> Iterator[str]:
    """Once there are no more faults, each accepted inbound is answered, or waits for a person or its time.

    Only a follow-up may have its time still to come.
    """
    if history.healed:
        for turn in history.rows.turns:
            is_later = turn.depth > 0 and turn.state == "scheduled"
            if turn.state not in _ENDED | _WAITS and not is_later:
                yield f"{turn.id} is still {turn.state}"


def nothing_due_is_left_undone(history: History) -> Iterator[str]:
    """Once there are no more faults, nothing that is due stays where it is, and no lapsed lease is left unswept."""
    if history.healed is None:
        return
    late = history.rows.moment.database_at - history.terms.slack_seconds
    for turn in history.rows.turns:
        if turn.state in ("queued", "scheduled") and turn.due_at < late:
            yield f"{turn.id} is {turn.state} and was due {late - turn.due_at:.1f} s before its limit"
        if turn.deadline_at is not None and turn.deadline_at < late:
            yield f"{turn.id} is {turn.state}, and its deadline came {late - turn.deadline_at:.1f} s before its limit"
        if turn.lease_expires_at is not None and turn.lease_expires_at < late:
            yield f"the lease of {turn.id} lapsed and nobody swept it"
    for message in history.rows.messages:
        if message.state == "pending" and message.blocked_by is None and message.due_at < late:
            yield f"{message.id} is due and nobody takes it"
        if message.lease_expires_at is not None and message.lease_expires_at < late:
            yield f"the delivery lease of {message.id} lapsed and nobody swept it"


def every_replica_serves_again(history: History) -> Iterator[str]:
    """Once there are no more faults, each replica is ready with no connection in use, and accepts new inbound."""
    healed = history.healed
    if healed is None:
        return
    for replica in healed.replicas:
        last = max(
            (vital for vital in history.vitals if vital.replica == replica),
            key=lambda vital: vital.at,
            default=None,
        )
        if last is None or last.at < healed.at or not last.ready or last.pool_in_use:
            yield f"{replica} was last seen as {last}"
    for replica in healed.api_replicas:
        if not any(
            post.asked.replica == replica and post.asked.at >= healed.at and post.accepted
            for post in history.posts
        ):
            yield f"{replica} accepts nothing"
    if history.rows.stuck_sessions:
        yield f"{history.rows.stuck_sessions} sessions are idle in a transaction"


RULES = (
    only_declared_moves_are_made,
    cancel_is_final,
    every_turn_comes_to_its_end,
    nothing_due_is_left_undone,
    every_replica_serves_again,
)
