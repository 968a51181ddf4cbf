"""The documented shapes of inbound: the handle of one, and one as it is given to agents and shown."""

from typing import Any

from pydantic import BaseModel

from app.api.requests import Base64, Json, Time
from app.api.status_schemas import Status
from app.domain.lifecycle import TurnState


class Accepted(BaseModel):
    """The handle of an inbound."""

    id: str
    turn: str
    state: TurnState
    duplicate: bool
    key_expires_at: Time


class Attachment(BaseModel):
    """Something that came along: a reference to it, never its bytes."""

    kind: str
    id: str | None = None
    url: str | None = None
    name: str | None = None
    content_type: str | None = None


class View(BaseModel):
    """What a source read from a message: the same few things of every kind, cut to 10,000 characters of text."""

    text: str | None
    sender: str | None
    conversation: str | None
    attachments: list[Attachment]


class ClaimedInbound(BaseModel):
    """One input: its body as `payload`, as `payload_base64`, or to be fetched at `payload_url`."""

    id: str
    source: str
    received_at: Time
    content_type: str
    headers: dict[str, str]
    metadata: dict[str, Any] | None
    view: View | None
    payload: Json = None
    payload_base64: Base64 | None = None
    payload_url: str | None = None


class Inbound(Status, ClaimedInbound):
    """One input with the status of its turn."""

    turn: str
