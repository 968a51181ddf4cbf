"""Cancel: what nobody wants any more is not run and not sent. What has left cannot be taken back.

A turn that has not sealed ends here, and its holder has lost it; so does one whose set is held. Of a sealed one every
message that is not confirmed is cancelled; one that is being sent gets no next attempt. Repeatable.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.lifecycle import TurnState
from app.domain.model import Changed
from app.engine.delivery import follow_up, lock_for_messages
from app.engine.ending import Ending, record_decisions, void_sets
from app.engine.inspect import states_of
from app.engine.lane import lock_turns, promote
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def cancel_turns(pool: "Pool", turns: Sequence[UUID], *, by: str) -> list[Changed | None]:
    """Cancel each turn; one outcome each, None for one that does not exist. `by` is who wanted it."""

    async def work(connection: "Link") -> list[Changed | None]:
        await hold_turns(connection, turns)
        return await cancel_held_turns(connection, turns, by=by)

    return await transact(pool, work)


async def hold_turns(connection: "Link", turns: Sequence[UUID]) -> None:
    """Take the locks that cancelling these turns needs."""
    await SQL["make_lanes"].run(connection, turns=list(turns))
    await lock_turns(connection, turns)


async def cancel_held_turns(
    connection: "Link", turns: Sequence[UUID], *, by: str
) -> list[Changed | None]:
    """Cancel turns that are held, inside a transaction of somebody else."""
    found = {
        row["id"]: row
        for row in await SQL["cancel_turns"].rows(connection, turns=list(turns), by=by)
    }
    await promote(connection, [id_ for id_, row in found.items() if row["is_cancelled"]])
    waited = [
        row
        for row in found.values()
        if row["is_cancelled"] and row["from_state"] in (TurnState.HELD, TurnState.ESCALATED)
    ]
    if waited:
        await _end_holds(connection, waited, by=by)
    sealed = [id_ for id_, row in found.items() if row["from_state"] in ("sealed", "undelivered")]
    messages = [
        row["id"]
        for row in (await SQL["find_undelivered"].rows(connection, turns=sealed) if sealed else ())
    ]
    changed = {
        row["turn"] for row in await _cancel(connection, messages, by=by) if row["is_changed"]
    }
    states = await states_of(connection, turns)
    return [
        Changed(states[id_], found[id_]["is_cancelled"] or id_ in changed) if id_ in found else None
        for id_ in turns
    ]


async def _end_holds(connection: "Link", turns: "Sequence[Record]", *, by: str) -> None:
    """What cancelled turns waited with is decided: nothing of it leaves, and nobody is asked any more."""
    endings = [
        Ending(
            turn=row["id"],
            seal=row["seal"],
            state=row["from_state"],
            payload_hash=row["payload_hash"],
            decision="cancel",
            by=by,
            key=by,
        )
        for row in turns
    ]
    await record_decisions(connection, endings)
    await void_sets(connection, endings)


async def cancel_messages(
    pool: "Pool", messages: Sequence[UUID], *, by: str
) -> list[Changed | None]:
    """Cancel each message; one outcome each, None for one that does not exist."""

    async def work(connection: "Link") -> list[Changed | None]:
        return await cancel_messages_in(connection, messages, by=by)

    return await transact(pool, work)


async def cancel_messages_in(
    connection: "Link", messages: Sequence[UUID], *, by: str
) -> list[Changed | None]:
    """Cancel messages inside a transaction of somebody else."""
    rows = {row["id"]: row for row in await _cancel(connection, messages, by=by)}
    return [
        Changed(rows[id_]["state"], rows[id_]["is_changed"]) if id_ in rows else None
        for id_ in messages
    ]


async def hold_messages(connection: "Link", messages: Sequence[UUID]) -> None:
    """Lock messages with all that is locked before them. What is being sent now has to be seen as that.

    A take locks nothing but messages.
    """
    await lock_for_messages(connection, messages)
    await SQL["lock_messages"].run(connection, messages=list(messages))


async def _cancel(connection: "Link", messages: Sequence[UUID], *, by: str) -> "list[Record]":
    if not messages:
        return []
    await hold_messages(connection, messages)
    rows = await SQL["cancel_messages"].rows(connection, messages=list(messages), by=by)
    moved = [row for row in rows if row["is_cancelled"]]
    await follow_up(connection, [(row["id"], row["turn"], row["state"]) for row in moved])
    return rows
