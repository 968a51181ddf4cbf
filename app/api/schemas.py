"""The documented shapes of answers. They describe; the calls write by themselves."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.codes import ALL_CODES
from app.api.requests import Base64, Json, Time
from app.api.status_schemas import MessageStatus, Status
from app.domain.lifecycle import MESSAGE_MOVES, TURN_MOVES, MessageState, TurnState

Verb = Annotated[str, Field(json_schema_extra={"enum": sorted({*TURN_MOVES, *MESSAGE_MOVES})})]
CodeName = Annotated[str, Field(json_schema_extra={"enum": list(ALL_CODES)})]


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


class VoidMessage(BaseModel):
    """A message of a set that a reviewer sent back. Its body stands as `payload` or as `payload_base64`."""

    id: str
    destination: str
    to: str | None
    conversation: str | None
    content_type: str
    payload: Any = None
    payload_base64: str | None = None


class Revision(BaseModel):
    """What a reviewer wants instead of the set under this hash. `omitted`: there was no room for its messages."""

    by: str
    comment: str | None
    payload_hash: str
    messages: list[VoidMessage]
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
