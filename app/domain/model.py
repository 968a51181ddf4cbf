"""The nouns of the main job as values: what verbs take, and what they answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from app.domain.breaker import BreakerMove, BreakerPolicy, Sign
from app.domain.outcome import Answer

# The source of what comes over the plain API.
API_SOURCE = "api"


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """What a queue says about its turns. The back-off is `backoff_seconds`, doubling to its maximum."""

    attempts_max: int
    releases_max: int
    backoff_seconds: float
    backoff_seconds_max: float


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """What a destination says about its messages. On `hold` an unknown outcome is never repeated without a person."""

    attempts_max: int
    age_seconds_max: float
    backoff_seconds: float
    backoff_seconds_max: float
    on_unknown: Literal["retry", "hold"] = "retry"
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One inbound to accept. `scope` is what its key is unique in; `not_before` wins over `delay_seconds`.

    Neither may lie further ahead than `delay_seconds_max`, by the database's clock.
    """

    scope: str
    key: str
    body_hash: bytes
    queue: str
    source: str
    conversation: str | None
    content_type: str
    body: bytes
    strict_json: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: str | None = None
    priority: int = 0
    delay_seconds: float = 0.0
    not_before: datetime | None = None
    delay_seconds_max: float = 31_536_000.0
    joining: "Joining | None" = None

    @property
    def may_join(self) -> bool:
        """Whether it may share the turn of others of its conversation. What is not due yet joins nobody."""
        on_time = self.not_before is None and not self.delay_seconds
        return self.joining is not None and self.conversation is not None and on_time


@dataclass(frozen=True, slots=True)
class Joining:
    """How inbound of one conversation share a turn: it is due once nothing came for `quiet_seconds`, and at the latest
    `seconds_max` after its first. `inbound_max` and `bytes_max` bound what one turn may gather.
    """

    quiet_seconds: float
    seconds_max: float
    inbound_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The handle of an inbound. `duplicate`: the key was known; `same_body`: and what came was what it stands for."""

    inbound: UUID
    turn: UUID
    state: str
    duplicate: bool
    same_body: bool
    key_expires_at: datetime


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A wish for up to `turns_max` turns of one queue.

    With `request_id` the claim may be repeated by the same principal; `parameters` is what must then be the same.
    Input older than `input_age_seconds_max` is not worth an attempt.
    """

    queue: str
    agent: str
    turns_max: int
    lease_seconds: int
    answer_bytes_max: int
    code_version: str | None = None
    principal: str = ""
    request_id: str | None = None
    parameters: str = ""
    input_age_seconds_max: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimedInbound:
    """One input of a claimed turn. `body` is None where the answer had no room for it."""

    id: UUID
    source: str
    received_at: datetime
    content_type: str
    headers: Mapping[str, str]
    metadata: str | None
    body: bytes | None
    strict_json: bool


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """How an earlier attempt of a turn ended."""

    attempt: int
    ended: str
    reason: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Claimed:
    """A turn under a lease. The token fences every write of its holder.

    `waited_seconds` is from its input to this claim; None for a later attempt, and for a repeated request.
    """

    turn: UUID
    token: UUID
    attempt: int
    lease_expires_in_seconds: float
    conversation: str | None
    inbound: Sequence[ClaimedInbound]
    history: Sequence[EndedAttempt]
    waited_seconds: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The token no longer holds: why, and where the turn is now."""

    reason: str
    turn_state: str


@dataclass(frozen=True, slots=True)
class NoSuchTurn:
    """There is no such turn."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """A lease to restore. `usage` is the attempt's running total of each field; the greatest ever told counts."""

    turn: UUID
    token: UUID
    usage: Mapping[str, Decimal] | None = None


@dataclass(frozen=True, slots=True)
class Renewed:
    """The lease is restored. `newer_inbound`: so many inbound wait behind this turn in its conversation."""

    lease_expires_in_seconds: float
    newer_inbound: int


@dataclass(frozen=True, slots=True)
class HandBack:
    """A turn handed back. `failed` counts the attempt and backs off; `final` ends the turn.

    `untold`: whoever it was leased to never heard of it, so that not even the cap on releases counts.
    """

    turn: UUID
    token: UUID
    reason: str
    delay_seconds: float = 0.0
    failed: bool = False
    final: bool = False
    untold: bool = False


@dataclass(frozen=True, slots=True)
class HandedBack:
    """A turn was handed back. `wasted` is what its attempt had used, where that came to nothing."""

    state: str
    wasted: Mapping[str, Decimal] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class DraftMessage:
    """One message of a set, checked and addressed. `hash` covers all that leaves."""

    destination: str
    recipient: str | None
    conversation: str | None
    headers: Mapping[str, str]
    content_type: str
    body: bytes
    delay_seconds: float
    hash: bytes


@dataclass(frozen=True, slots=True)
class SealRequest:
    """The whole outbound set of a turn. `request_hash` tells a repeated seal from another one.

    `order` is null for order within each conversation and destination, `strict` for that of the whole set.
    """

    turn: UUID
    token: UUID
    request_hash: bytes
    messages: Sequence[DraftMessage]
    order: Literal["strict"] | None = None


@dataclass(frozen=True, slots=True)
class SealedMessage:
    id: UUID
    key: str
    state: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """The set is recorded; `repeated` tells that it was before.

    `held_seconds` is how long ago the turn was claimed, `age_seconds` how long ago its input came; None for a repeat.
    """

    state: str
    payload_hash: str
    messages: Sequence[SealedMessage]
    repeated: bool
    held_seconds: float | None = field(default=None, compare=False)
    age_seconds: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AlreadySealed:
    """This attempt has sealed another set: the hash of the first."""

    payload_hash: str


@dataclass(frozen=True, slots=True)
class Slots:
    """How many more messages a worker can start at one destination, and how long it may hold each.

    With `hold_unknown` an attempt that nobody comes back from is not repeated without a person, whoever finds it.
    `concurrency_max` and `rate_per_second` are limits over all workers. `key_ttl_seconds`: for how long the destination
    remembers a key, so that an attempt that may have arrived is not repeated after that. None is no limit.
    """

    destination: str
    count: int
    lease_seconds: float
    hold_unknown: bool = False
    concurrency_max: int = 1_000
    rate_per_second: float | None = None
    key_ttl_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """One message under a delivery lease: `attempt_id` fences its settling. Times are the database's."""

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


@dataclass(frozen=True, slots=True)
class Takes:
    """What a take gave. `limits` names what keeps a destination from giving more: rate, concurrency, breaker, asked.

    `rest_seconds` is when to come again because of them; None is when something is told of, or with the next poll.
    """

    messages: Sequence[Taken]
    limits: Mapping[str, str] = field(default_factory=dict)
    rest_seconds: float | None = None


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Settlement:
    """The verdict on one attempt."""

    message: UUID
    attempt_id: UUID
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a settlement: `held` tells that its lease still held and the verdict was written.

    `breaker` is the move that the breaker of its destination made, by this or by others of the same call; `turn` the
    move of its turn.
    """

    message: UUID
    held: bool
    breaker: BreakerMove | None = None
    turn: "TurnMove | None" = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TurnMove:
    """A turn that its messages moved: its input came `age_seconds` ago, and its set was sealed `sealed_seconds` ago."""

    turn: UUID
    queue: str
    state: str
    age_seconds: float
    sealed_seconds: float | None


@dataclass(frozen=True, slots=True)
class Fact:
    """A true delivery, by attempt: it holds whoever has the lease now."""

    message: UUID
    attempt_id: UUID
    receipt: str | None
    status: int | None


@dataclass(frozen=True, slots=True)
class Changed:
    """Where something is after an operator's call. `changed`: this call did it; `repeated`: an earlier one had."""

    state: str
    changed: bool
    repeated: bool = False
