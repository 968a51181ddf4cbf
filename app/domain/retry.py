"""When to try again, and when to give up: pure decisions over counts, ages and an outcome.

A message that may have arrived never ends dead, and no decision repeats it earlier than the other side asked.
"""

from typing import assert_never

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
) -> Verdict:
    """Where a message goes after an attempt.

    `attempts_used` includes this attempt; `may_have_arrived` tells of the earlier ones. Without a policy (its
    destination is not configured here) the message waits and is never given up.
    """
    match outcome:
        case Delivered(receipt, answer):
            return Verdict("delivered", receipt=receipt, answer=answer)
        case Rejected(reason, answer):
            state = "unknown" if may_have_arrived else "dead"
            return Verdict(state, may_have_arrived=may_have_arrived, reason=reason, answer=answer)
        case RetryLater(reason, after_seconds, counted, answer):
            unknown, asked = may_have_arrived, after_seconds or 0.0
        case Unknown(reason, answer):
            unknown, asked, counted = True, 0.0, True
        case _:
            assert_never(outcome)
    spent = policy is not None and (
        (counted and attempts_used >= policy.attempts_max) or age_seconds >= policy.age_seconds_max
    )
    if spent:
        state = "unknown" if unknown else "dead"
        return Verdict(
            state,
            counted=counted,
            may_have_arrived=unknown,
            reason=f"gave_up: {reason}",
            answer=answer,
        )
    first = policy.backoff_seconds if policy else 1.0
    most = policy.backoff_seconds_max if policy else 3600.0
    own = backoff_seconds(attempts_used, first=first, most=most, jitter=jitter)
    return Verdict(
        "pending",
        delay_seconds=max(own, asked),
        counted=counted,
        may_have_arrived=unknown,
        reason=reason,
        answer=answer,
    )
