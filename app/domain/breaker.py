"""What attempts tell of a destination as a whole, and when its breaker opens.

A breaker pauses and probes. It never drops: what fails while it is not closed costs its message nothing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Shut, Unknown


class BreakerState(StrEnum):
    """Whether a destination is sent to. The comment says what moves it on."""

    CLOSED = "closed"  # everything is sent: attempts in vain, a revoked credential, a 410
    OPEN = "open"  # nothing is sent: its time is over and a message is due, then one is
    PROBING = "probing"  # one message is being sent: what becomes of it
    DISABLED = "disabled"  # nothing is sent: a person resumes it


class Sign(StrEnum):
    """What one attempt tells of its destination."""

    WORKS = "works"
    FAILS = "fails"
    UNAUTHORIZED = "unauthorized"
    GONE = "gone"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """Opens after `failures` attempts in vain, one after the other, for `seconds`, which double with each opening."""

    failures: int = 10
    seconds: float = 5.0
    seconds_max: float = 300.0


@dataclass(frozen=True, slots=True)
class BreakerMove:
    """A breaker changed its state. `seconds`: until the next probe, where there is one."""

    destination: str
    before: str
    after: str
    reason: str | None
    seconds: float | None


def sign_of(outcome: Outcome) -> Sign:
    """An answer that decides about the message shows that the destination works, a rejection too.

    Who says when to come back has not failed; who is never reached, does not answer, breaks or throttles without a word
    about when has.
    """
    match outcome:
        case Delivered():
            return Sign.WORKS
        case Rejected(_, answer):
            return Sign.NOTHING if answer is None else Sign.WORKS
        case RetryLater(shut=Shut.GONE):
            return Sign.GONE
        case RetryLater(shut=Shut.UNAUTHORIZED):
            return Sign.UNAUTHORIZED
        case RetryLater(_, after_seconds, counted, answer):
            said_when = after_seconds is not None
            waited_here = not counted and answer is None
            return Sign.NOTHING if said_when or waited_here else Sign.FAILS
        case Unknown(ours=ours):
            return Sign.NOTHING if ours else Sign.FAILS
        case _:
            assert_never(outcome)
