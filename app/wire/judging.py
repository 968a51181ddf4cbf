"""What an exchange says by itself, before anybody has read what the provider means by it.

Nothing written cannot have acted; cut may have. A status is read as HTTP means it, for channels to refine.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

from app.domain.outcome import (
    Answer,
    Delivered,
    Found,
    Outcome,
    Rejected,
    RetryLater,
    Shut,
    Unknown,
)
from app.domain.retry_after import parse_http_date, parse_retry_after
from app.wire.excerpt import safe_excerpt
from app.wire.exchange import RESOLVER_BUSY, Answered, Cut, NotSent

DATE_SKEW_SECONDS_MAX = 86_400.0


def unanswered(exchange: NotSent | Cut) -> RetryLater | Unknown:
    """What is known of a request that got no answer."""
    if isinstance(exchange, Cut):
        return Unknown(exchange.reason)
    # Waiting for ourselves is no failure of the destination.
    return RetryLater(exchange.reason, counted=exchange.reason != RESOLVER_BUSY)


def shown(exchange: Answered, *, hidden: Sequence[str]) -> Answer:
    """An answer as it may be stored: its status, and how it begins without what is `hidden`."""
    return Answer(exchange.status, safe_excerpt(exchange.excerpt, hidden=hidden))


def asked_seconds(exchange: Answered, *, now: datetime) -> float | None:
    """What `Retry-After` asks for, measured on the other side's own clock while that is near enough
    to ours.
    """
    dates = exchange.headers.get("date", ())
    theirs = parse_http_date(dates[0], now=now) if dates else None
    if theirs is not None and abs((theirs - now).total_seconds()) <= DATE_SKEW_SECONDS_MAX:
        now = theirs
    return parse_retry_after(exchange.headers.get("retry-after", ()), now=now)


def unauthorized(reason: str, answer: Answer) -> RetryLater:
    """The credential is wrong for every message: none of them is at fault."""
    return RetryLater(reason, counted=False, answer=answer, shut=Shut.UNAUTHORIZED)


def throttled(
    reason: str, answer: Answer, *, after_seconds: float | None, alone: bool = False
) -> RetryLater:
    """Too much at once: whoever says so has not failed, and it costs no attempt."""
    return RetryLater(
        reason, after_seconds=after_seconds, counted=False, answer=answer, alone=alone
    )


def not_found_out(outcome: Outcome) -> Found:
    """What a look-up tells whose own answer was this: one that was refused for good will be refused again."""
    match outcome:
        case RetryLater():
            return outcome
        case Rejected():
            return Unknown(f"lookup: {outcome.reason}", outcome.answer, ours=True)
        case Delivered():
            return RetryLater("lookup: answer_unreadable", answer=outcome.answer)
        case Unknown():
            return RetryLater(f"lookup: {outcome.reason}", answer=outcome.answer)
        case _:
            assert_never(outcome)


def by_status(exchange: Answered, answer: Answer, *, now: datetime) -> Outcome:
    """What the status of an API means where its body says nothing: a 2xx that cannot be read is unknown."""
    reason, after = f"http_{answer.status}", asked_seconds(exchange, now=now)
    match answer.status:
        case 401:
            return unauthorized(reason, answer)
        case 429:
            return throttled(reason, answer, after_seconds=after)
        case 408 | 425 | 503:
            return RetryLater(reason, after_seconds=after, counted=after is None, answer=answer)
        case _:
            pass
    match answer.status // 100:
        case 2:
            return Unknown("answer_unreadable", answer=answer)
        case 3:
            return Rejected("redirect_not_followed", answer=answer)
        case 4:
            return Rejected(reason, answer=answer)
        case _:
            return Unknown(reason, answer=answer)
