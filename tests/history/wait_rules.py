"""What must be true of waits and follow-ups: what was told is heard, what was put off happens, each of it once."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.history.history import Call, History
from tests.history.hold_rules import LETS_GO, moves_of
from tests.history.rows import Event
from tests.history.waiting_rows import KeptFollowUp, KeptSignal, KeptWait


def a_signal_is_kept_once(history: History) -> Iterator[str]:
    """Of what a turn is told under a name the first stays, and nobody is told that another did.

    One that was dropped, because a person was asked, makes room for one more.
    """
    kept: dict[tuple[str, str], list[KeptSignal]] = defaultdict(list)
    for one in history.rows.signals:
        kept[one.turn, one.name].append(one)
    for (turn, name), calls in _signals(history).items():
        granted = {call.asked.request: call.asked.bodies_base64 for call in calls if call.granted}
        signals = kept[turn, name]
        if len(granted) > len(signals):
            yield f"{turn} was told {len(granted)} things as {name}, and keeps {len(signals)}"
        bodies = {_bodies(signal.body_base64) for signal in signals}
        if not bodies <= {call.asked.bodies_base64 or () for call in calls}:
            yield f"{turn} keeps as {name} what nobody told it"
        if not {sent or () for sent in granted.values()} <= bodies:
            yield f"{turn} was told {name}, and it is lost"


def _bodies(body: str | None) -> tuple[str, ...]:
    return () if body is None else (body,)


def _signals(history: History) -> dict[tuple[str, str], list[Call]]:
    found: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.asked.verb == "signal":
            found[call.asked.turn or "", call.asked.name or ""].append(call)
    return found


def a_signal_takes_effect_once(history: History) -> Iterator[str]:
    """A park is ended once, by its signal where that is there, and each later attempt hears it as it was told."""
    signals: dict[tuple[str, str], list[KeptSignal]] = defaultdict(list)
    for one in history.rows.signals:
        signals[one.turn, one.name].append(one)
    for turn, waits in history.waits_of.items():
        wakes = [event for event in history.turn_events.get(turn, ()) if event.verb == "wake"]
        ended = [wait for wait in waits if wait.ended in ("signal", "deadline")]
        if len(wakes) != len(ended):
            yield f"{turn} was woken {len(wakes)} times from {len(ended)} parks that ended"
        for wait in waits:
            yield from _effect(history, wait, signals[turn, wait.name])


def _effect(history: History, wait: KeptWait, signals: list[KeptSignal]) -> Iterator[str]:
    turn = wait.turn
    live = next((one for one in signals if one.dropped_at is None), None)
    came = live is not None and (wait.ended is None or live.sent_at < (wait.ended_at or 0.0))
    if wait.ended in (None, "deadline") and came:
        yield f"{turn} waited for {wait.name}, which it was told"
    by = next((one for one in signals if one.number == wait.signal), None)
    if wait.ended == "signal" and by is None:
        yield f"{turn} was woken by {wait.name}, which nobody told it"
    answers = by is not None and by.is_decision and by.payload_hash == wait.payload_hash
    if by is not None and wait.payload_hash is not None and not answers:
        yield f"{turn} asked a person about {wait.payload_hash}, and took {by}"
    body = by.body_base64 if by is not None else None
    for _, given in history.given:
        if given.turn != turn or given.heard is None or given.attempt <= wait.attempt:
            continue
        told = [one for one in given.heard if one.attempt == wait.attempt]
        if [(one.name, one.body_base64) for one in told] != [(wait.name, body)]:
            yield f"attempt {given.attempt} of {turn} heard {told} of {wait}"


def nobody_waits_past_a_deadline(history: History) -> Iterator[str]:
    """A park ends at its deadline and not before, by itself, once there are no more faults."""
    late = history.rows.moment.database_at - history.terms.slack_seconds
    for wait in history.rows.waits:
        if wait.ended == "deadline" and (wait.ended_at or 0.0) < wait.deadline_at:
            yield f"{wait.turn} was woken before its deadline"
        if wait.ended is None and history.healed and wait.deadline_at < late:
            yield f"{wait.turn} still waits for {wait.name}"


def a_follow_up_takes_effect_once(history: History) -> Iterator[str]:
    """What a seal committed for later is one turn, once that is let go; of a set that is not, it is none."""
    inbound = Counter(one.turn for one in history.rows.inbound)
    holds = {(hold.turn, hold.seal): hold for hold in history.rows.holds}
    turns = {turn.id: turn for turn in history.rows.turns}
    makers = Counter(one.inbound for one in history.rows.follow_ups if one.state == "accepted")
    for one in history.rows.follow_ups:
        hold = holds.get((one.turn, one.seal))
        if one.state != _wanted(history, one):
            yield f"follow-up {one.position} of {one.turn} is {one.state}, and its hold {hold}"
        if one.state == "accepted" and (one.child not in turns or inbound[one.child] != 1):
            yield f"follow-up {one.position} of {one.turn} has {inbound[one.child]} inbound"
    for kept in history.rows.inbound:
        turn = turns.get(kept.turn)
        if turn is not None and turn.depth > 0 and not makers[kept.id]:
            yield f"{kept.turn} follows {turn.root}, and no seal committed it"


def _wanted(history: History, one: KeptFollowUp) -> str:
    """The state that a follow-up must be in, by what was decided about its set. An edit has carried it to another."""
    holds = {hold.seal: hold for hold in history.holds_of.get(one.turn, ())}
    hold = holds.get(one.seal)
    if hold is None or hold.decision in ("approve", "send"):
        return "accepted"
    return "held" if hold.decision is None else "cancelled"


def follow_ups_are_those_that_were_asked_for(history: History) -> Iterator[str]:
    """A set has as many follow-ups as its holder asked for, and whoever was granted the seal was told the same ones."""
    kept: dict[tuple[str, int], list[KeptFollowUp]] = defaultdict(list)
    for one in sorted(history.rows.follow_ups, key=lambda one: one.position):
        kept[one.turn, one.seal].append(one)
    edited = {(hold.turn, hold.seal) for hold in history.rows.holds if hold.decision == "edit"}
    for call in history.calls:
        told, turn = call.granted, call.asked.turn or ""
        if call.asked.verb != "seal" or told is None:
            continue
        attempt = history.attempt_of.get((turn, call.asked.token or ""), 0)
        number = history.seal_numbers(turn).get(attempt, 0)
        # An edit carries them to the next set.
        mine = kept[turn, number + ((turn, number) in edited)]
        same = [
            one.is_duplicate or one.child == child
            for one, child in zip(mine, told.follow_ups, strict=False)
        ]
        if not len(mine) == len(told.follow_ups) == call.asked.follow_ups or not all(same):
            yield f"{turn} was sealed with {call.asked.follow_ups} follow-ups, told of {told.follow_ups}: {mine}"
    for turn_ in history.rows.turns:
        accepts = [e for e in history.turn_events.get(turn_.id, ()) if e.verb == "accept"]
        if len(accepts) > 1:
            yield f"{turn_.id} was accepted {len(accepts)} times"


def a_follow_up_waits_for_the_decision(history: History) -> Iterator[str]:
    """No follow-up of a set that is held begins before that is let go, unless its key stands for an earlier one."""
    for hold in history.rows.holds:
        ended = next(iter(moves_of(history, hold)), None)
        for one in history.rows.follow_ups:
            if (one.turn, one.seal) not in ((hold.turn, hold.seal), (hold.turn, hold.seal + 1)):
                continue
            begun: Event | None = next(iter(history.turn_events.get(one.child, ())), None)
            other_set = one.seal != hold.seal and hold.decision != "edit"
            if begun is None or other_set or one.is_duplicate:
                continue
            if ended is None or hold.decision not in LETS_GO or begun.id < ended.id:
                yield f"{one.child} follows {hold.turn}, whose set was decided as {hold.decision}"


RULES = (
    a_signal_is_kept_once,
    a_signal_takes_effect_once,
    nobody_waits_past_a_deadline,
    a_follow_up_takes_effect_once,
    follow_ups_are_those_that_were_asked_for,
    a_follow_up_waits_for_the_decision,
)
