"""Messages on their way: what is taken, what an attempt came to, and what follows for the turn."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Literal
from uuid import UUID

from app.domain.breaker import BreakerMove, BreakerPolicy, Sign
from app.domain.outcome import Answer
from app.domain.record import record

OnUnknown = Literal["retry", "lookup", "hold"]


@record(frozen=True, slots=True)
class DeliveryPolicy:
    """What a destination says about its messages. On `hold` an unknown outcome is never repeated without a person; on
    `lookup` not before the destination was asked, `lookup_after_seconds` later at the earliest.
    """

    attempts_max: int
    age_seconds_max: float
    backoff_seconds: float
    backoff_seconds_max: float
    on_unknown: OnUnknown = "retry"
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    lookup_after_seconds: float = 0.0


@record(frozen=True, slots=True)
class Slots:
    """How many more messages a worker can start at one destination, and how long it may hold each.

    With `hold_unknown` an attempt that nobody comes back from is not repeated without a person, whoever finds it.
    `concurrency_max` and `rate_per_second` are limits over all workers. `key_ttl_seconds`: for how long the destination
    remembers a key, so that an attempt that may have arrived is not repeated after that. None is no limit. With `since`
    nothing is looked for that was due before.
    """

    destination: str
    count: int
    lease_seconds: float
    hold_unknown: bool = False
    concurrency_max: int = 1_000
    rate_per_second: float | None = None
    key_ttl_seconds: float | None = None
    since: datetime | None = None


@record(frozen=True, slots=True)
class Taken:
    """One message under a delivery lease: `attempt_id` fences its settling. Times are the database's.

    `address` is what its channel made of it at the seal, and `reply` what its inbound may be answered with, while that
    holds. `is_wanted`: since the last attempt a person has said that it is to be sent, whatever became of that.
    `first_attempted_at` is there where an attempt may have arrived.
    """

    message: UUID
    turn: UUID
    attempt_id: UUID
    attempt: int
    attempts_used: int
    may_have_arrived: bool
    age_seconds: float
    queue: str
    conversation: str | None
    destination: str
    key: str
    recipient: str | None
    headers: Mapping[str, str]
    content_type: str
    body: bytes
    sealed_at: datetime
    attempted_at: datetime
    expires_at: datetime | None
    address: str | None = None
    reply: bytes | None = None
    is_wanted: bool = False
    first_attempted_at: datetime | None = None


@record(frozen=True, slots=True)
class Takes:
    """What a take gave. `limits` names what keeps a destination from giving more: rate, concurrency, breaker, asked.

    `rest_seconds` is when to come again because of them; None is when something is told of, or with the next poll.
    `latest` is when the last of what a destination gave was due.
    """

    messages: Sequence[Taken]
    limits: Mapping[str, str] = field(default_factory=dict)
    rest_seconds: float | None = None
    latest: Mapping[str, datetime] = field(default_factory=dict)


@record(frozen=True, slots=True)
class Verdict:
    """Where a message goes after an attempt. `counted=False` gives the attempt back.

    `sign` is what the attempt tells of its destination, and `hold_seconds` for how long that asked to be left alone.
    With `spare_seconds` the message goes back pending, uncounted, for so long, where the breaker of its destination is
    not closed; its reason is `spare_reason` then.
    """

    state: str
    delay_seconds: float = 0.0
    counted: bool = True
    may_have_arrived: bool = False
    reason: str | None = None
    receipt: str | None = None
    answer: Answer | None = None
    sign: Sign = Sign.NOTHING
    hold_seconds: float = 0.0
    spare_seconds: float | None = None
    spare_reason: str | None = None


@record(frozen=True, slots=True)
class Settlement:
    """The verdict on one attempt."""

    message: UUID
    attempt_id: UUID
    verdict: Verdict


@record(frozen=True, slots=True)
class Settled:
    """What became of a settlement: `held` tells that its lease still held and the verdict was written.

    `breaker` is the move that the breaker of its destination made, by this or by others of the same call; `turn` the
    move of its turn.
    """

    message: UUID
    held: bool
    breaker: BreakerMove | None = None
    turn: "TurnMove | None" = field(default=None, compare=False)


@record(frozen=True, slots=True)
class TurnMove:
    """A turn that its messages moved: its input came `age_seconds` ago, and its set was sealed `sealed_seconds` ago."""

    turn: UUID
    queue: str
    state: str
    age_seconds: float
    sealed_seconds: float | None


@record(frozen=True, slots=True)
class Fact:
    """A true delivery, by attempt: it holds whoever has the lease now."""

    message: UUID
    attempt_id: UUID
    receipt: str | None
    status: int | None
