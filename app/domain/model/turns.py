"""A turn and who works on it: what agents ask for and are given, from claim to seal, and what people change."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from app.domain.model.holds import DraftFollowUp, HistoryEntry, Hold, HoldPlan
from app.domain.record import record


@record(frozen=True, slots=True)
class TurnPolicy:
    """What a queue says about its turns. The back-off is `backoff_seconds`, doubling to its maximum.

    A hold past its deadline is told of again after `reminder_seconds`, doubling likewise.
    """

    attempts_max: int
    releases_max: int
    backoff_seconds: float
    backoff_seconds_max: float
    reminder_seconds: float = 3600.0
    reminder_seconds_max: float = 86_400.0
    revisions_max: int = 5


@record(frozen=True, slots=True)
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


@record(frozen=True, slots=True)
class ClaimedInbound:
    """One input of a claimed turn. `body` is None where the answer had no room for it.

    `view` is what its source read from it, as JSON in ASCII; None for what came over the plain API.
    """

    id: UUID
    source: str
    received_at: datetime
    content_type: str
    headers: Mapping[str, str]
    metadata: str | None
    body: bytes | None
    strict_json: bool
    view: str | None = None


@record(frozen=True, slots=True)
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
    history: Sequence[HistoryEntry]
    waited_seconds: float | None = field(default=None, compare=False)


@record(frozen=True, slots=True)
class LeaseLost:
    """The token no longer holds: why, and where the turn is now."""

    reason: str
    turn_state: str


@record(frozen=True, slots=True)
class NoSuchTurn:
    """There is no such turn."""


@record(frozen=True, slots=True)
class Renewal:
    """A lease to restore. `usage` is the attempt's running total of each field; the greatest ever told counts."""

    turn: UUID
    token: UUID
    usage: Mapping[str, Decimal] | None = None


@record(frozen=True, slots=True)
class Renewed:
    """The lease is restored. `newer_inbound`: so many inbound wait behind this turn in its conversation."""

    lease_expires_in_seconds: float
    newer_inbound: int


@record(frozen=True, slots=True)
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


@record(frozen=True, slots=True)
class HandedBack:
    """A turn was handed back. `wasted` is what its attempt had used, where that came to nothing."""

    state: str
    wasted: Mapping[str, Decimal] = field(default_factory=dict, compare=False)


@record(frozen=True, slots=True)
class DraftMessage:
    """One message of a set, checked and addressed. `hash` covers all that leaves.

    `address` is what its channel made of where it goes. `reply_of` is the inbound whose capability to answer it uses,
    of which nothing is left after `expires_at`. `pace_seconds` is what its channel rests within a conversation.
    """

    destination: str
    recipient: str | None
    conversation: str | None
    headers: Mapping[str, str]
    content_type: str
    body: bytes
    delay_seconds: float
    hash: bytes
    address: str | None = None
    reply_of: UUID | None = None
    expires_at: datetime | None = None
    pace_seconds: float = 0.0


@record(frozen=True, slots=True)
class SealRequest:
    """The whole outbound set of a turn. `request_hash` tells a repeated seal from another one.

    `order` is null for order within each conversation and destination, `strict` for that of the whole set. With `hold`
    nothing of it leaves before a decision.
    """

    turn: UUID
    token: UUID
    request_hash: bytes
    messages: Sequence[DraftMessage]
    order: Literal["strict"] | None = None
    follow_ups: Sequence[DraftFollowUp] = ()
    hold: HoldPlan | None = None


@record(frozen=True, slots=True)
class SealedMessage:
    id: UUID
    key: str
    state: str


@record(frozen=True, slots=True)
class SealedFollowUp:
    """A follow-up of a seal. Held, its turn does not exist yet; `duplicate`: its key stood for this turn before."""

    turn: UUID
    inbound: UUID
    state: str
    queue: str
    key: str
    duplicate: bool = False


@record(frozen=True, slots=True)
class Sealed:
    """The set is recorded, as the turn's `seal`; `repeated` tells that it was before. `hold` is what it waits with.

    `held_seconds` is how long ago the turn was claimed, `age_seconds` how long ago its input came; None for a repeat.
    `promotes` is whether a turn that waited for its lane became due by it, which of a repeat is not known.
    """

    state: str
    payload_hash: str
    messages: Sequence[SealedMessage]
    repeated: bool
    follow_ups: Sequence[SealedFollowUp] = ()
    hold: Hold | None = None
    seal: int = field(default=1, compare=False)
    held_seconds: float | None = field(default=None, compare=False)
    age_seconds: float | None = field(default=None, compare=False)
    promotes: bool = field(default=True, compare=False)


@record(frozen=True, slots=True)
class AlreadySealed:
    """This attempt has sealed another set: the hash of the first."""

    payload_hash: str


@record(frozen=True, slots=True)
class Changed:
    """Where something is after an operator's call. `changed`: this call did it; `repeated`: an earlier one had."""

    state: str
    changed: bool
    repeated: bool = False
