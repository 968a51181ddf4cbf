"""Due: scheduled turns take their place when the database clock says so, in the order of their times."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.engine.statements import load
from app.engine.transaction import each_or_all, transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def due(pool: "Pool", *, turns_max: int) -> tuple[list[str], list[Exception]]:
    """Move up to `turns_max` due turns; returns the queue of each, and what failed: each alone, and only that."""

    async def find(connection: "Link") -> list[UUID]:
        return [row["id"] for row in await SQL["find_due"].rows(connection, turns_max=turns_max)]

    async def move(turns: Sequence[UUID]) -> list[str]:
        async def work(connection: "Link") -> list[str]:
            await SQL["enter_lanes"].run(connection, turns=list(turns))
            rows = await SQL["make_due"].rows(connection, turns=list(turns))
            return [row["queue"] for row in rows]

        return await transact(pool, work)

    turns = await transact(pool, find, explicit=False)
    if not turns:
        return [], []
    done, failed = await each_or_all(turns, move)
    return [queue for queues in done for queue in queues], failed
