"""Due: scheduled turns take their place when the database clock says so, in the order of their times.

What a paused source held up does so once that goes on, in the order in which it was accepted.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.engine.statements import load
from app.engine.transaction import each_or_all, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def due(pool: "Pool", *, turns_max: int) -> tuple[list[str], list[Exception]]:
    """Move up to `turns_max` due turns; returns the queue of each, and what failed: each alone, and only that."""

    async def find(connection: "Link") -> list[UUID]:
        return [row["id"] for row in await SQL["find_due"].rows(connection, turns_max=turns_max)]

    return await _enter(pool, await transact(pool, find, explicit=False))


async def due_after_pause(pool: "Pool", *, turns_max: int) -> tuple[list[str], list[Exception]]:
    """Move up to `turns_max` turns whose source goes on again, like `due`; one with a time to come waits for that."""

    async def find(connection: "Link") -> "list[Record]":
        return await SQL["find_held"].rows(connection, turns_max=turns_max)

    held = await transact(pool, find, explicit=False)
    later = {row["id"]: row["queue"] for row in held if row["has_time"]}

    async def keep(turns: Sequence[UUID]) -> list[str]:
        async def work(connection: "Link") -> list[str]:
            rows = await SQL["keep_times"].rows(connection, turns=list(turns))
            return [later[row["id"]] for row in rows]

        return await transact(pool, work, explicit=False)

    kept, failed = await each_or_all(list(later), keep) if later else ([], [])
    moved, also_failed = await _enter(pool, [row["id"] for row in held if not row["has_time"]])
    return [*(queue for queues in kept for queue in queues), *moved], failed + also_failed


async def _enter(pool: "Pool", turns: Sequence[UUID]) -> tuple[list[str], list[Exception]]:
    async def move(some: Sequence[UUID]) -> list[str]:
        async def work(connection: "Link") -> list[str]:
            await SQL["enter_lanes"].run(connection, turns=list(some))
            rows = await SQL["make_due"].rows(connection, turns=list(some))
            return [row["queue"] for row in rows]

        return await transact(pool, work)

    if not turns:
        return [], []
    done, failed = await each_or_all(turns, move)
    return [queue for queues in done for queue in queues], failed
