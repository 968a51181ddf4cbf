"""The documented shapes of answers. They describe; the calls write by themselves."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.api.codes import ALL_CODES
from app.api.requests import Base64, Json, Time
from app.api.status_schemas import MessageStatus
from app.domain.lifecycle import MESSAGE_MOVES, TURN_MOVES, MessageState, TurnState

Verb = Annotated[str, Field(json_schema_extra={"enum": sorted({*TURN_MOVES, *MESSAGE_MOVES})})]
CodeName = Annotated[str, Field(json_schema_extra={"enum": list(ALL_CODES)})]


class Event(BaseModel):
    """One committed move."""

    number: int
    at: Time
    turn: str
    message: str | None
    verb: Verb
    from_: Annotated[TurnState | MessageState | None, Field(alias="from")]
    to: TurnState | MessageState
    attempt: int | None
    attempt_id: str | None
    reason: str | None
    detail: dict[str, Any]


class Events(BaseModel):
    """A page of events."""

    items: list[Event]
    next_cursor: int | None


class TurnNow(BaseModel):
    """Where the turn is after an operator's call."""

    turn: str
    state: TurnState


class ErasedConversation(BaseModel):
    """The rows that went. Unless it is done, call again, with `next_cursor` as `cursor` if there is one."""

    done: bool
    next_cursor: str | None
    turns: int
    inbound: int
    attempts: int
    messages: int
    events: int
    loopback: int


class MessageNow(BaseModel):
    """Where the message is after an operator's call; `sending` gets no next attempt after a cancel."""

    id: str
    state: MessageState


class Attempt(BaseModel):
    """One attempt at a message. What has not happened is null.

    Of a resend, `attempt` counts its own attempts, and `state` is what came of this one: the message stays delivered.
    """

    attempt: int
    resend: bool
    started_at: Time | None
    ended_at: Time | None
    state: MessageState | None
    reason: str | None
    status: int | None
    answer: str | None
    receipt: str | None


class Message(MessageStatus):
    """One message with its body and its attempts. `address` is where its channel takes it."""

    turn: str
    queue: str
    conversation: str | None
    to: str | None
    address: dict[str, str]
    headers: dict[str, str]
    content_type: str
    sealed_at: Time
    delivered_at: Time | None
    attempt_log: list[Attempt]
    payload: Json = None
    payload_base64: Base64 | None = None


class ReceivedMessage(BaseModel):
    """A message that the loopback channel received, `times` times under its key."""

    idempotency_key: str
    queue: str
    conversation: str | None
    destination: str
    content_type: str
    headers: dict[str, str]
    first_at: Time
    last_at: Time
    times: int
    payload: Json = None
    payload_base64: Base64 | None = None


class ReceivedMessages(BaseModel):
    """A page of what arrived last, newest first."""

    items: list[ReceivedMessage]
    next_cursor: str | None


class Checks(BaseModel):
    """What readiness looks at."""

    database: bool
    loops: dict[str, bool]
    draining: bool
    sources: dict[str, list[str]]
    unconfigured: dict[str, list[str]]


class Ready(BaseModel):
    """Whether work can be done here."""

    ready: bool
    checks: Checks


class FieldProblem(BaseModel):
    """One thing that is wrong: where (an RFC 6901 pointer; for a query, into its names) and a code."""

    pointer: str
    code: CodeName
    detail: str


class ProblemDocument(BaseModel):
    """An RFC 9457 document. `code` is stable; the other members depend on it."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: CodeName
    detail: str
    errors: list[FieldProblem] | None = None
    id: str | None = None
    turn: str | None = None
    reason: str | None = None
    turn_state: TurnState | None = None
    message_state: MessageState | None = None
    operation_state: str | None = None
    payload_hash: str | None = None
