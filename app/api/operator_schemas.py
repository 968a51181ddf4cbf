"""The documented shapes of what lists, batches and operations over many are asked and answer."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.requests import Name, NewInbound, Request, Time
from app.api.status_schemas import MessageStatus, Turn
from app.domain.lifecycle import MessageState, TurnState


class Turns(BaseModel):
    """A page of turns, newest first, without their messages. There may be more although it holds few, or none."""

    items: list[Turn]
    next_cursor: str | None


class ListedMessage(MessageStatus):
    """A message without its body."""

    turn: str
    queue: str
    conversation: str | None
    to: str | None
    content_type: str
    sealed_at: Time
    delivered_at: Time | None


class ListedMessages(BaseModel):
    """A page of messages, newest first. There may be more although it holds few, or none."""

    items: list[ListedMessage]
    next_cursor: str | None


class BatchItem(NewInbound):
    """One inbound with its key."""

    idempotency_key: Annotated[str, Field(min_length=1, max_length=255)]


class InboundBatch(Request):
    """Many inbound; those of one conversation keep their order."""

    items: list[BatchItem]


class BatchResult(BaseModel):
    """What a call of its own would have answered: its status, and the members of that answer or problem."""

    model_config = ConfigDict(extra="allow")

    status: int
    id: str | None = None
    turn: str | None = None
    state: TurnState | None = None
    duplicate: bool | None = None
    key_expires_at: Time | None = None
    code: str | None = None
    detail: str | None = None
    errors: list[dict[str, Any]] | None = None
    retry_after_seconds: int | None = None


class BatchResults(BaseModel):
    """One result for each item, in order."""

    results: list[BatchResult]


class TurnFilter(Request):
    """Which turns: of all these, or with `all` every one. Without `state` all that the verb does something to."""

    all: bool = False
    state: TurnState | list[TurnState] | None = None
    queue: Name | None = None
    conversation: Name | None = None
    reason: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None


class MessageFilter(Request):
    """Which messages: of all these, or with `all` every one. Without `state` all that the verb does something to.

    Times are for resend alone.
    """

    all: bool = False
    state: MessageState | list[MessageState] | None = None
    queue: Name | None = None
    destination: Name | None = None
    reason: str | None = None
    delivered_after: Time | None = None
    delivered_before: Time | None = None


class BulkTurns(Request):
    """A verb over every turn that matches now. With `dry_run` they are counted, and nothing is changed."""

    verb: Literal["cancel", "redrive"]
    filter: TurnFilter
    dry_run: bool = False
    reason: Annotated[str | None, Field(max_length=1000)] = None


class BulkMessages(Request):
    """A verb over every message that matches now; `outcome` is what resolve says. With `dry_run` they are counted."""

    verb: Literal["cancel", "redrive", "resolve", "resend"]
    filter: MessageFilter
    outcome: Literal["delivered", "cancelled"] | None = None
    dry_run: bool = False
    reason: Annotated[str | None, Field(max_length=1000)] = None


class Counted(BaseModel):
    """How many match: exactly, unless there may be `more`."""

    dry_run: Literal[True]
    found: int
    more: bool


class Operation(BaseModel):
    """A verb over many, and how far it is: `found` are those that were `changed`, `refused` or `failed` so far."""

    id: str
    kind: Literal["turn", "message"]
    verb: Literal["cancel", "redrive", "resolve", "resend"]
    outcome: Literal["delivered", "cancelled"] | None
    filter: dict[str, Any]
    reason: str | None
    state: Literal["running", "done", "cancelled"]
    created_at: Time
    created_by: str
    ended_at: Time | None
    found: int
    changed: int
    refused: int
    failed: int


class Operations(BaseModel):
    """A page of operations, newest first."""

    items: list[Operation]
    next_cursor: str | None
