"""Lanes: a conversation runs one turn at a time, and a free lane has nobody waiting.

Whoever moves a turn out of its lane locks the lane before, and promotes in the same transaction. Shared by the verbs
that do.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING
from uuid import UUID

from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)


async def lock_lanes(connection: "Link", turns: Collection[UUID]) -> None:
    """Lock the lanes of the turns, before the turns themselves."""
    await SQL["lock_lanes"].run(connection, turns=list(turns))


async def lock_turns(connection: "Link", turns: Collection[UUID]) -> None:
    """Lock the turns, after their lanes. What the next statement reads of them stays so."""
    await SQL["lock_turns"].run(connection, turns=list(turns))


async def promote(connection: "Link", turns: Collection[UUID]) -> "list[Record]":
    """Give the lanes that these turns have left to those who wait longest: `id` and `queue` of each."""
    if not turns:
        return []
    return await SQL["promote_turns"].rows(connection, turns=list(turns))
