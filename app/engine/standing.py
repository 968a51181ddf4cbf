"""Standing: a turn as it is, with what it waits for, what was decided about its sets, and what is to follow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import FollowUpView, Hold, WaitView
from app.domain.seal import spell
from app.engine.hold import find_holds, hold_view
from app.engine.inspect import MessageView, message_view
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

_TURN_COLUMNS = (
    "id",
    "inbound",
    "queue",
    "conversation",
    "state",
    "reason",
    "attempt",
    "created_at",
    "due_at",
    "payload_hash",
    "seal",
    "about",
    "root",
    "depth",
    "has_follow_ups",
)
_HOLD_COLUMNS = (
    "demanded_by",
    "note",
    "on_deadline",
    "held_at",
    "deadline_at",
    "reminders",
    "decision",
    "decided_at",
    "decided_by",
    "comment",
)


@dataclass(frozen=True, slots=True)
class HeldSeal:
    """A seal that was held: the set under this number waited, or waits, for a decision."""

    seal: int
    hold: Hold


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn as it is. `messages` and `follow_ups` are those of its live seal, which is none once it is to be revised.

    `hold` is the last that there was, `wait` a park that lasts; `seals` are all that were held.
    """

    id: UUID
    inbound: UUID | None
    queue: str
    conversation: str | None
    state: str
    reason: str | None
    attempt: int
    created_at: datetime
    due_at: datetime
    payload_hash: bytes | None
    seal: int
    about: UUID | None
    root: UUID | None
    depth: int
    hold: HeldSeal | None
    wait: WaitView | None
    has_follow_ups: bool
    messages: Sequence[MessageView] = ()
    follow_ups: Sequence[FollowUpView] = ()
    seals: Sequence[HeldSeal] = ()


async def turn_views(connection: "Link", turns: Sequence[UUID]) -> list[TurnView]:
    """The turns that exist, in any order and without what they said, inside a transaction of somebody else."""
    rows = await SQL["find_turns"].rows(connection, turns=list(turns))
    return [
        TurnView(
            **{name: row[name] for name in _TURN_COLUMNS}, hold=hold_of(row), wait=wait_of(row)
        )
        for row in rows
    ]


async def find_turn(pool: "Pool", turn: UUID) -> TurnView | None:
    """A turn with what its live seal said; None if there is no such turn."""

    async def work(connection: "Link") -> TurnView | None:
        for view in await turn_views(connection, [turn]):
            messages = await SQL["find_messages"].rows(connection, turns=[turn])
            later = await follow_ups_of(connection, turn, view.seal) if view.has_follow_ups else ()
            seals = await held_seals(connection, turn) if view.hold is not None else ()
            shown = [message_view(message) for message in messages]
            return replace(view, messages=shown, follow_ups=later, seals=seals)
        return None

    return await transact(pool, work, explicit=False)


def hold_of(row: "Record") -> HeldSeal | None:
    """The hold of a row with the columns of one, `hold_` before each; None where there is none."""
    if row["hold_seal"] is None:
        return None
    new_hash: bytes | None = row["hold_new_hash"]
    hold = Hold(
        payload_hash=spell(row["hold_payload_hash"]),
        new_hash=None if new_hash is None else spell(new_hash),
        **{name: row[f"hold_{name}"] for name in _HOLD_COLUMNS},
    )
    return HeldSeal(row["hold_seal"], hold)


def wait_of(row: "Record") -> WaitView | None:
    """The wait of a row with the columns of one, `wait_` before each; None where there is none."""
    if row["wait_name"] is None:
        return None
    return WaitView(**{name: row[f"wait_{name}"] for name in WaitView.__slots__})


async def held_seals(connection: "Link", turn: UUID) -> list[HeldSeal]:
    """Every seal of a turn that was held, the first one first, inside a transaction of somebody else."""
    rows = (await find_holds(connection, [turn])).get(turn, ())
    return [HeldSeal(row["seal"], hold_view(row)) for row in rows]


async def follow_ups_of(connection: "Link", turn: UUID, seal: int) -> Sequence[FollowUpView]:
    """What a seal committed for later, in its order, inside a transaction of somebody else."""
    rows = await SQL["find_follow_ups"].rows(connection, turn=turn, seal=seal)
    return [follow_up_view(row) for row in rows]


def follow_up_view(row: "Record") -> FollowUpView:
    """A follow-up from the row that holds its columns."""
    return FollowUpView(**{name: row[name] for name in FollowUpView.__slots__})
