"""Schedule: up to when each timed source was looked at, by the database's clock, for all replicas together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Look:
    """One timed source at this moment. `looked_at` is None where nobody has looked at it before."""

    source: str
    looked_at: datetime | None
    now: datetime
    is_paused: bool


async def find_schedules(pool: "Pool", sources: Sequence[str]) -> list[Look]:
    """How each of these sources stands. Changes nothing."""

    async def work(connection: "Link") -> list[Look]:
        rows = await SQL["find_schedules"].rows(connection, sources=list(sources))
        return [Look(**{name: row[name] for name in Look.__slots__}) for row in rows]

    return await transact(pool, work, explicit=False)


async def note_look(pool: "Pool", source: str, *, until: datetime) -> None:
    """Remember that everything of a source that was due until then is committed, or given up."""

    async def work(connection: "Link") -> None:
        await SQL["note_look"].run(connection, source=source, until=until)

    await transact(pool, work, explicit=False)
