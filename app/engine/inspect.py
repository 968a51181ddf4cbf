"""Inspect: read what is, and change nothing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.message import read_parts
from app.domain.model import ClaimedInbound
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link, Statement

SQL = load(__file__)

MESSAGE_EVENTS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a turn belongs: never changes."""

    turn: UUID
    queue: str
    conversation: str | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a turn is. `reached`: it is, or has been, where somebody waits for it to be."""

    state: str
    reached: bool


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message as it is, without its body."""

    id: UUID
    turn: UUID
    queue: str
    conversation: str | None
    destination: str
    state: str
    reason: str | None
    attempts: int
    blocked_by: UUID | None
    due_at: datetime
    receipt: str | None
    delivered_at: datetime | None
    key: str
    recipient: str | None
    content_type: str
    sealed_at: datetime


@dataclass(frozen=True, slots=True)
class MessageDetail:
    """A message with what it says and what happened to it."""

    message: MessageView
    headers: Mapping[str, str]
    address: Mapping[str, str]
    body: bytes
    events: "Sequence[EventView]"


@dataclass(frozen=True, slots=True)
class InboundView:
    """One inbound, whole."""

    queue: str
    turn: UUID
    conversation: str | None
    content: ClaimedInbound


@dataclass(frozen=True, slots=True)
class EventView:
    """One committed move. Without `message` it is the turn's."""

    number: int
    at: datetime
    turn: UUID
    message: UUID | None
    verb: str
    from_state: str | None
    to_state: str
    attempt: int | None
    attempt_id: UUID | None
    reason: str | None
    detail: Mapping[str, object]


async def _read(pool: "Pool", statement: "Statement", **values: object) -> "list[Record]":
    async def work(connection: "Link") -> "list[Record]":
        return await statement.rows(connection, **values)

    return await transact(pool, work, explicit=False)


async def find_place(pool: "Pool", turn: UUID) -> Place | None:
    """Where a turn belongs; None if there is no such turn."""
    return _place(await _read(pool, SQL["find_places"], turns=[turn]))


async def find_inbound_place(pool: "Pool", inbound: UUID) -> Place | None:
    """Where the turn of an inbound belongs; None if there is no such inbound."""
    return _place(await _read(pool, SQL["find_inbound_place"], inbound=inbound))


async def find_message_place(pool: "Pool", message: UUID) -> Place | None:
    """Where the turn of a message belongs; None if there is no such message."""
    return _place(await _read(pool, SQL["find_message_place"], message=message))


async def states_of(connection: "Link", turns: Sequence[UUID]) -> dict[UUID, str]:
    """The state of each turn that exists, inside a transaction of somebody else."""
    rows = await SQL["find_states"].rows(connection, turns=list(turns))
    return {row["id"]: row["state"] for row in rows}


async def find_inbound(pool: "Pool", inbound: UUID) -> InboundView | None:
    """One inbound; None if there is none."""
    for row in await _read(pool, SQL["find_inbound"], inbound=inbound):
        content = ClaimedInbound(
            id=row["id"],
            source=row["source"],
            received_at=row["received_at"],
            content_type=row["content_type"],
            headers=json.loads(row["headers"]),
            metadata=row["metadata"],
            body=row["body"],
            strict_json=row["strict_json"],
            view=row["view"],
        )
        return InboundView(row["queue"], row["turn"], row["conversation"], content)
    return None


async def find_message(pool: "Pool", message: UUID) -> MessageDetail | None:
    """One message with its story; None if there is none."""

    async def work(connection: "Link") -> MessageDetail | None:
        for row in await SQL["find_message"].rows(connection, message=message):
            events = await SQL["find_message_events"].rows(
                connection, turn=row["turn"], message=message, events_max=MESSAGE_EVENTS_MAX
            )
            return MessageDetail(
                message_view(row),
                json.loads(row["headers"]),
                read_parts(row["address"]),
                row["body"],
                [_event(e) for e in events],
            )
        return None

    return await transact(pool, work, explicit=False)


async def find_events(pool: "Pool", turn: UUID, *, after: int, events_max: int) -> list[EventView]:
    """The moves of a turn and its messages behind number `after`, at most `events_max`, in order."""
    rows = await _read(pool, SQL["find_events"], turn=turn, after=after, events_max=events_max)
    return [_event(row) for row in rows]


async def find_progress(pool: "Pool", turn: UUID, state: str) -> Progress | None:
    """How far a turn is on its way to a state; None if there is no such turn."""
    for row in await _read(pool, SQL["find_progress"], turn=turn, state=state):
        return Progress(row["state"], row["reached"] or row["state"] == state)
    return None


async def oldest_queued_seconds(pool: "Pool", queues: Sequence[str]) -> dict[str, float]:
    """How long the next turn of each queue has been due; a queue with nothing due is left out."""
    rows = await _read(pool, SQL["oldest_queued"], queues=list(queues))
    return {row["queue"]: row["age_seconds"] for row in rows}


async def oldest_pending_seconds(pool: "Pool", destinations: Sequence[str]) -> dict[str, float]:
    """How long the next message of each destination has been due; one with nothing due is left out."""
    rows = await _read(pool, SQL["oldest_pending"], destinations=list(destinations))
    return {row["destination"]: row["age_seconds"] for row in rows}


def _place(rows: "Sequence[Record]") -> Place | None:
    return Place(rows[0]["id"], rows[0]["queue"], rows[0]["conversation"]) if rows else None


def message_view(row: "Record") -> MessageView:
    """A message from the row that holds its columns."""
    return MessageView(**{name: row[name] for name in MessageView.__slots__})


def _event(row: "Record") -> EventView:
    return EventView(
        number=row["id"],
        at=row["at"],
        turn=row["turn"],
        message=row["message"],
        verb=row["verb"],
        from_state=row["from_state"],
        to_state=row["to_state"],
        attempt=row["attempt"],
        attempt_id=row["attempt_id"],
        reason=row["reason"],
        detail=json.loads(row["detail"]) if row["detail"] else {},
    )
