"""Redrive: a person gives what has failed a new allowance. Keys, bytes and places stay what they were.

Repeatable: what is no longer failed, dead or unknown is left alone, and its state is the answer, with whether it was
redriven before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import Changed
from app.engine.delivery import follow_up, lock_for_messages
from app.engine.inspect import states_of
from app.engine.lane import lock_lanes, lock_turns
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def redrive_turns(pool: "Pool", turns: Sequence[UUID], *, by: str) -> list[Changed | None]:
    """Redrive each turn that failed, or whose set has dead or unknown messages; None for one that does not exist."""

    async def work(connection: "Link") -> list[Changed | None]:
        await hold_turns(connection, turns)
        return await redrive_held_turns(connection, turns, by=by)

    return await transact(pool, work)


async def hold_turns(connection: "Link", turns: Sequence[UUID]) -> None:
    """Take the locks that redriving these turns needs."""
    await lock_lanes(connection, turns)
    await lock_turns(connection, turns)


async def redrive_held_turns(
    connection: "Link", turns: Sequence[UUID], *, by: str
) -> list[Changed | None]:
    """Redrive turns that are held, inside a transaction of somebody else."""
    failed = await SQL["redrive_turns"].rows(connection, turns=list(turns), by=by)
    changed = {row["id"] for row in failed}
    stuck = [row["id"] for row in await SQL["find_stuck"].rows(connection, turns=list(turns))]
    if stuck:
        await lock_for_messages(connection, stuck)
        resealed = await SQL["reseal_turns"].rows(connection, messages=stuck, by=by)
        changed |= {row["id"] for row in resealed}
        await _redrive(connection, stuck, by=by)
    states = await states_of(connection, turns)
    before = {
        row["turn"] for row in await SQL["find_redriven_turns"].rows(connection, turns=list(turns))
    }
    return [
        Changed(states[id_], id_ in changed, repeated=id_ in before - changed)
        if id_ in states
        else None
        for id_ in turns
    ]


async def redrive_messages(
    pool: "Pool", messages: Sequence[UUID], *, by: str
) -> list[Changed | None]:
    """Redrive each message that is dead or unknown; None for one that does not exist."""

    async def work(connection: "Link") -> list[Changed | None]:
        return await redrive_messages_in(connection, messages, by=by)

    return await transact(pool, work)


async def redrive_messages_in(
    connection: "Link", messages: Sequence[UUID], *, by: str
) -> list[Changed | None]:
    """Redrive messages inside a transaction of somebody else."""
    await lock_for_messages(connection, messages)
    rows = {row["id"]: row for row in await _redrive(connection, messages, by=by)}
    return [
        Changed(
            rows[id_]["state"],
            rows[id_]["turn"] is not None,
            repeated=rows[id_]["turn"] is None and rows[id_]["was_redriven"],
        )
        if id_ in rows
        else None
        for id_ in messages
    ]


async def _redrive(connection: "Link", messages: Sequence[UUID], *, by: str) -> "list[Record]":
    rows = await SQL["redrive_messages"].rows(connection, messages=list(messages), by=by)
    moved = [(row["id"], row["turn"], row["state"]) for row in rows if row["turn"] is not None]
    await follow_up(connection, moved)
    return rows
