"""The documented shapes of how a turn stands, and of what it sealed."""

from typing import Literal

from pydantic import BaseModel

from app.api.requests import Base64, Time
from app.domain.lifecycle import MessageState, TurnState
from app.domain.model import DecisionName, DemandedBy, OnDeadline


class MessageStatus(BaseModel):
    """How a message stands."""

    id: str
    destination: str
    state: MessageState
    attempts: int
    next_attempt_at: Time | None
    blocked_by: str | None
    idempotency_key: str
    receipt: str | None
    reason: str | None


class Hold(BaseModel):
    """A held set and what was decided about it. A key that may only accept reads no word of agents and reviewers."""

    seal: int
    state: Literal["open", "escalated", "decided"]
    payload_hash: str
    demanded_by: DemandedBy
    note: str | None
    on_deadline: OnDeadline
    held_at: Time
    deadline_at: Time
    reminders: int
    decision: DecisionName | None
    decided_at: Time | None
    decided_by: str | None
    comment: str | None
    new_hash: str | None


class Wait(BaseModel):
    """A park that lasts."""

    name: str
    note: str | None
    payload_hash: str | None
    asked_at: Time
    deadline_at: Time


class FollowUp(BaseModel):
    """What a seal committed for later: `held` or `cancelled` until its turn exists, then as that is."""

    turn: str
    inbound: str
    queue: str
    conversation: str | None
    state: TurnState | Literal["accepted"]
    key: str
    delay_seconds: float
    not_before: Time | None
    due_at: Time | None


class Seal(BaseModel):
    """A set that can be read under its number."""

    seal: int
    payload_hash: str
    is_live: bool


class Status(BaseModel):
    """How a turn stands. Lists, and keys that may only accept, have none of the last three."""

    queue: str
    conversation: str | None
    state: TurnState
    reason: str | None
    attempt: int
    created_at: Time
    due_at: Time | None
    hold: Hold | None
    wait: Wait | None
    payload_hash: str | None
    about: str | None
    root: str | None
    depth: int
    messages: list[MessageStatus] | None = None
    follow_ups: list[FollowUp] | None = None
    seals: list[Seal] | None = None


class Turn(Status):
    """One turn. What tells of another has no `inbound`."""

    id: str
    inbound: str | None


class SetMessage(MessageStatus):
    """A message of a set, whole. `address` is where its channel takes it."""

    to: str | None
    address: dict[str, str]
    conversation: str | None
    headers: dict[str, str]
    delay_seconds: float
    content_type: str
    payload_base64: Base64


class SetFollowUp(FollowUp):
    """A follow-up of a set. Once it has come to be, its body is its inbound's."""

    content_type: str
    payload_base64: Base64 | None


class SealedSet(BaseModel):
    """What a turn sealed under a number, byte for byte. It is live unless it was revised or edited away."""

    turn: str
    queue: str
    conversation: str | None
    turn_state: TurnState
    seal: int
    is_live: bool
    payload_hash: str
    order: Literal["strict"] | None
    hold: Hold | None
    messages: list[SetMessage]
    follow_ups: list[SetFollowUp]
