"""Tombstones: that something was here, and what became of it, for as long as its key is remembered."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a turn, an inbound (its state is its turn's) or a message."""

    id: UUID
    turn: UUID
    queue: str
    state: str
    purged_at: datetime
    expires_at: datetime


async def find_tombstone(pool: "Pool", id_: UUID) -> Tombstone | None:
    """The tombstone of a turn, an inbound or a message; None if nothing was purged under that id, or long ago."""

    async def work(connection: "Link") -> Tombstone | None:
        for row in await SQL["find_tombstone"].rows(connection, id=id_):
            return Tombstone(**{name: row[name] for name in Tombstone.__slots__})
        return None

    return await transact(pool, work, explicit=False)
