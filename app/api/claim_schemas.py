"""The documented shapes of what an agent is told: claimed turns with their history, and what ends or keeps a lease."""

from typing import Any, Literal

from pydantic import BaseModel

from app.api.inbound_schemas import ClaimedInbound
from app.api.requests import Time
from app.domain.lifecycle import TurnState


class VoidMessage(BaseModel):
    """A message of a set that a reviewer sent back. Its body stands as `payload` or as `payload_base64`."""

    id: str
    destination: str
    to: str | None
    conversation: str | None
    content_type: str
    payload: Any = None
    payload_base64: str | None = None


class VoidFollowUp(BaseModel):
    """What a set that a reviewer sent back asked for later. Its body stands as `payload` or as `payload_base64`."""

    queue: str
    conversation: str | None
    key: str | None
    delay_seconds: float
    not_before: Time | None
    content_type: str
    payload: Any = None
    payload_base64: str | None = None


class Revision(BaseModel):
    """What a reviewer wants instead of the set under this hash. `omitted`: there was no room for what is in it."""

    by: str
    comment: str | None
    payload_hash: str
    messages: list[VoidMessage]
    follow_ups: list[VoidFollowUp]
    omitted: bool = False


class Woken(BaseModel):
    """What ended a park. A deadline says nothing; `omitted`: there was no room for what a signal said."""

    name: str
    by: str | None
    at: Time
    content_type: str | None = None
    payload: Any = None
    payload_base64: str | None = None
    omitted: bool = False


class EndedAttempt(BaseModel):
    """How an earlier attempt ended; `decision` with what was `revised`, `wait` with what was `parked`."""

    attempt: int
    ended: Literal["failed", "parked", "released", "revised", "sealed", "swept"]
    reason: str | None
    at: Time
    decision: Revision | None = None
    wait: Woken | None = None


class ClaimedTurn(BaseModel):
    """A turn under a lease."""

    id: str
    lease_token: str
    attempt: int
    lease_expires_in_seconds: float
    conversation: str | None
    inbound: list[ClaimedInbound]
    steps: list[dict[str, Any]]
    history: list[EndedAttempt]


class ClaimedTurns(BaseModel):
    """What there was to do; perhaps nothing."""

    turns: list[ClaimedTurn]


class Renewed(BaseModel):
    """The restored lease."""

    lease_expires_in_seconds: float
    stop: str | None
    newer_inbound: int


class Parked(BaseModel):
    """Where the turn is now, and until when it waits, if it still does."""

    turn: str
    state: TurnState
    deadline_at: Time | None


class Signalled(BaseModel):
    """The turn has been told; `duplicate`: it had been before."""

    turn: str
    name: str
    state: TurnState
    duplicate: bool


class Released(BaseModel):
    """Where the turn is now."""

    turn: str
    state: TurnState
