"""Wake: what a turn waits for has come, or its deadline has: exactly one of the two ends a wait.

Its age has stood still meanwhile. What ended the wait is in the history of the next claim.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.engine.statements import load
from app.engine.sweep import Swept
from app.engine.transaction import each_or_all, transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def wake_parked(pool: "Pool", *, turns_max: int) -> Swept:
    """Wake up to `turns_max` parked turns whose deadline is over. A signal that came first has won."""

    async def find(connection: "Link") -> list[UUID]:
        return [
            row["id"] for row in await SQL["find_waiting"].rows(connection, turns_max=turns_max)
        ]

    async def wake(turns: Sequence[UUID]) -> list[str]:
        async def work(connection: "Link") -> list[str]:
            rows = await SQL["lock_waiting"].rows(connection, turns=list(turns))
            woken = await wake_turns(connection, {row["id"]: None for row in rows})
            return ["queued"] * len(woken)

        return await transact(pool, work)

    found = await transact(pool, find, explicit=False)
    if not found:
        return Swept(0, {}, ())
    done, failed = await each_or_all(found, wake)
    return Swept(len(found), Counter(state for states in done for state in states), tuple(failed))


async def wake_turns(connection: "Link", reasons: Mapping[UUID, int | None]) -> set[UUID]:
    """Wake parked turns that the caller has locked: each by the signal of this number, or by its deadline (None)."""
    if not reasons:
        return set()
    rows = await SQL["wake_turns"].rows(
        connection, turns=list(reasons), numbers=list(reasons.values())
    )
    return {row["id"] for row in rows}
