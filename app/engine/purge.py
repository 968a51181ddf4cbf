"""Purge: what ended long ago goes, and leaves a tombstone for as long as its keys are remembered.

A turn goes whole, with its inbound, attempts, messages, their bytes and its events, in one transaction: no crash and no
other verb ever sees a part of it. Only what nothing moves by itself goes, and its age counts from its last event, by
the database's clock. Any number of purges may run at once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.engine.statements import load
from app.engine.transaction import each_or_all, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

FIRST: Final = UUID(int=0)

_COLUMNS: Final[Mapping[str, str]] = {
    "inbound": "inbound",
    "attempt": "attempts",
    "message": "messages",
    "hold": "holds",
    "wait": "waits",
    "signal": "signals",
    "follow_up": "follow_ups",
    "loopback": "loopback",
}


@dataclass(frozen=True, slots=True)
class Windows:
    """How long what has ended is kept, in seconds: turns, those that failed, and tombstones at least.

    `key_seconds` is the life of a key whose inbound does not say it.
    """

    turns_seconds: float
    failed_seconds: float
    tombstone_seconds: float
    key_seconds: float


@dataclass(frozen=True, slots=True)
class Purged:
    """One stretch that was looked at.

    `after` is where the next one begins, None when nothing behind it can have ended long enough ago. `counts` are the
    rows that went, by kind. What `failed` stays, and keeps nothing else.
    """

    after: UUID | None
    counts: Mapping[str, int]
    failed: tuple[Exception, ...]


async def purge(pool: "Pool", *, windows: Windows, after: UUID, rows_max: int) -> Purged:
    """Look at up to `rows_max` turns behind the id `after`, and purge those that are over."""

    async def look(connection: "Link") -> "list[Record]":
        return await SQL["look_for_ended"].rows(
            connection,
            after=after,
            rows_max=rows_max,
            turns_seconds=windows.turns_seconds,
            failed_seconds=windows.failed_seconds,
        )

    async def bury_some(turns: Sequence[UUID]) -> Counter[str]:
        async def work(connection: "Link") -> Counter[str]:
            return await bury(connection, turns, windows=windows)

        return await transact(pool, work)

    looked = await transact(pool, look, explicit=False)
    # Ids are minted in the order of time, give or take the clocks of the replicas that mint them.
    is_last = len(looked) < rows_max or all(row["is_young"] for row in looked)
    over = [row["id"] for row in looked if row["is_over"]]
    done, failed = await each_or_all(over, bury_some) if over else ([], [])
    counts = sum(done, Counter[str]())
    return Purged(None if is_last else looked[-1]["id"], counts, tuple(failed))


async def bury(
    connection: "Link", turns: Sequence[UUID], *, windows: Windows, is_erasure: bool = False
) -> Counter[str]:
    """Remove these turns, as far as they have ended and nobody holds them; returns the rows that went, by kind.

    With `is_erasure` whatever their age, and none before what tells somebody of it.
    """
    counts: Counter[str] = Counter()
    if not turns:
        return counts
    held = [row["id"] for row in await SQL["hold_ended"].rows(connection, turns=list(turns))]
    if not held:
        return counts
    if is_erasure:
        await SQL["drop_notices"].run(connection, turns=held)
    (row,) = await SQL["bury_turns"].rows(
        connection,
        turns=held,
        turns_seconds=windows.turns_seconds,
        failed_seconds=windows.failed_seconds,
        tombstone_seconds=windows.tombstone_seconds,
        key_seconds=windows.key_seconds,
        is_erasure=is_erasure,
    )
    gone = row["turns"]
    counts["turn"] = len(gone)
    for kind, column in _COLUMNS.items():
        counts[kind] = row[column]
    if gone:
        (events,) = await SQL["purge_events"].rows(connection, turns=gone)
        counts["event"] = events["events"]
    return counts
