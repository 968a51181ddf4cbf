"""Due: scheduled turns take their place when the database clock says so, in the order of their times."""

from typing import TYPE_CHECKING

from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def due(pool: "Pool", *, turns_max: int) -> list[str]:
    """Move up to `turns_max` due turns; returns the queue of each."""

    async def work(connection: "Link") -> list[str]:
        turns = [row["id"] for row in await SQL["find_due"].rows(connection, turns_max=turns_max)]
        if not turns:
            return []
        await SQL["enter_lanes"].run(connection, turns=turns)
        return [row["queue"] for row in await SQL["make_due"].rows(connection, turns=turns)]

    return await transact(pool, work)
