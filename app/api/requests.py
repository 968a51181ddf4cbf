"""The documented shapes of requests. They describe; the calls check by themselves."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.domain.model import Choice, OnDeadline

Name = Annotated[str, Field(min_length=1, max_length=255)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Seconds = Annotated[float, Field(ge=0)]
Json = Annotated[Any, Field(description="Any JSON, kept byte for byte.")]
Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]


class Request(BaseModel):
    """A request: unknown fields are refused, null means absent."""

    model_config = ConfigDict(extra="forbid")


class NewInbound(Request):
    """One durable input. Either `payload`, or `payload_base64` with its `content_type`."""

    queue: Name = "default"
    conversation: Name | None = None
    payload: Json = None
    payload_base64: Base64 | None = None
    content_type: str | None = None
    delay_seconds: Seconds | None = None
    not_before: Time | None = None
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    metadata: dict[str, Any] | None = None


class ClaimTurns(Request):
    """A wish for due turns of one queue."""

    queue: Name
    agent: Name
    max_turns: Annotated[int, Field(ge=1)] = 1
    lease_seconds: Annotated[int, Field(ge=1)] | None = None
    wait_seconds: Seconds = 0
    request_id: Annotated[str, Field(min_length=16, max_length=255)] | None = None
    code_version: Name | None = None


class RenewLease(Request):
    """The token of the lease to restore, and the running totals of what the attempt has used."""

    lease_token: str
    usage: Annotated[dict[str, float | str] | None, Field(max_length=20)] = None


class ReleaseTurn(Request):
    """A turn handed back: free, counted as a failure, or failed for good."""

    lease_token: str
    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    delay_seconds: Seconds = 0
    failed: bool = False
    final: bool = False


class ParkTurn(Request):
    """What the turn waits for, and how long. With `payload_hash` it asks a person about that."""

    lease_token: str
    name: Name
    seconds: Seconds | None = None
    payload_hash: Name | None = None
    note: Annotated[str | None, Field(min_length=1, max_length=4000)] = None


class SignalTurn(Request):
    """What the turn is told; perhaps nothing but the name. `by` is who says it, in words for people."""

    payload: Json = None
    payload_base64: Base64 | None = None
    content_type: str | None = None
    payload_hash: Name | None = None
    by: Name | None = None


class ResolveMessage(Request):
    """What became of a message whose outcome was unknown."""

    state: Literal["delivered", "cancelled"]


class EraseConversation(Request):
    """Which conversation is forgotten. `cancel` ends first what has not ended."""

    queue: str = "default"
    conversation: str
    cancel: bool = False
    cursor: str | None = None


class StopOrGoOn(Request):
    """Why, for whoever looks later. The whole body may be left out."""

    reason: Annotated[str | None, Field(min_length=1, max_length=1000)] = None


class NewMessage(Request):
    """One message to send. Either `payload`, or `payload_base64` with its `content_type`."""

    destination: Name
    to: str | None = None
    payload: Json = None
    payload_base64: Base64 | None = None
    content_type: str | None = None
    headers: dict[str, str] | None = None
    delay_seconds: Seconds = 0
    conversation: Name | None = None


class NewFollowUp(Request):
    """An inbound to come, with a turn of its own: at `not_before`, or so long after its set is let go."""

    queue: Name | None = None
    conversation: Name | None = None
    payload: Json = None
    payload_base64: Base64 | None = None
    content_type: str | None = None
    delay_seconds: Seconds = 0
    not_before: Time | None = None
    key: Annotated[str | None, Field(min_length=1, max_length=255)] = None


class NewHold(Request):
    """A wish that a person looks first. What the queue or a destination demands is never loosened by it."""

    deadline_seconds: Annotated[float | None, Field(gt=0)] = None
    on_deadline: OnDeadline | None = None
    note: Annotated[str | None, Field(min_length=1, max_length=4000)] = None


class SealTurn(Request):
    """The whole outbound set of a turn; an empty one ends the turn without a word."""

    lease_token: str
    messages: list[NewMessage]
    order: Literal["strict"] | None = None
    follow_ups: list[NewFollowUp] | None = None
    hold: NewHold | None = None


class EditedMessage(NewMessage):
    """A message of an edit. `id` names the held message whose key it keeps."""

    id: str | None = None


class DecideTurn(Request):
    """What a person says about the set of this hash. With `messages` an approval sends those instead."""

    decision: Choice
    payload_hash: str
    by: Name
    comment: Annotated[str | None, Field(min_length=1, max_length=4000)] = None
    messages: list[EditedMessage] | None = None
