"""Back-off rises within its bounds, nobody is asked too early, and what may have arrived never ends dead."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model import DeliveryPolicy, TurnPolicy, Verdict
from app.domain.outcome import Answer, Delivered, Outcome, Rejected, RetryLater, Shut, Unknown
from app.domain.retry import (
    JITTER_SHARE,
    after_attempt,
    after_resend,
    backoff_seconds,
    turn_after_failure,
)

POLICY = DeliveryPolicy(
    attempts_max=5, age_seconds_max=3_600.0, backoff_seconds=1.0, backoff_seconds_max=60.0
)
TURN_POLICY = TurnPolicy(
    attempts_max=5, releases_max=20, backoff_seconds=1.0, backoff_seconds_max=60.0
)

jitters = st.floats(0.0, 1.0, exclude_max=True)
seconds = st.floats(0.0, 1e7)
tries = st.integers(0, 10_000)
policies = st.builds(
    DeliveryPolicy,
    attempts_max=st.integers(1, 50),
    age_seconds_max=st.floats(1.0, 1e6),
    backoff_seconds=st.floats(0.1, 60.0),
    backoff_seconds_max=st.floats(60.0, 3_600.0),
)
answers = st.none() | st.builds(Answer, status=st.integers(100, 599), excerpt=st.text(max_size=5))
reasons = st.sampled_from(["timeout", "busy", "no"])
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Delivered, receipt=st.none() | st.just("r"), answer=answers),
    st.builds(
        RetryLater,
        reason=reasons,
        after_seconds=st.none() | seconds,
        counted=st.booleans(),
        answer=answers,
    ),
    st.builds(Rejected, reason=reasons, answer=answers),
    st.builds(Unknown, reason=reasons, answer=answers),
)


HOLDING = replace(POLICY, on_unknown="hold")


def decide(
    outcome: Outcome,
    *,
    attempts_used: int = 1,
    may_have_arrived: bool = False,
    age_seconds: float = 0.0,
    policy: DeliveryPolicy | None = POLICY,
    jitter: float = 0.0,
    hold_unknown: bool = False,
) -> Verdict:
    return after_attempt(
        outcome,
        attempts_used=attempts_used,
        may_have_arrived=may_have_arrived,
        age_seconds=age_seconds,
        policy=policy,
        jitter=jitter,
        hold_unknown=hold_unknown,
    )


def test_back_off_doubles_to_its_maximum() -> None:
    waits = [backoff_seconds(n, first=1.0, most=60.0, jitter=0.0) for n in range(1, 9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


@given(tries=tries, first=st.floats(0.1, 100.0), most=st.floats(0.1, 1e6), jitter=jitters)
def test_back_off_stays_between_its_schedule_and_a_fifth_more(
    tries: int, first: float, most: float, jitter: float
) -> None:
    plain = backoff_seconds(tries, first=first, most=most, jitter=0.0)
    assert min(first, most) <= plain <= most
    wait = backoff_seconds(tries, first=first, most=most, jitter=jitter)
    assert plain <= wait <= plain * (1 + JITTER_SHARE)


@given(tries=tries, jitter=jitters)
def test_back_off_never_falls_with_more_tries(tries: int, jitter: float) -> None:
    waits = [
        backoff_seconds(tries + more, first=1.0, most=60.0, jitter=jitter) for more in (0, 1, 2)
    ]
    assert waits == sorted(waits)


@given(attempts_used=st.integers(1, 100), jitter=jitters)
def test_a_turn_fails_exactly_at_its_cap(attempts_used: int, jitter: float) -> None:
    state, delay = turn_after_failure(
        attempts_used=attempts_used, policy=TURN_POLICY, jitter=jitter
    )
    assert (state == "failed") == (attempts_used >= TURN_POLICY.attempts_max)
    assert delay <= TURN_POLICY.backoff_seconds_max * (1 + JITTER_SHARE)


@given(attempts_used=tries, jitter=jitters)
def test_a_turn_of_an_unconfigured_queue_never_fails(attempts_used: int, jitter: float) -> None:
    state, delay = turn_after_failure(attempts_used=attempts_used, policy=None, jitter=jitter)
    assert state == "queued"
    assert 1.0 <= delay <= 72.0


@given(
    outcome=outcomes,
    attempts_used=st.integers(1, 100),
    age_seconds=seconds,
    policy=st.none() | policies,
    jitter=jitters,
)
def test_what_may_have_arrived_never_ends_dead(
    outcome: Outcome,
    attempts_used: int,
    age_seconds: float,
    policy: DeliveryPolicy | None,
    jitter: float,
) -> None:
    verdict = decide(
        outcome,
        attempts_used=attempts_used,
        may_have_arrived=True,
        age_seconds=age_seconds,
        policy=policy,
        jitter=jitter,
    )
    assert verdict.state != "dead"
    assert verdict.may_have_arrived or verdict.state == "delivered"


@given(
    outcome=outcomes,
    attempts_used=st.integers(1, 100),
    may_have_arrived=st.booleans(),
    age_seconds=seconds,
    policy=policies,
    jitter=jitters,
)
def test_every_verdict_makes_sense(
    outcome: Outcome,
    attempts_used: int,
    may_have_arrived: bool,
    age_seconds: float,
    policy: DeliveryPolicy,
    jitter: float,
) -> None:
    verdict = decide(
        outcome,
        attempts_used=attempts_used,
        may_have_arrived=may_have_arrived,
        age_seconds=age_seconds,
        policy=policy,
        jitter=jitter,
    )
    assert (verdict.state == "delivered") == isinstance(outcome, Delivered)
    assert (verdict.reason is None) == (verdict.state == "delivered")
    if isinstance(outcome, Unknown):
        assert verdict.may_have_arrived
        assert verdict.counted
    if verdict.state == "pending":
        assert age_seconds < policy.age_seconds_max
        assert not verdict.counted or attempts_used < policy.attempts_max
        assert verdict.delay_seconds >= backoff_seconds(
            attempts_used,
            first=policy.backoff_seconds,
            most=policy.backoff_seconds_max,
            jitter=0.0,
        )
    else:
        assert verdict.delay_seconds == 0.0


@given(asked=seconds, attempts_used=st.integers(1, 4), jitter=jitters)
def test_nobody_is_asked_again_earlier_than_they_said(
    asked: float, attempts_used: int, jitter: float
) -> None:
    verdict = decide(RetryLater("busy", asked), attempts_used=attempts_used, jitter=jitter)
    assert verdict.state == "pending"
    assert verdict.delay_seconds >= asked


@given(outcome=outcomes, attempts_used=tries, age_seconds=seconds, arrived=st.booleans())
def test_without_a_policy_only_a_rejection_gives_up(
    outcome: Outcome, attempts_used: int, age_seconds: float, arrived: bool
) -> None:
    verdict = decide(
        outcome,
        attempts_used=attempts_used,
        age_seconds=age_seconds,
        may_have_arrived=arrived,
        policy=None,
    )
    gave_up = verdict.state in ("dead", "unknown")
    assert gave_up == isinstance(outcome, Rejected)


@pytest.mark.parametrize(
    ("arrived", "state"), [(False, "dead"), (True, "unknown")], ids=["never", "perhaps"]
)
def test_a_rejection_ends_the_message_at_once(arrived: bool, state: str) -> None:
    assert decide(Rejected("no"), may_have_arrived=arrived).state == state


@pytest.mark.parametrize("arrived", [False, True])
@pytest.mark.parametrize(
    "spent",
    [{"attempts_used": 5}, {"age_seconds": 3_600.0}],
    ids=["attempts", "age"],
)
def test_what_is_given_up_says_so_and_why(arrived: bool, spent: dict[str, float]) -> None:
    verdict = decide(RetryLater("busy"), may_have_arrived=arrived, **spent)  # type: ignore[arg-type]
    assert verdict.state == ("unknown" if arrived else "dead")
    assert verdict.reason == "gave_up: busy"


def test_an_uncounted_retry_is_given_up_by_age_and_not_by_attempts() -> None:
    later = RetryLater("rate_limited", 10.0, counted=False)
    assert decide(later, attempts_used=100).state == "pending"
    assert decide(later, attempts_used=100).counted is False
    assert decide(later, attempts_used=100, age_seconds=3_600.0).state == "dead"


def test_an_unknown_attempt_is_remembered_by_the_next_decision() -> None:
    first = decide(Unknown("timeout"))
    assert (first.state, first.may_have_arrived) == ("pending", True)
    last = decide(
        RetryLater("refused"),
        may_have_arrived=first.may_have_arrived,
        policy=replace(POLICY, attempts_max=2),
        attempts_used=2,
    )
    assert last.state == "unknown"


def test_a_verdict_keeps_what_was_said() -> None:
    answer = Answer(503, "later")
    assert decide(RetryLater("busy", answer=answer)).answer == answer
    assert decide(Delivered("r-1", Answer(200))).receipt == "r-1"


@pytest.mark.parametrize(
    ("policy", "begun_so"), [(HOLDING, True), (HOLDING, False), (POLICY, True), (None, True)]
)
def test_where_unknown_attempts_are_held_each_is_for_a_person_at_once(
    policy: DeliveryPolicy | None, begun_so: bool
) -> None:
    answer = Answer(500, "oops")
    verdict = decide(Unknown("undocumented", answer), policy=policy, hold_unknown=begun_so)
    assert (verdict.state, verdict.reason) == ("unknown", "undocumented")
    assert (verdict.may_have_arrived, verdict.answer) == (True, answer)


def test_what_certainly_did_not_act_is_tried_again_where_unknown_attempts_are_held() -> None:
    """Also after an earlier unknown one: somebody has wanted this attempt."""
    for earlier in (False, True):
        verdict = decide(RetryLater("busy"), policy=HOLDING, may_have_arrived=earlier)
        assert (verdict.state, verdict.may_have_arrived) == ("pending", earlier)
    spent = decide(RetryLater("busy"), policy=HOLDING, attempts_used=5, may_have_arrived=True)
    assert spent.state == "unknown"


@given(outcome=outcomes, used=st.integers(1, 50), age=seconds, jitter=jitters)
def test_where_unknown_attempts_are_held_none_leads_to_another(
    outcome: Outcome, used: int, age: float, jitter: float
) -> None:
    verdict = decide(outcome, attempts_used=used, age_seconds=age, policy=HOLDING, jitter=jitter)
    assert isinstance(outcome, Unknown) <= (verdict.state == "unknown")
    assert verdict.state != "pending" or not verdict.may_have_arrived


@given(
    outcome=outcomes | st.builds(RetryLater, reason=reasons, shut=st.sampled_from(Shut)),
    attempts=st.integers(1, 60),
    age=seconds,
    policy=policies,
)
def test_a_resend_is_bounded_whatever_its_destination_says(
    outcome: Outcome, attempts: int, age: float, policy: DeliveryPolicy
) -> None:
    verdict = after_resend(outcome, attempts=attempts, age_seconds=age, policy=policy, jitter=0.0)
    if attempts >= policy.attempts_max or age >= policy.age_seconds_max:
        assert verdict.state != "pending"
    assert isinstance(outcome, Delivered) == (verdict.state == "delivered")
