"""Held turns, read under their locks with all that a decision about them depends on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from app.domain.lifecycle import TurnState
from app.domain.model import SYSTEM
from app.domain.seal import spell
from app.engine.ending import Ending, lock_held_turns
from app.engine.held_set import HeldSet, read_held_sets
from app.engine.hold import find_holds

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link


@dataclass(frozen=True, slots=True)
class HeldTurn:
    """A turn under its locks, with everything that was ever held of it, and the set that it waits with."""

    row: "Record"
    holds: "Sequence[Record]"
    set: HeldSet | None

    @property
    def state(self) -> str:
        state: str = self.row["state"]
        return state

    @property
    def live(self) -> "Record | None":
        """What waits for a decision now."""
        waits = self.state in (TurnState.HELD, TurnState.ESCALATED)
        return self.holds[-1] if waits and self.holds else None

    @property
    def expired(self) -> Literal["cancel", "send"] | None:
        """What the deadline decides, where it is over and nobody has carried that out yet."""
        live = self.live
        if live is None or self.state != TurnState.HELD or not self.row["is_over"]:
            return None
        match str(live["on_deadline"]):
            case "cancel":
                return "cancel"
            case "send":
                return "send"
            case _:
                return None

    @property
    def is_intact(self) -> bool:
        """Whether what is stored of the set is what was sealed."""
        return self.set is not None and self.set.is_intact

    def held_as(self, payload_hash: str) -> "Record | None":
        """The hold of the set with this hash."""
        return next((one for one in self.holds if spell(one["payload_hash"]) == payload_hash), None)

    def edited_to(self, payload_hash: str) -> "Record | None":
        """The hold of the set that an edit has given this hash."""
        edited = (one for one in self.holds if one["new_hash"] is not None)
        return next((one for one in edited if spell(one["new_hash"]) == payload_hash), None)


async def read_held_turns(
    connection: "Link", turns: Sequence[UUID], *, with_sets: bool = True
) -> dict[UUID, HeldTurn]:
    """Lock these turns behind their lanes, and read them. Without their sets nothing of them can be let go."""
    rows = await lock_held_turns(connection, turns)
    holds = await find_holds(connection, turns)
    sets = await read_held_sets(connection, turns) if holds and with_sets else {}
    return {id_: HeldTurn(row, holds.get(id_, ()), sets.get(id_)) for id_, row in rows.items()}


def sets_of(held: Sequence[HeldTurn]) -> dict[UUID, HeldSet]:
    """The sets that these turns wait with."""
    return {one.set.turn: one.set for one in held if one.set is not None}


def end_by_deadline(held: HeldTurn, decision: Literal["cancel", "send"]) -> Ending:
    """What its deadline makes of a held turn."""
    return Ending(
        turn=held.row["id"],
        seal=held.row["seal"],
        state=held.state,
        payload_hash=held.row["payload_hash"],
        decision=decision,
        by=SYSTEM,
    )
