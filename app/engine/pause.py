"""Pause and resume: a person stops a queue, a source, a destination, or everything, on all replicas at once.

A pause is a row that the verbs read themselves: claims give nothing of a paused queue, takes nothing for a paused
destination, and what comes from a paused source is accepted and waits. Both calls may be repeated.
"""

import contextlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from app.engine.breaker import reset_breaker
from app.engine.statements import load
from app.engine.transaction import Busy, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

Kind = Literal["all", "queue", "source", "destination"]

# The name under which everything is paused.
EVERYTHING: Final = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Something that stands still: since when, by whom, and why."""

    kind: str
    name: str
    at: datetime
    by: str
    reason: str | None


async def pause(
    pool: "Pool", kind: Kind, name: str = EVERYTHING, *, by: str, reason: str | None = None
) -> Pause | None:
    """Stop it; returns the pause that holds. The first who stopped it is kept, with his reason.

    None if somebody let it go on at the same moment. It returns behind those who were about to take messages.
    """

    async def work(connection: "Link") -> Pause | None:
        await SQL["add_pause"].run(connection, kind=kind, name=name, by=by, reason=reason)
        return (await _pauses(connection)).get((kind, name))

    async def wait(connection: "Link") -> None:
        await SQL["wait_for_takes"].run(connection, name=name)

    paused = await transact(pool, work)
    if kind in ("all", "destination"):
        # Somebody who holds a destination for long keeps nobody from pausing it.
        with contextlib.suppress(Busy):
            await transact(pool, wait, explicit=False)
    return paused


async def resume(pool: "Pool", kind: Kind, name: str = EVERYTHING) -> None:
    """Let it go on; what is not paused is left as it is. A destination's breaker is closed, whatever had opened it."""

    async def work(connection: "Link") -> None:
        await SQL["drop_pause"].run(connection, kind=kind, name=name)
        if kind == "destination":
            await reset_breaker(connection, name)

    await transact(pool, work)


async def find_pauses(pool: "Pool") -> dict[tuple[str, str], Pause]:
    """Everything that is paused, by kind and name."""
    return await transact(pool, _pauses, explicit=False)


async def _pauses(connection: "Link") -> dict[tuple[str, str], Pause]:
    rows = await SQL["find_pauses"].rows(connection)
    return {(row["kind"], row["name"]): _pause(row) for row in rows}


def _pause(row: "Record") -> Pause:
    return Pause(row["kind"], row["name"], row["paused_at"], row["paused_by"], row["reason"])
