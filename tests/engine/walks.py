"""What the purger does in its walks, one after the other and at once."""

from collections import Counter
from typing import TYPE_CHECKING

from app.engine.expire import expire_pages, expire_timed, expire_tombstones, extent_of
from app.engine.purge import FIRST, Windows, purge

if TYPE_CHECKING:
    from app.engine.database import Pool

DAY = 86_400.0
WINDOWS = Windows(
    turns_seconds=30 * DAY,
    failed_seconds=90 * DAY,
    tombstone_seconds=10 * DAY,
    key_seconds=30 * DAY,
)


async def purge_turns(
    pool: "Pool", *, windows: Windows = WINDOWS, rows_max: int = 3
) -> Counter[str]:
    """Purge what is over, from the first turn to the last."""
    counts: Counter[str] = Counter()
    after = FIRST
    while True:
        purged = await purge(pool, windows=windows, after=after, rows_max=rows_max)
        counts.update(purged.counts)
        if purged.after is None:
            return +counts
        after = purged.after


async def expire_all(pool: "Pool") -> Counter[str]:
    """Walk over all keys, their tombstones, the lanes, and what goes by its own time."""
    keys = await extent_of(pool, "idempotency_key")
    counts: Counter[str] = Counter()
    for page in range(keys.pages):
        counts["idempotency_key"] += await expire_pages(
            pool, "idempotency_key", first=page, behind=page + 1
        )
    counts["tombstone"] = await expire_tombstones(pool, until=keys.at, rows_max=1000)
    for table in ("lane", "delivery_lane"):
        extent = await extent_of(pool, table)
        counts[table] = await expire_pages(pool, table, first=0, behind=extent.pages)
    for timed in ("loopback", "operation", "schedule", "standstill"):
        counts[timed] = await expire_timed(pool, timed, seconds=30 * DAY, rows_max=1000)
    return +counts


async def walk(pool: "Pool") -> Counter[str]:
    """A whole walk."""
    return await purge_turns(pool) + await expire_all(pool)
