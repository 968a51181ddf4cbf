"""Every rule of the checker can fail, and holds where nothing is wrong."""

from collections.abc import Callable

import pytest

from tests.history.check import RULES, check
from tests.history.examples import Run, change, drop, find, good_run
from tests.history.log import (
    Answered,
    Asked,
    Healed,
    PostAnswered,
    Posted,
    Received,
    Terms,
    Told,
    Vital,
)
from tests.history.rows import Event, KeptInbound
from tests.history.test_waiting import SPOILED_WAITS

Spoil = Callable[[Run], None]


def _record(kind: type, n: int = 0, /, **fields: object) -> Spoil:
    return lambda run: change(run.records, find(run.records, kind, n), **fields)


def _rows(name: str, n: int, **fields: object) -> Spoil:
    return lambda run: change(getattr(run, name), n, **fields)


def _event(verb: str, n: int = 0, /, **fields: object) -> Spoil:
    return lambda run: change(run.events, find(run.events, Event, n, verb=verb), **fields)


def _both(*spoils: Spoil) -> Spoil:
    def spoil(run: Run) -> None:
        for one in spoils:
            one(run)

    return spoil


def _without(name: str, which: Callable[[object], bool]) -> Spoil:
    return lambda run: drop(getattr(run, name), which)


def _answer_to(call: str, **fields: object) -> Spoil:
    return lambda run: change(run.records, find(run.records, Told, call=call), **fields)


def _moved(*moves: tuple[float, str, str | None, str], **more: object) -> Spoil:
    def spoil(run: Run) -> None:
        for at, verb, before, after in moves:
            run.move(at, verb, before, after, **more)

    return spoil


def _called(at: float, verb: str, **asked: object) -> Spoil:
    return lambda run: run.call(at, verb, Told("", 0, 200), **asked)


def _second_first(run: Run) -> None:
    """The second message is first sent while the first is in back-off."""
    take = find(run.events, Event, verb="take", message="msg_2")
    moved = [run.events.pop(take), run.events.pop(take)]
    at = find(run.events, Event, 1, verb="take", message="msg_1")
    run.events[at:at] = moved
    for number, event in enumerate(run.events):
        run.events[number] = Event(number + 1, *[getattr(event, n) for n in Event.__slots__[1:]])


def _both_at_once(run: Run) -> None:
    """The second turn of the lane is claimed while the first one runs."""
    claim = find(run.events, Event, 1, verb="claim")
    run.events.insert(claim + 1, Event(0, 6.2, "turn_b", None, "claim", "queued", "processing", 1))


SPOILED: dict[str, list[Spoil]] = {
    "no_accept_is_lost": [
        _without("keys", lambda one: getattr(one, "key", "") == "a"),
        _without("inbound", lambda one: getattr(one, "id", "") == "in_a"),
        _rows("inbound", 0, body_base64="altered"),
        _rows("inbound", 0, conversation="another"),
        _rows("inbound", 0, turn="turn_b"),
    ],
    "a_key_has_one_handle": [
        _record(PostAnswered, 1, inbound="in_other"),
        _record(PostAnswered, 1, duplicate=False),
        _rows("keys", 1, inbound="in_a"),
    ],
    "nothing_is_invented": [
        _without("keys", lambda one: getattr(one, "key", "") == "b"),
        _without("records", lambda one: isinstance(one, Posted) and one.key == "b"),
        _rows("inbound", 1, received_at=2.0),
    ],
    "refused_means_absent": [_rows("keys", 1, key="refused")],
    "a_repeat_is_welcome": [
        _record(PostAnswered, 1, status=409),
        _record(Posted, 1, body_base64="another"),
    ],
    "attempts_rise_by_one": [
        _event("claim", 1, attempt=3),
        _rows("attempts", 1, number=1),
        _rows("turns", 0, attempt=3),
    ],
    "a_token_is_given_once": [
        _rows("attempts", 2, token="token a1"),
        _rows("attempts", 1, token="another"),
    ],
    "only_the_holder_is_obeyed": [
        _called(6.5, "renew", turn="turn_a", token="token a1"),
        _called(5.5, "renew", turn="turn_a", token="token a1"),
        _called(7.6, "seal", turn="turn_a", token="token a1", request="set"),
        _called(7.6, "release", turn="turn_a", token="token a2"),
        _called(7.6, "renew", turn="turn_a", token="never given"),
    ],
    # Without the renewal the lease of the claim would be over at 63.1.
    "a_lease_lasts": [
        _event("release", 0, verb="sweep"),
        _event("release", 0, verb="sweep", at=63.5),
    ],
    "a_set_is_sealed_once": [
        _moved((7.2, "seal", "processing", "sealed"), turn="turn_a", attempt=2),
        _answer_to("call 7.5", payload_hash="sha256:9"),
        _answer_to("call 7.5", messages=()),
        lambda run: change(
            run.records, find(run.records, Asked, call="call 7.5"), request="another"
        ),
    ],
    "a_set_is_whole": [
        _without("messages", lambda one: getattr(one, "id", "") == "msg_2"),
        _without("events", lambda one: (one.verb, one.message) == ("seal", None)),  # type: ignore[attr-defined]
        _rows("messages", 1, position=2),
        _rows("messages", 1, body_base64="altered"),
        _event("seal", 0, attempt=1),
    ],
    "attempts_are_counted_once": [
        _rows("turns", 0, attempts_used=2),
        _record(Terms, turn_attempts_max=None, releases_max=-1),
        _both(
            _moved((11.5, "claim", "queued", "processing"), turn="turn_b", attempt=1),
            _moved((11.6, "claim", "queued", "processing"), turn="turn_b", attempt=2),
            _moved((11.7, "claim", "queued", "processing"), turn="turn_b", attempt=3),
            _rows("turns", 1, attempts_used=3),
        ),
    ],
    "a_lane_runs_one_turn_at_a_time": [_both_at_once, _rows("turns", 0, lane_seq=9)],
    "a_claim_has_all_its_inbound": [
        lambda run: run.inbound.append(
            KeptInbound("in_x", "turn_a", "c", "application/json", "body", 1.0)
        ),
        _rows("inbound", 0, body_base64="altered"),
    ],
    "nothing_is_sent_before_its_seal": [
        _record(Received, 0, key="msg_unknown"),
        _record(Received, 0, at=6.9),
        _without("events", lambda one: (one.verb, one.message) == ("seal", "msg_1")),  # type: ignore[attr-defined]
    ],
    "every_attempt_is_the_same": [
        _record(Received, 1, body_base64="altered"),
        _record(Received, 1, webhook_id="another"),
        _record(Received, 1, content_type="text/html"),
        _record(Received, 1, destination="another"),
        _rows("messages", 1, key="msg_1"),
    ],
    "what_is_confirmed_was_received": [
        _record(Answered, 1, status=404),
        _record(Answered, 1, status=None),
        _record(Answered, 1, at=9.9),
        _without("records", lambda one: isinstance(one, Received) and one.key == "msg_2"),
    ],
    "what_arrived_is_not_given_up": [_rows("messages", 0, state="dead")],
    "nothing_confirmed_is_sent_again": [_record(Answered, 0, status=200)],
    "replied_means_all_delivered": [
        _rows("messages", 1, state="pending"),
        _rows("turns", 0, state="sealed"),
        _event("settle", 3, id=0),
    ],
    "attempts_are_recorded_first": [
        _rows("messages", 0, attempts=1),
        _rows("messages", 0, attempts_used=3),
        _record(Received, 0, at=7.5),
        _record(Received, 2, key="msg_1"),
    ],
    "first_attempts_are_in_order": [_second_first],
    "what_is_held_waits_for_a_person": [
        _both(_record(Terms, holding=("crm",)), _record(Answered, 0, status=500)),
        _both(_record(Terms, holding=("crm",)), _record(Answered, 0, status=None)),
    ],
    "what_is_paused_stands": [
        _called(5.5, "pause", request="queue/q"),
        _called(5.5, "pause", request="all/"),
        _called(7.9, "pause", request="destination/crm"),
    ],
    "what_stands_still_does_not_age": [
        _both(
            _record(Terms, message_attempts_max=9, message_age_seconds_max=60.0),
            _event("settle", 0, reason="gave_up: http_503"),
        ),
    ],
    "a_resend_is_performed": [_called(11.0, "resend", message="msg_1")],
    "only_declared_moves_are_made": [
        _event("release", 0, to_state="waiting"),
        _event("promote", 0, from_state="queued"),
        _rows("turns", 0, state="undelivered"),
        _rows("messages", 0, state="pending"),
    ],
    "cancel_is_final": [
        _called(7.6, "cancel", turn="turn_a"),
        _called(8.5, "cancel_message", message="msg_1"),
        _called(6.5, "cancel", turn="turn_a"),
        _moved((12.0, "seal", "processing", "sealed"), turn="turn_b", attempt=1),
    ],
    "every_turn_comes_to_its_end": [_rows("turns", 1, state="waiting")],
    "nothing_due_is_left_undone": [
        _rows("turns", 1, state="queued"),
        _rows("turns", 1, state="scheduled"),
        _rows("turns", 1, lease_expires_at=9.0),
        _rows("messages", 1, state="pending"),
        _rows("messages", 1, lease_expires_at=9.0),
    ],
    "every_replica_serves_again": [
        _record(Healed, replicas=("api", "gone")),
        _record(Healed, api_replicas=("api", "gone")),
        _record(Vital, ready=False),
        _record(Vital, pool_in_use=1),
        _record(Vital, at=11.0),
        lambda run: setattr(run, "stuck_sessions", 1),
    ],
}
CASES = [
    pytest.param(rule, spoil, id=f"{rule}-{n}")
    for rule, spoils in SPOILED.items()
    for n, spoil in enumerate(spoils)
]


def test_a_good_run_breaks_no_rule() -> None:
    assert list(map(str, check(good_run().history()))) == []


def test_every_rule_says_what_it_demands_and_has_a_run_that_breaks_it() -> None:
    assert {rule.__name__ for rule in RULES} == SPOILED.keys() | SPOILED_WAITS.keys()
    assert all(rule.__doc__ for rule in RULES)


@pytest.mark.parametrize(("rule", "spoil"), CASES)
def test_a_rule_finds_what_breaks_it(rule: str, spoil: Spoil) -> None:
    run = good_run()
    spoil(run)
    assert rule in {violation.rule for violation in check(run.history())}
