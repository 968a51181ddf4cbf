"""Holds: a sealed set that waits for a person, bound to its hash. Somebody is told of it, in the same transaction."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import Hold, HoldPlan
from app.domain.seal import spell
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class NewHold:
    """A set that is to be held: which, and why."""

    turn: UUID
    seal: int
    attempt: int
    payload_hash: bytes
    strict: bool
    plan: HoldPlan


async def add_holds(connection: "Link", holds: Sequence[NewHold]) -> dict[UUID, Hold]:
    """Hold these sets, whose turns are held by now; returns the hold of each turn."""
    plans = [hold.plan for hold in holds]
    rows = await SQL["add_holds"].rows(
        connection,
        turns=[hold.turn for hold in holds],
        seals=[hold.seal for hold in holds],
        attempts=[hold.attempt for hold in holds],
        payload_hashes=[hold.payload_hash for hold in holds],
        demanded_by=[plan.demanded_by for plan in plans],
        strict=[hold.strict for hold in holds],
        notes=[plan.note for plan in plans],
        on_deadlines=[plan.on_deadline for plan in plans],
    )
    return {row["turn"]: hold_view(row) for row in rows}


async def find_holds(connection: "Link", turns: Collection[UUID]) -> "dict[UUID, list[Record]]":
    """Everything that was held of these turns, first to last."""
    found: dict[UUID, list[Record]] = defaultdict(list)
    for row in await SQL["read_holds"].rows(connection, turns=list(turns)):
        found[row["turn"]].append(row)
    return found


def hold_view(row: "Record") -> Hold:
    """A hold from the row that has its columns."""
    new_hash: bytes | None = row["new_hash"]
    return Hold(
        payload_hash=spell(row["payload_hash"]),
        demanded_by=row["demanded_by"],
        note=row["note"],
        on_deadline=row["on_deadline"],
        held_at=row["held_at"],
        deadline_at=row["deadline_at"],
        reminders=row["reminders"],
        decision=row["decision"],
        decided_at=row["decided_at"],
        decided_by=row["decided_by"],
        comment=row["comment"],
        new_hash=None if new_hash is None else spell(new_hash),
    )
