"""What somebody is told of a turn: strict JSON that names it and leads to it, and nothing of what it says."""

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


@dataclass(frozen=True, slots=True)
class NoticeRoute:
    """Which destinations the people of a queue are told at. Who asks a person asks `approvers`, where there are any."""

    escalate_to: str | None = None
    approvers: str | None = None

    def of(self, kind: str) -> str | None:
        """Where a notice of this kind goes; None where nobody is to be told."""
        return self.escalate_to if kind == "escalation" else self.approvers or self.escalate_to


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


def body(notice: Notice, *, public_url: str | None) -> bytes:
    """The notice as it is sent."""
    told = notice.messages[:MESSAGES_MAX]
    fields = {
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
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _spelled(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
