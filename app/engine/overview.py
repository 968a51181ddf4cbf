"""Overview: what queues, sources and destinations have to do, and how they are. Reads, and counts up to a bound."""

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

# Every count stops here.
COUNT_MAX: Final = 1000
QUEUE_STATES: Final = (
    "scheduled",
    "waiting",
    "queued",
    "processing",
    "parked",
    "held",
    "escalated",
    "sealed",
    "failed",
    "undelivered",
)
# How many names are looked for, and at how much of what runs now.
ROWS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class SourceLoad:
    """What a paused source holds up, and since how long the first of it."""

    held: int
    oldest_seconds: float | None


async def names_in_use(pool: "Pool") -> dict[str, set[str]]:
    """What rows name that is not at its end: `queue`, `source` and `destination`, configured here or not."""
    found: dict[str, set[str]] = {"queue": set(), "source": set(), "destination": set()}
    for row in await _read(pool, SQL["names_in_use"], rows_max=ROWS_MAX):
        found[row["kind"]].add(row["name"])
    return found


async def queue_load(pool: "Pool", queues: Sequence[str]) -> dict[str, dict[str, int]]:
    """The turns of each queue by state."""
    rows = await _read(
        pool, SQL["queue_load"], queues=list(queues), count_max=COUNT_MAX, rows_max=ROWS_MAX
    )
    return {row["queue"]: {state: row[state] for state in QUEUE_STATES} for row in rows}


async def oldest_turn_seconds(pool: "Pool", queues: Sequence[str]) -> dict[tuple[str, str], float]:
    """How long ago the oldest turn of each queue and open state came; states without a turn are left out.

    Among those that wait or run it is the oldest of as many as are counted. What is queued ages by when it was due:
    see `oldest_queued_seconds`.
    """
    rows = await _read(pool, SQL["oldest_turns"], queues=list(queues), rows_max=COUNT_MAX)
    return {(row["queue"], row["state"]): row["age_seconds"] for row in rows}


async def source_load(pool: "Pool", sources: Sequence[str]) -> dict[str, SourceLoad]:
    """What each source holds up."""
    rows = await _read(pool, SQL["source_load"], sources=list(sources), count_max=COUNT_MAX)
    return {row["source"]: SourceLoad(row["held"], row["oldest_seconds"]) for row in rows}


async def destination_load(pool: "Pool", destinations: Sequence[str]) -> dict[str, dict[str, int]]:
    """The messages of each destination by state. `pending` are those that nothing blocks."""
    rows = await _read(
        pool,
        SQL["destination_load"],
        destinations=list(destinations),
        count_max=COUNT_MAX,
        rows_max=ROWS_MAX,
    )
    states = ("pending", "sending", "dead", "unknown")
    return {row["name"]: {state: row[state] for state in states} for row in rows}


async def count_waiting(pool: "Pool", queue: str, *, count_max: int) -> int:
    """How many turns of a queue have not come to an agent yet, up to `count_max`."""
    (row,) = await _read(pool, SQL["count_waiting"], queue=queue, count_max=count_max)
    return int(row["waiting"])


async def _read(pool: "Pool", statement: "Statement", **values: object) -> "list[Record]":
    async def work(connection: "Link") -> "list[Record]":
        return await statement.rows(connection, **values)

    return await transact(pool, work, explicit=False)
