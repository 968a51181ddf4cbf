"""Origin: where a turn came from, and what its source left to answer with. Changes nothing."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.model import API_SOURCE
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

ROWS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of the newest inbound that has one, and the newest capability that it left and that still holds.

    What is not configured and not the plain API is a turn's own follow-up. `reply` goes to the channel alone, and
    `reply_of` is the inbound that brought it.
    """

    source: str
    reply: bytes | None = None
    reply_of: UUID | None = None
    expires_at: datetime | None = None


async def find_origin(pool: "Pool", turn: UUID, *, sources: Collection[str]) -> Origin | None:
    """Where a turn came from, one of `sources` before anybody else; None for what came over the plain API alone."""

    async def work(connection: "Link") -> "list[Record]":
        return await SQL["find_origins"].rows(connection, turn=turn, rows_max=ROWS_MAX)

    rows = [
        row for row in await transact(pool, work, explicit=False) if row["source"] != API_SOURCE
    ]
    source = next((row["source"] for row in rows if row["source"] in sources), None)
    if source is None:
        return Origin(rows[0]["source"]) if rows else None
    for row in rows:
        if row["source"] == source and row["reply"] is not None:
            return Origin(source, row["reply"], row["id"], row["reply_expires_at"])
    return Origin(source)
