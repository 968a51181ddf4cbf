"""Every rule about what waits can fail, and holds where nothing is wrong."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.history.check import check
from tests.history.examples import Run, change, drop, find
from tests.history.log import Asked, Received, Terms, Told, encode
from tests.history.rows import Event
from tests.history.waiting_examples import CHILD, HELD, NEW, waiting_run
from tests.history.waiting_rows import KeptHold, KeptSignal

Spoil = Callable[[Run], None]


def _rows(name: str, n: int = 0, /, **fields: object) -> Spoil:
    return lambda run: change(getattr(run, name), n, **fields)


def _event(verb: str, n: int = 0, /, **fields: object) -> Spoil:
    return lambda run: change(run.events, find(run.events, Event, n, verb=verb), **fields)


def _call(kind: type, call: str, **fields: object) -> Spoil:
    return lambda run: change(run.records, find(run.records, kind, call=call), **fields)


def _terms(**fields: object) -> Spoil:
    return lambda run: change(run.records, find(run.records, Terms), **fields)


def _moved(at: float, verb: str, before: str, after: str, **more: object) -> Spoil:
    return lambda run: run.move(at, verb, before, after, turn=HELD, **more)


def _both(*spoils: Spoil) -> Spoil:
    def spoil(run: Run) -> None:
        for one in spoils:
            one(run)

    return spoil


def _without(name: str, *which: int) -> Spoil:
    def spoil(run: Run) -> None:
        things = getattr(run, name)
        gone = [things[n] for n in which]
        drop(things, lambda thing: thing in gone)

    return spoil


# A void message is taken before the decision, and one is received under a key that was added by nobody.
_TAKEN_EARLY = _both(
    _moved(7.0, "take", "held", "sending", message="msg_2"),
    lambda run: run.records.append(Received("early", 7.1, "crm", "k2", encode(b"cheap"))),
)
_APPROVED = _both(
    _rows("holds", 0, decision="approve", new_hash=None),
    _event("edit", 0, verb="approve"),
)

SPOILED_WAITS: dict[str, list[Spoil]] = {
    "nothing_leaves_before_its_decision": [
        _TAKEN_EARLY,
        _both(
            _rows("holds", 0, decision="reject", new_hash=None),
            lambda run: run.records.append(Received("late", 12, "crm", "k2", encode(b"cheap"))),
        ),
        _both(
            _APPROVED,
            lambda run: run.records.append(Received("early", 7.1, "crm", "k2", encode(b"cheap"))),
        ),
    ],
    "a_set_that_is_void_is_cancelled": [_rows("messages", 0, state="held")],
    "what_was_approved_is_what_left": [
        _rows("messages", 3, body_base64=encode(b"steep")),
        _rows("messages", 3, recipient="somebody else"),
        _rows("follow_ups", 0, hash="sha256:" + "1" * 64),
        _rows("holds", 0, new_hash="sha256:" + "1" * 64),
        _call(Asked, "call 9.0", payload_hash="sha256:another"),
        _call(Told, "call 9.0", decision="reject"),
    ],
    "a_decision_is_final": [
        _moved(9.4, "reject", "escalated", "cancelled"),
        _call(Told, "call 9.5", by="eve"),
        _rows("holds", 0, decision="reject"),
        _rows("holds", 0, decision=None, decided_by=None),
    ],
    "nobody_is_made_to_decide": [
        _event("expire", 0, at=7.9),
        _rows("holds", 0, decided_by="system"),
        _both(
            _event("edit", 0, verb="expire"),
            _rows("holds", 0, decision="send", decided_by="system", new_hash=None),
        ),
    ],
    "a_hold_is_never_loosened": [
        lambda run: drop(run.holds, lambda _: True),
        _rows("holds", 0, on_deadline="send"),
    ],
    "an_expired_hold_escalates": [
        _without("turns", 3),
        _both(_without("turns", 2), _rows("holds", 0, decision=None, decided_by=None)),
    ],
    "who_tells_is_never_told_of": [_rows("turns", 3, about="turn_told1")],
    "what_stays_keeps_its_key": [_rows("messages", 2, key="k9")],
    "a_signal_is_kept_once": [
        lambda run: drop(run.signals, lambda _: True),
        _rows("signals", 0, body_base64=encode(b'"another"')),
        _call(Told, "call 4.7", status=200),
    ],
    "a_signal_takes_effect_once": [
        _moved(4.2, "wake", "parked", "queued"),
        _rows("waits", 0, ended="deadline", signal=None, ended_at=9.0),
        _rows("waits", 0, ended=None, signal=None),
        _rows("waits", 0, signal=2),
        _rows("waits", 0, payload_hash="sha256:question"),
        lambda run: change(
            run.records,
            find(run.records, Told, call="call 5.0"),
            turns=tuple(
                replace(one, heard=())
                for one in run.records[find(run.records, Told, call="call 5.0")].turns  # type: ignore[union-attr]
            ),
        ),
    ],
    "nobody_waits_past_a_deadline": [
        _rows("waits", 0, ended="deadline", ended_at=59.0),
        _rows("waits", 0, ended=None, ended_at=None, deadline_at=15.0),
    ],
    "a_follow_up_takes_effect_once": [
        _rows("follow_ups", 0, state="held"),
        _rows("follow_ups", 0, seal=1, state="accepted"),
        _rows("inbound", 1, turn="turn_elsewhere"),
        _rows("follow_ups", 0, inbound="in_other"),
    ],
    "follow_ups_are_those_that_were_asked_for": [
        _call(Asked, "call 6.0", follow_ups=2),
        _call(Told, "call 6.0", follow_ups=("turn_other",)),
        lambda run: drop(run.follow_ups, lambda _: True),
        lambda run: run.move(9.2, "accept", None, "scheduled", turn=CHILD),
    ],
    "a_follow_up_waits_for_the_decision": [
        lambda run: change(run.events, find(run.events, Event, verb="accept", turn=CHILD), id=2),
        _both(
            _rows("holds", 0, decision="reject", new_hash=None),
            _rows("follow_ups", 0, seal=1),
        ),
    ],
}
# Of rules that were there before: what a wait adds to them.
SPOILED_OTHERS: dict[str, list[Spoil]] = {
    "a_set_is_sealed_once": [_moved(6.3, "seal", "processing", "held", attempt=2)],
    "attempts_are_counted_once": [
        _event("park", 0, verb="fail"),
        _rows("turns", 0, attempts_used=2),
    ],
    "every_attempt_is_the_same": [_rows("messages", 3, key="k1")],
    "cancel_is_final": [
        lambda run: run.call(8.2, "cancel", Told("", 0, 200, "cancelled"), turn=HELD)
    ],
    "nothing_due_is_left_undone": [_rows("turns", 0, state="escalated", deadline_at=9.0)],
    "nothing_is_invented": [lambda run: drop(run.follow_ups, lambda _: True)],
}
CASES = [
    pytest.param(rule, spoil, id=f"{rule}-{n}")
    for rule, spoils in (*SPOILED_WAITS.items(), *SPOILED_OTHERS.items())
    for n, spoil in enumerate(spoils)
]


def test_a_good_run_breaks_no_rule() -> None:
    run = waiting_run()
    assert list(map(str, check(run.history()))) == []
    assert isinstance(run.holds[0], KeptHold)
    assert isinstance(run.signals[0], KeptSignal)
    assert run.holds[0].new_hash == NEW


@pytest.mark.parametrize(("rule", "spoil"), CASES)
def test_a_rule_finds_what_breaks_it(rule: str, spoil: Spoil) -> None:
    run = waiting_run()
    spoil(run)
    assert rule in {violation.rule for violation in check(run.history())}


def test_a_set_that_is_sent_at_its_deadline_is_sent_where_its_queue_says_so() -> None:
    run = waiting_run()
    _rows("holds", 0, on_deadline="send")(run)
    _terms(sent_queues=("q",))(run)
    assert "a_hold_is_never_loosened" not in {one.rule for one in check(run.history())}
