"""When to try again, and when to give up: pure decisions over counts, ages and an outcome.

A message that may have arrived never ends dead, and no decision repeats it earlier than the other side asked. Where a
destination says so, an attempt whose outcome nobody knows is not repeated at all: a person decides.
"""

from dataclasses import replace
from typing import assert_never

from app.domain.breaker import Sign, sign_of
from app.domain.model import DeliveryPolicy, TurnPolicy, Verdict
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Unknown

# How far jitter stretches a back-off: enough to spread a crowd, little enough to keep the schedule readable.
JITTER_SHARE = 0.2


def backoff_seconds(tries: int, *, first: float, most: float, jitter: float) -> float:
    """`first`, doubled for each further try, at most `most`, and up to a fifth longer by `jitter` in [0, 1)."""
    doubled = first * 2.0 ** min(max(tries - 1, 0), 60)
    return min(doubled, most) * (1 + JITTER_SHARE * jitter)


def turn_after_failure(
    *, attempts_used: int, policy: TurnPolicy | None, jitter: float
) -> tuple[str, float]:
    """State and delay of a turn whose attempt counted: queued later, or failed at its cap.

    Without a policy (its queue is not configured here) it waits and never fails.
    """
    if policy is None:
        return "queued", backoff_seconds(attempts_used, first=1.0, most=60.0, jitter=jitter)
    if attempts_used >= policy.attempts_max:
        return "failed", 0.0
    return "queued", backoff_seconds(
        attempts_used,
        first=policy.backoff_seconds,
        most=policy.backoff_seconds_max,
        jitter=jitter,
    )


def after_attempt(
    outcome: Outcome,
    *,
    attempts_used: int,
    may_have_arrived: bool,
    age_seconds: float,
    policy: DeliveryPolicy | None,
    jitter: float,
    hold_unknown: bool = False,
) -> Verdict:
    """Where a message goes after an attempt.

    `attempts_used` includes this attempt; `may_have_arrived` tells of the earlier ones. Without a policy (its
    destination is not configured here) the message waits and is never given up. `hold_unknown`: the attempt was begun
    as one that is not repeated when its outcome is unknown, whatever the policy says now.

    An earlier unknown attempt holds nothing back: if this one was made, somebody wanted it, and what certainly did not
    act may be tried again.
    """
    sign = sign_of(outcome)
    match outcome:
        case Delivered(receipt, answer, reason):
            return Verdict("delivered", reason=reason, receipt=receipt, answer=answer, sign=sign)
        case Rejected(reason, answer):
            state = "unknown" if may_have_arrived else "dead"
            return Verdict(
                state, may_have_arrived=may_have_arrived, reason=reason, answer=answer, sign=sign
            )
        case RetryLater(reason, after_seconds, counted, answer, shut, alone):
            unknown, asked = may_have_arrived, after_seconds or 0.0
            counted, held_back = counted and shut is None, 0.0 if alone else asked
        case Unknown(reason, answer, held=held) if held or hold_unknown or _holds(policy):
            return Verdict(
                "unknown", may_have_arrived=True, reason=reason, answer=answer, sign=sign
            )
        case Unknown(reason, answer):
            unknown, asked, held_back = True, _settling_seconds(policy), 0.0
            counted, shut = True, None
        case _:
            assert_never(outcome)
    first = policy.backoff_seconds if policy else 1.0
    most = policy.backoff_seconds_max if policy else 3600.0
    own = backoff_seconds(attempts_used, first=first, most=most, jitter=jitter)
    spared = sign is Sign.FAILS
    again = Verdict(
        "pending",
        delay_seconds=max(own, asked),
        counted=counted,
        may_have_arrived=unknown,
        reason=reason,
        answer=answer,
        sign=sign,
        hold_seconds=held_back,
        spare_seconds=max(own, asked) if spared else None,
        spare_reason=reason if spared else None,
    )
    # Where nobody is let in, no message is at fault.
    spent = (
        policy is not None
        and shut is None
        and (
            (counted and attempts_used >= policy.attempts_max)
            or age_seconds >= policy.age_seconds_max
        )
    )
    if not spent:
        return again
    state = "unknown" if unknown else "dead"
    return replace(again, state=state, delay_seconds=0.0, reason=f"gave_up: {reason}")


def after_resend(
    outcome: Outcome,
    *,
    attempts: int,
    age_seconds: float,
    policy: DeliveryPolicy | None,
    jitter: float,
    hold_unknown: bool = False,
) -> Verdict:
    """Where a resend goes after an attempt: another one later, or `delivered`, `dead` or `unknown`.

    Every attempt counts, whatever it tells of the destination: nothing is lost when a resend is given up. A look-up
    would find the delivery that it repeats, so where one is wanted an unknown outcome ends it.
    """
    if isinstance(outcome, RetryLater):
        outcome = replace(outcome, counted=True, shut=None)
    if policy is not None and policy.on_unknown == "lookup":
        policy = replace(policy, on_unknown="hold")
    return after_attempt(
        outcome,
        attempts_used=attempts,
        may_have_arrived=False,
        age_seconds=age_seconds,
        policy=policy,
        jitter=jitter,
        hold_unknown=hold_unknown,
    )


def _holds(policy: DeliveryPolicy | None) -> bool:
    return policy is not None and policy.on_unknown == "hold"


def _settling_seconds(policy: DeliveryPolicy | None) -> float:
    """How long what may be on its way is given to show up, before it is looked for."""
    looks_up = policy is not None and policy.on_unknown == "lookup"
    return policy.lookup_after_seconds if policy is not None and looks_up else 0.0
