"""Differing: bodies that came under a key of a source that stands for another body. Counted, and shown to people."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# How many different bodies of one key are told apart.
BODIES_MAX: Final = 16
# How many keys a list shows.
ROWS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Differing:
    """One key, how often another body came under it, and how many different ones, counted to 16."""

    source: str
    key: str
    times: int
    different: int
    first_at: datetime
    last_at: datetime


async def note_differing(pool: "Pool", *, source: str, key: str, body_hash: bytes) -> int:
    """Count one body; returns how many different ones there were under its key, up to 16."""

    async def work(connection: "Link") -> int:
        (row,) = await SQL["note_differing"].rows(
            connection, source=source, key=key, body_hash=body_hash, bodies_max=BODIES_MAX
        )
        return int(row["different"])

    return await transact(pool, work, explicit=False)


async def find_differing(pool: "Pool", sources: Sequence[str]) -> list[Differing]:
    """The last 100 keys of these sources under which other bodies came, the last first."""

    async def work(connection: "Link") -> "list[Record]":
        return await SQL["find_differing"].rows(
            connection, sources=list(sources), rows_max=ROWS_MAX
        )

    rows = await transact(pool, work, explicit=False)
    return [Differing(**{name: row[name] for name in Differing.__slots__}) for row in rows]
