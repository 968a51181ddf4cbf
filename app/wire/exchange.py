"""What is known of one outgoing request when it has ended: a closed sum, so that no case can be
forgotten.
"""

from collections.abc import Mapping
from typing import Final

from app.domain.record import record

# The one reason that says nothing of the other side: all of our own threads were taken.
RESOLVER_BUSY: Final = "resolver_busy"


@record(frozen=True, slots=True)
class Answered:
    """A complete header block arrived.

    Header names are lower case and each maps to all its values, in order. `excerpt` is the
    beginning of the body as it came over the wire, undecoded; `complete` says that it is the whole
    body.
    """

    status: int
    headers: Mapping[str, tuple[str, ...]]
    excerpt: bytes
    complete: bool


@record(frozen=True, slots=True)
class NotSent:
    """Not one byte of the request was written: the other side cannot have acted."""

    reason: str


@record(frozen=True, slots=True)
class Cut:
    """The request may have been written, in whole or in part, and no complete header block came
    back.
    """

    reason: str


Exchange = Answered | NotSent | Cut
