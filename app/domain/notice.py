"""What somebody is told of a turn: strict JSON that names it and leads to it, and nothing of what it says.

A program is told in fields. A person in a chat or a mailbox is told the same in a few lines.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, cast
from urllib.parse import quote
from uuid import UUID

from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX, format_id

NoticeKind = Literal["escalation", "hold", "wait"]
KINDS: Final[tuple[NoticeKind, ...]] = ("escalation", "hold", "wait")

CONTENT_TYPE: Final = "application/json"
# What a person reads ends somewhere: the link leads to the rest.
MESSAGES_MAX: Final = 100
NOTE_SHOWN_MAX: Final = 500

# How a destination wants it: all of it in fields, or lines with or without a subject.
NoticeShape = Literal["document", "letter", "text"]
SHAPES: Final[tuple[NoticeShape, ...]] = ("document", "letter", "text")


@dataclass(frozen=True, slots=True)
class NoticeRoute:
    """Which destinations the people of a queue are told at. Who asks a person asks `approvers`, where there are any."""

    escalate_to: str | None = None
    approvers: str | None = None

    def of(self, kind: str) -> str | None:
        """Where a notice of this kind goes; None where nobody is to be told."""
        return self.escalate_to if kind == "escalation" else self.approvers or self.escalate_to


@dataclass(frozen=True, slots=True)
class NoticeForm:
    """What a destination takes of a notice, and where in it that goes, as its channel spells an address."""

    shape: NoticeShape = "document"
    address: str | None = None


@dataclass(frozen=True, slots=True)
class ToldMessage:
    """A message that a notice names, without what it says."""

    id: UUID
    destination: str
    state: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Notice:
    """What somebody is told, about one turn. `payload_hash` is what a decision has to name, spelled.

    `name` is the signal that a wait is for; `reminders` is how often somebody was told after the deadline.
    """

    kind: NoticeKind
    reason: str
    turn: UUID
    queue: str
    conversation: str | None
    state: str
    payload_hash: str | None
    note: str | None
    deadline_at: datetime | None
    on_deadline: str | None
    at: datetime
    name: str | None = None
    reminders: int = 0
    messages: Sequence[ToldMessage] = ()


def read_kind(text: str) -> NoticeKind:
    """The kind that a row names: a constraint lets no other in."""
    return cast("NoticeKind", text)


def link(turn: UUID, payload_hash: str | None, *, public_url: str | None) -> str:
    """Where a person sees the turn. It shows and decides nothing, so that whoever fetches links does no harm."""
    path = f"{public_url or ''}/console/turns/{format_id(TURN_PREFIX, turn)}"
    return path if payload_hash is None else f"{path}?hash={quote(payload_hash, safe=':')}"


def body(notice: Notice, *, public_url: str | None, shape: NoticeShape = "document") -> bytes:
    """The notice as it is sent."""
    match shape:
        case "document":
            return _json(_fields(notice, public_url))
        case "letter":
            return _json({"subject": subject(notice), "text": lines(notice, public_url=public_url)})
        case "text":
            return _json({"text": lines(notice, public_url=public_url)})


def subject(notice: Notice) -> str:
    """One line that says what a notice is about."""
    match notice.kind:
        case "hold":
            return "A set of messages waits for a decision"
        case "wait":
            return "A turn waits for an answer"
        case "escalation":
            return f"A turn needs somebody: {notice.reason}"


def lines(notice: Notice, *, public_url: str | None) -> str:
    """The notice for a person: bounded, and a note is cut."""
    note = notice.note or ""
    cut = note if len(note) <= NOTE_SHOWN_MAX else f"{note[:NOTE_SHOWN_MAX]} ..."
    facts = {
        "queue": notice.queue,
        "state": notice.state,
        "reason": notice.reason,
        "note": cut,
        "until": _spelled(notice.deadline_at),
        "then": notice.on_deadline,
        "turn": format_id(TURN_PREFIX, notice.turn),
        "hash": notice.payload_hash,
    }
    told = [f"{name}: {value}" for name, value in facts.items() if value]
    address = link(notice.turn, notice.payload_hash, public_url=public_url)
    return "\n".join([subject(notice), *told, address])


def _fields(notice: Notice, public_url: str | None) -> dict[str, object]:
    told = notice.messages[:MESSAGES_MAX]
    return {
        "kind": notice.kind,
        "reason": notice.reason,
        "turn": format_id(TURN_PREFIX, notice.turn),
        "queue": notice.queue,
        "conversation": notice.conversation,
        "state": notice.state,
        "payload_hash": notice.payload_hash,
        "note": notice.note,
        "name": notice.name,
        "deadline_at": _spelled(notice.deadline_at),
        "on_deadline": notice.on_deadline,
        "reminders": notice.reminders,
        "messages": [
            {
                "id": format_id(MESSAGE_PREFIX, one.id),
                "destination": one.destination,
                "state": one.state,
                "reason": one.reason,
            }
            for one in told
        ],
        "messages_count": len(notice.messages),
        "link": link(notice.turn, notice.payload_hash, public_url=public_url),
        "at": _spelled(notice.at),
    }


def _json(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _spelled(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
