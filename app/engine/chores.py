"""Chores: what there is to do, and when the next of it will be due, in one look at the database.

Whoever looks needs to look again only then: what is written in between is told of, or has its time beyond that of
what runs now.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# While there is some of these, others follow within a moment, and nobody tells of their times.
RUNNING: Final = frozenset({"turns", "messages", "claims"})
# What is no chore of the sweep.
SENT: Final = ("deliveries", "resends")


@dataclass(frozen=True, slots=True)
class Look:
    """What is due now, the queues that have turns to give, and when the next will be due, if that is known.

    `is_quiet`: nothing is due, given or running. What has its time to come may well be there.
    """

    due: list[str]
    queues: list[str]
    next_seconds: float | None
    is_quiet: bool


async def find_chores(
    pool: "Pool",
    queues: Collection[str],
    destinations: Collection[str] = (),
    *,
    whole: bool = True,
) -> Look:
    """Look for everything that loops do, for who has these queues and destinations configured.

    Deadlines, notices, turns to give and messages of others are for a replica that knows them.

    A look that is not `whole` is for what the sweep does, and passes by whatever waits to be given or sent: of that all
    may be due, for whoever does it to find out.
    """

    async def work(connection: "Link") -> Look:
        rows = await SQL["find_chores"].rows(
            connection, queues=list(queues), destinations=list(destinations), whole=whole
        )
        times = [row["due_in_seconds"] for row in rows if row["due_in_seconds"] is not None]
        due = [row for row in rows if row["due_in_seconds"] == 0]
        named = [row["name"] for row in due if row["name"] is not None]
        chores = [row["chore"] for row in due if row["name"] is None]
        return Look(
            due=chores if whole else [*chores, *SENT],
            queues=named if whole else list(queues),
            next_seconds=min((seconds for seconds in times if seconds > 0), default=None),
            is_quiet=whole and not due and RUNNING.isdisjoint(row["chore"] for row in rows),
        )

    return await transact(pool, work, explicit=False)
