"""What waits: sets for a decision, turns for a signal, follow-ups for their time."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from app.domain.record import record

if TYPE_CHECKING:
    from app.domain.model.turns import DraftMessage, SealedFollowUp, SealedMessage

OnDeadline = Literal["escalate", "cancel", "send"]
DemandedBy = Literal["seal", "queue", "destination"]
# What a person says, and what is decided by it or by nobody.
Choice = Literal["approve", "reject", "revise"]
DecisionName = Literal["approve", "edit", "reject", "revise", "cancel", "send"]

# Who decides when nobody does.
SYSTEM = "system"


@record(frozen=True, slots=True)
class HoldPlan:
    """Why and for how long a set is held, as the seal, its queue and its destinations together demand it.

    With `keeps_lane` the conversation waits, too.
    """

    demanded_by: DemandedBy
    deadline_seconds: float
    on_deadline: OnDeadline
    keeps_lane: bool = True
    note: str | None = None


@record(frozen=True, slots=True)
class DraftFollowUp:
    """An inbound to come, checked and addressed. `delay_seconds` counts from when its set is let go; `not_before` wins.

    Without `key` it has one of its own. `hash` covers all of it.
    """

    queue: str
    conversation: str | None
    content_type: str
    body: bytes
    strict_json: bool
    delay_seconds: float
    not_before: datetime | None
    key: str | None
    hash: bytes


@record(frozen=True, slots=True)
class FollowUpView:
    """A follow-up as it is. `state` is its turn's once that exists; until then `held`, or `cancelled`.

    `due_at` is when it starts, while it is scheduled.
    """

    turn: UUID
    inbound: UUID
    queue: str
    conversation: str | None
    state: str
    key: str
    delay_seconds: float
    not_before: datetime | None
    due_at: datetime | None = None


@record(frozen=True, slots=True)
class Hold:
    """A held seal and what was decided about it. `decision` is None while it can still be decided.

    `deadline_at` is the first one, `reminders` how often somebody was told after it.
    """

    payload_hash: str
    demanded_by: str
    note: str | None
    on_deadline: OnDeadline
    held_at: datetime
    deadline_at: datetime
    reminders: int
    decision: DecisionName | None
    decided_at: datetime | None
    decided_by: str | None
    comment: str | None
    new_hash: str | None


@record(frozen=True, slots=True)
class WaitView:
    """A park that lasts: under which name, since when, until when, and what a person was asked about."""

    name: str
    note: str | None
    payload_hash: str | None
    asked_at: datetime
    deadline_at: datetime


@record(frozen=True, slots=True)
class HistoryEntry:
    """How an earlier attempt of a turn ended, with what was said about it: a reviewer's revision, or a signal."""

    attempt: int
    ended: str
    reason: str | None
    at: datetime
    said: "Said | None" = None


@record(frozen=True, slots=True)
class Revision:
    """A set that came back: who wanted what, and all of it that is void. `omitted`: there was no room for that."""

    by: str
    comment: str | None
    payload_hash: str
    messages: Sequence["VoidMessage"]
    follow_ups: Sequence["VoidFollowUp"]
    omitted: bool = False


@record(frozen=True, slots=True)
class VoidMessage:
    """A message that was held and is not sent."""

    id: UUID
    destination: str
    recipient: str | None
    conversation: str | None
    content_type: str
    body: bytes


@record(frozen=True, slots=True)
class VoidFollowUp:
    """A follow-up that was held and does not come to be. `key` is the one that it was given."""

    queue: str
    conversation: str | None
    key: str | None
    delay_seconds: float
    not_before: datetime | None
    content_type: str
    body: bytes


@record(frozen=True, slots=True)
class Woken:
    """What ended a park: a signal with its payload, or the deadline, which has none. `omitted`: there was no room."""

    name: str
    by: str | None
    at: datetime
    content_type: str | None
    body: bytes | None
    strict_json: bool
    omitted: bool = False


Said = Revision | Woken


@record(frozen=True, slots=True)
class EditedMessage:
    """A message as a reviewer wants it. `replaces` names the held message whose key it keeps.

    `asked` is the hash of what he wrote: where that goes by itself may be another answer when he says it again.
    """

    draft: "DraftMessage"
    replaces: UUID | None = None
    asked: bytes | None = None


@record(frozen=True, slots=True)
class Decision:
    """What a person says about a held set of this hash, as it is spelled. With `messages` an approval is an edit.

    `request_hash` tells the same decision again from another. `key` is the id of the key that it came with. One that is
    not `allowed` here and now is only answered if it was made before.
    """

    turn: UUID
    decision: Choice
    payload_hash: str
    by: str
    key: str
    request_hash: bytes
    comment: str | None = None
    messages: Sequence[EditedMessage] | None = None
    allowed: bool = True


@record(frozen=True, slots=True)
class Decided:
    """What was decided, by this call or, `repeated`, by the first one that said the same. `state` is the turn's.

    `seal` numbers the set that was held. Messages and follow-ups are what became of it, an edit included.
    """

    seal: int
    hold: Hold
    state: str
    messages: "Sequence[SealedMessage]"
    follow_ups: "Sequence[SealedFollowUp]"
    repeated: bool


@record(frozen=True, slots=True)
class AlreadyDecided:
    """Something else was decided before about the set of this `seal`."""

    seal: int
    hold: Hold
    state: str


@record(frozen=True, slots=True)
class PayloadChanged:
    """The set is not the one that was seen: the hash of the one that is there now, spelled, if there is one."""

    payload_hash: str | None
    state: str


@record(frozen=True, slots=True)
class NotHeld:
    """Nothing of the turn was ever held."""

    state: str


@record(frozen=True, slots=True)
class RevisionsExhausted:
    """It was sent back as often as its queue allows; it is still held."""

    revisions_max: int
    state: str


@record(frozen=True, slots=True)
class NotIntact:
    """What is stored is not what was sealed: nothing was let go, and somebody is told."""

    state: str


@record(frozen=True, slots=True)
class UnknownMessage:
    """A message of an edit names one that is not of the set, or twice the same: its place in the list."""

    position: int


@record(frozen=True, slots=True)
class NotAllowed:
    """It would have been a first decision, which is not allowed here and now."""
