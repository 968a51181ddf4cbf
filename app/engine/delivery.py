"""What follows when a message moves: who waits behind it, and what its turn has come to.

Part of every transaction that changes a message of a set, so that no crash can come between a confirmation and what
follows from it.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.lifecycle import MESSAGE_CLOSED, MESSAGE_STUCK
from app.domain.model import TurnMove
from app.engine.statements import load

if TYPE_CHECKING:
    from app.engine.statements import Link

SQL = load(__file__)


async def lock_for_messages(connection: "Link", messages: Collection[UUID]) -> None:
    """Lock the turns and the delivery lanes of the messages, before the messages themselves."""
    await SQL["lock_for_messages"].run(connection, messages=list(messages))


async def follow_up(connection: "Link", moved: Sequence[tuple[UUID, UUID, str]]) -> list[TurnMove]:
    """Settle what depends on messages that moved, given as (message, turn, new state).

    Returns the turns that moved.
    """
    if not moved:
        return []
    stuck = [message for message, _, state in moved if state in MESSAGE_STUCK]
    gone = [message for message, _, state in moved if state in MESSAGE_CLOSED]
    if stuck:
        gone += [row["id"] for row in await SQL["leave_lanes"].rows(connection, stuck=stuck)]
    if gone:
        await SQL["move_on"].run(connection, gone=gone)
    return await settle_sets(connection, sorted({turn for _, turn, _ in moved}))


async def settle_sets(connection: "Link", turns: Sequence[UUID]) -> list[TurnMove]:
    """Settle turns that are locked by what their sets have come to. Returns those that moved."""
    rows = await SQL["settle_turns"].rows(connection, turns=list(turns))
    return [TurnMove(**dict(row)) for row in rows]
