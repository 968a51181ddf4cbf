"""What a delivery attempt can end in: a closed sum, so that nobody can forget a case.

`Unknown` is what nobody else names: the request may have acted. Everything that certainly did not act and may act
later is `RetryLater`; everything that will never act is `Rejected`.
"""

from enum import StrEnum
from typing import assert_never

from app.domain.record import record


class Shut(StrEnum):
    """What an answer says of a whole destination: nobody is let in."""

    UNAUTHORIZED = "unauthorized"  # until the credential is right: probed again and again
    GONE = "gone"  # for good: until a person resumes it


@record(frozen=True, slots=True)
class Answer:
    """What the other side said, safe to store: a status and a short excerpt, never a header with a credential."""

    status: int
    excerpt: str = ""


@record(frozen=True, slots=True)
class Delivered:
    """The provider accepted the message. `receipt` is its own name for it, if it gave one.

    `reason` is how that is known, where no answer to an attempt said so.
    """

    receipt: str | None = None
    answer: Answer | None = None
    reason: str | None = None


@record(frozen=True, slots=True)
class NotThere:
    """The provider was asked what became of a message, and has not got it: it may be sent again."""


@record(frozen=True, slots=True)
class RetryLater:
    """The message was certainly not acted upon, and may be later.

    `after_seconds` is the earliest time the other side asked for. With `counted=False` the attempt costs age and no
    attempt: the destination answered, and said when. With `shut` it is the destination that will have nobody, and the
    attempt costs nothing. `alone`: only this conversation is to wait so long, and the destination takes others.
    """

    reason: str
    after_seconds: float | None = None
    counted: bool = True
    answer: Answer | None = None
    shut: Shut | None = None
    alone: bool = False


@record(frozen=True, slots=True)
class Rejected:
    """The message can never be accepted as it is."""

    reason: str
    answer: Answer | None = None


@record(frozen=True, slots=True)
class Unknown:
    """The request may have acted: cut after its first byte, timed out, or an answer nobody documented.

    `ours`: this side ended it, which tells nothing of the destination. `held`: nothing more can be learned, so a person
    decides, whatever the destination says of other attempts.
    """

    reason: str
    answer: Answer | None = None
    ours: bool = False
    held: bool = False


Outcome = Delivered | RetryLater | Rejected | Unknown

# What a provider says when it is asked what became of a message: later it may be asked again, and after `Unknown` it
# may not.
Found = Delivered | NotThere | RetryLater | Unknown


def word_of(outcome: Outcome) -> str:
    """How an outcome is called in metrics and logs."""
    match outcome:
        case Delivered():
            return "delivered"
        case RetryLater():
            return "retry_later"
        case Rejected():
            return "rejected"
        case Unknown():
            return "unknown"
        case _:
            assert_never(outcome)
