"""The nouns of the main job as values: what verbs take, and what they answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from app.domain.outcome import Answer


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """What a queue says about its turns. The back-off is `backoff_seconds`, doubling to its maximum."""

    attempts_max: int
    releases_max: int
    backoff_seconds: float
    backoff_seconds_max: float


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """What a destination says about its messages."""

    attempts_max: int
    age_seconds_max: float
    backoff_seconds: float
    backoff_seconds_max: float


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
    """A turn under a lease. The token fences every write of its holder."""

    turn: UUID
    token: UUID
    attempt: int
    lease_expires_in_seconds: float
    conversation: str | None
    inbound: Sequence[ClaimedInbound]
    history: Sequence[EndedAttempt]


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
    state: str


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
    """The whole outbound set of a turn. `request_hash` tells a repeated seal from another one."""

    turn: UUID
    token: UUID
    request_hash: bytes
    messages: Sequence[DraftMessage]


@dataclass(frozen=True, slots=True)
class SealedMessage:
    id: UUID
    key: str
    state: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """The set is recorded; `repeated` tells that it was before."""

    state: str
    payload_hash: str
    messages: Sequence[SealedMessage]
    repeated: bool


@dataclass(frozen=True, slots=True)
class AlreadySealed:
    """This attempt has sealed another set: the hash of the first."""

    payload_hash: str


@dataclass(frozen=True, slots=True)
class Slots:
    """How many more messages a worker can start at one destination, and how long it may hold each."""

    destination: str
    count: int
    lease_seconds: float


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
class Verdict:
    """Where a message goes after an attempt. `counted=False` gives the attempt back."""

    state: str
    delay_seconds: float = 0.0
    counted: bool = True
    may_have_arrived: bool = False
    reason: str | None = None
    receipt: str | None = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The verdict on one attempt."""

    message: UUID
    attempt_id: UUID
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a settlement: `held` tells that its lease still held and the verdict was written."""

    message: UUID
    held: bool


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
