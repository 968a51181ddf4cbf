"""Expire: what outlives its turn goes when its own time is over.

Keys and lanes are found by walking their tables a stretch of pages at a time, so that no hot statement keeps an index
for it. A lane goes only when no inbound of its conversation is left, and whoever enters it meanwhile makes it anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, assert_never

from app.engine.statements import Statement, load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

Walk = Literal["idempotency_key", "lane", "delivery_lane"]
Timed = Literal["differing", "loopback", "operation", "schedule", "standstill"]

_TIMED: Final[Mapping[Timed, Statement]] = {
    "differing": SQL["expire_differing"],
    "loopback": SQL["expire_loopback"],
    "operation": SQL["expire_operations"],
    "schedule": SQL["expire_schedules"],
    "standstill": SQL["expire_standstills"],
}


@dataclass(frozen=True, slots=True)
class Extent:
    """How many pages a table had, and when that was, by the database's clock."""

    pages: int
    at: datetime


async def extent_of(pool: "Pool", table: Walk) -> Extent:
    """How far a walk over a table has to go: what comes behind is new."""

    async def work(connection: "Link") -> Extent:
        (row,) = await SQL["count_pages"].rows(connection, table=f"sink.{table}")
        return Extent(row["pages"], row["at"])

    return await transact(pool, work, explicit=False)


async def expire_pages(pool: "Pool", table: Walk, *, first: int, behind: int) -> int:
    """Remove what is over in the pages from `first` to before `behind`; returns how many rows went."""
    pages = {"first": (first, 0), "behind": (behind, 0)}

    async def keys(connection: "Link") -> int:
        (row,) = await SQL["expire_keys"].rows(connection, **pages)
        return int(row["rows"])

    async def lanes(connection: "Link") -> int:
        return await drop_lanes(connection, await SQL["hold_idle_lanes"].rows(connection, **pages))

    async def delivery_lanes(connection: "Link") -> int:
        held = await SQL["hold_idle_delivery_lanes"].rows(connection, **pages)
        return await drop_delivery_lanes(connection, held)

    match table:
        case "idempotency_key":
            return await transact(pool, keys, explicit=False)
        case "lane":
            return await transact(pool, lanes)
        case "delivery_lane":
            return await transact(pool, delivery_lanes)
        case _:
            assert_never(table)


async def drop_lanes(connection: "Link", held: "Sequence[Record]") -> int:
    """Remove those of these lanes, locked by the caller, that nobody is in; returns how many went."""
    if not held:
        return 0
    (row,) = await SQL["drop_idle_lanes"].rows(
        connection,
        queues=[one["queue"] for one in held],
        conversations=[one["conversation"] for one in held],
    )
    return int(row["rows"])


async def drop_delivery_lanes(connection: "Link", held: "Sequence[Record]") -> int:
    """Remove those of these delivery lanes, locked by the caller, with nothing open in them; returns how many went."""
    if not held:
        return 0
    (row,) = await SQL["drop_idle_delivery_lanes"].rows(
        connection,
        queues=[one["queue"] for one in held],
        conversations=[one["conversation"] for one in held],
        destinations=[one["destination"] for one in held],
    )
    return int(row["rows"])


async def expire_tombstones(pool: "Pool", *, until: datetime, rows_max: int) -> int:
    """Remove up to `rows_max` tombstones that were over at `until`, when a walk over all keys began that has ended."""

    async def work(connection: "Link") -> int:
        (row,) = await SQL["expire_tombstones"].rows(connection, until=until, rows_max=rows_max)
        return int(row["rows"])

    return await transact(pool, work, explicit=False)


async def expire_timed(pool: "Pool", table: Timed, *, seconds: float, rows_max: int) -> int:
    """Remove up to `rows_max` rows that ended longer than `seconds` ago; returns how many went."""

    async def work(connection: "Link") -> int:
        (row,) = await _TIMED[table].rows(connection, seconds=seconds, rows_max=rows_max)
        return int(row["rows"])

    return await transact(pool, work, explicit=False)
