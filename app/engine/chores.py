"""Chores: what there is to do for the sweep, in one look, so that an idle pass costs one query."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def find_chores(pool: "Pool", queues: Collection[str]) -> list[str]:
    """Which chores have something to do, of those in app/workers/sweeper.py, for who has these queues configured.

    Deadlines and notices of other queues are for a replica that knows them.
    """

    async def work(connection: "Link") -> list[str]:
        rows = await SQL["find_chores"].rows(connection, queues=list(queues))
        return [row["chore"] for row in rows]

    return await transact(pool, work, explicit=False)
