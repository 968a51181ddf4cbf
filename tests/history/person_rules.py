"""What must be true where a person decides: what he alone may repeat is not repeated without him, and is with him."""

import math
from collections.abc import Iterator

from tests.history.history import CLOCK_SECONDS_MAX, History

# How a pause of everything is named; others are `queue/<name>` and `destination/<name>`.
EVERYTHING = "all/"

# Answers that say for certain that nothing was acted upon.
_NOT_ACTED = frozenset({401, 403, 404, 408, 425, 429, 503})


def what_is_held_waits_for_a_person(history: History) -> Iterator[str]:
    """Where unknown outcomes are held, no more requests follow one that may have acted than somebody wanted.

    Counted, not paired: a worker that was frozen before its first byte may come behind the request that replaced it.
    """
    for message in history.rows.messages:
        is_replaced = history.message_by_key[message.key] is not message
        if message.destination not in history.terms.holding or is_replaced:
            continue
        wanted = [
            event
            for event in history.message_events.get(message.id, ())
            if event.verb == "redrive" or event.step == "asked"
        ]
        receipts = history.receipts_by_key.get(message.key, ())
        answers = [one.answered.status if one.answered else None for one in receipts[:-1]]
        repeated = [answer for answer in answers if answer not in _NOT_ACTED]
        if len(repeated) > len(wanted):
            yield f"{message.key} was sent again after {repeated}, and wanted {len(wanted)} times"


def a_resend_is_performed(history: History) -> Iterator[str]:
    """Once there are no more faults, what was acknowledged to be sent again was received again, or tried to its cap.

    Where unknown outcomes are held, the first attempt may be the last.
    """
    if history.healed is None:
        return
    covered = history.terms.destinations
    for call in history.calls:
        if call.asked.verb != "resend" or call.granted is None:
            continue
        message = next((m for m in history.rows.messages if m.id == call.asked.message), None)
        if message is None or (covered is not None and message.destination not in covered):
            continue
        given_up = message.destination in history.terms.holding or any(
            event.step == "ended" and (event.reason or "").startswith("gave_up")
            for event in history.message_events.get(message.id, ())
        )
        receipts = history.receipts_by_key.get(message.key, ())
        if not given_up and not any(receipt.got.at > call.asked.at for receipt in receipts):
            yield f"{message.key} was to be sent again and never was"


def what_is_paused_stands(history: History) -> Iterator[str]:
    """Between the answer to a pause and the wish to resume it, nothing of it is claimed or taken."""
    turns = {turn.id: f"queue/{turn.queue}" for turn in history.rows.turns}
    messages = {one.id: f"destination/{one.destination}" for one in history.rows.messages}
    for subject, since, until in _pauses(history):
        for event in history.rows.events:
            if not since + CLOCK_SECONDS_MAX < event.at < until - CLOCK_SECONDS_MAX:
                continue
            name = messages.get(event.message) if event.message else turns.get(event.turn)
            if event.verb in ("claim", "take") and subject in (name, EVERYTHING):
                yield f"{event.verb} of {event.message or event.turn} while {subject} was paused"


def what_stands_still_does_not_age(history: History) -> Iterator[str]:
    """A message with attempts left is given up only for its age, without what it waited through a pause.

    Only the longest pause is taken off, so that two that overlap are not taken off twice.
    """
    attempts_max, age_max = (
        history.terms.message_attempts_max,
        history.terms.message_age_seconds_max,
    )
    if attempts_max is None or age_max is None:
        return
    pauses = list(_pauses(history))
    for message in history.rows.messages:
        events = history.message_events.get(message.id, ())
        sealed = next((event.at for event in events if event.to_state == "pending"), None)
        if sealed is None or message.attempts_used >= attempts_max:
            continue
        for event in events:
            if not (event.reason or "").startswith("gave_up") or event.step is not None:
                continue
            stood = max(
                (
                    min(until, event.at) - max(since, sealed)
                    for subject, since, until in pauses
                    if subject in (f"destination/{message.destination}", EVERYTHING)
                ),
                default=0.0,
            )
            if event.at - sealed - max(stood, 0.0) < age_max - CLOCK_SECONDS_MAX:
                yield f"{message.key} was given up, and had stood still for {stood:.0f} s"


def _pauses(history: History) -> Iterator[tuple[str | None, float, float]]:
    """What was paused, and from when until when on the database's clock."""
    resumes = [call.asked for call in history.calls if call.asked.verb == "resume"]
    for call in history.calls:
        if call.asked.verb == "pause" and call.granted:
            since, subject = history.database_time(call.granted.at), call.asked.request
            ends = [
                history.database_time(one.at)
                for one in resumes
                if one.request == subject and one.at > call.asked.at
            ]
            yield subject, since, min(ends, default=math.inf)


RULES = (
    what_is_held_waits_for_a_person,
    a_resend_is_performed,
    what_is_paused_stands,
    what_stands_still_does_not_age,
)
