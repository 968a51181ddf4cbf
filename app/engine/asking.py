"""Asking: what waits for people, for how long, and of what nobody has been told yet. Reads, up to a bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link, Statement

SQL = load(__file__)

# The oldest is that of so many.
ROWS_MAX: Final = 1000
# How many queues are looked at that somebody else may have configured.
QUEUES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class OpenHolds:
    """The open holds of a queue in one state, `held` or `escalated`: how many, up to a bound, and how old."""

    queue: str
    state: str
    count: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class WaitingNotices:
    """What somebody is still to be told of in a queue: how much, up to a bound, and since when."""

    queue: str
    count: int
    oldest_seconds: float


async def open_holds(pool: "Pool") -> list[OpenHolds]:
    """The holds that are open, by queue and state; what has none is left out."""
    rows = await _read(pool, SQL["open_holds"], rows_max=ROWS_MAX, queues_max=QUEUES_MAX)
    return [OpenHolds(**dict(row)) for row in rows]


async def waiting_notices(pool: "Pool") -> list[WaitingNotices]:
    """The notices that nothing was made of yet, by queue; a queue without any is left out."""
    rows = await _read(pool, SQL["waiting_notices"], rows_max=ROWS_MAX, queues_max=QUEUES_MAX)
    return [WaitingNotices(**dict(row)) for row in rows]


async def _read(pool: "Pool", statement: "Statement", **values: object) -> "Sequence[Record]":
    async def work(connection: "Link") -> "Sequence[Record]":
        return await statement.rows(connection, **values)

    return await transact(pool, work, explicit=False)
