"""The documented shapes of what a seal and a decision answer."""

from typing import Literal

from pydantic import BaseModel

from app.api.requests import Time
from app.api.status_schemas import Hold
from app.domain.lifecycle import MessageState, TurnState


class SealedMessage(BaseModel):
    """A message of the sealed set."""

    id: str
    idempotency_key: str
    state: MessageState


class SealedFollowUp(BaseModel):
    """What follows a set. Held or cancelled with it, its turn does not exist. `duplicate`: its key was known before."""

    turn: str
    inbound: str
    state: TurnState
    queue: str
    key: str
    duplicate: bool


class Sealed(BaseModel):
    """The recorded set. With `hold` it waits for a decision about this `payload_hash`."""

    turn: str
    state: TurnState
    payload_hash: str
    messages: list[SealedMessage]
    follow_ups: list[SealedFollowUp]
    hold: Hold | None


class Decided(BaseModel):
    """What was decided first about the set of this hash, and what became of it. An edit gave it `new_hash`."""

    turn: str
    state: TurnState
    decision: Literal["approve", "edit", "reject", "revise"]
    payload_hash: str
    new_hash: str | None
    by: str
    at: Time
    comment: str | None
    messages: list[SealedMessage]
    follow_ups: list[SealedFollowUp]
