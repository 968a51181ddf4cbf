"""Resolve: a person has looked where a message with an unknown outcome went, and says so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from app.domain.model import Changed
from app.engine.delivery import follow_up, lock_for_messages
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def resolve_messages(
    pool: "Pool", messages: Sequence[UUID], *, state: Literal["delivered", "cancelled"], by: str
) -> list[Changed | None]:
    """Resolve each message that is unknown; None for one that does not exist. Repeatable."""

    async def work(connection: "Link") -> list[Changed | None]:
        return await resolve_messages_in(connection, messages, state=state, by=by)

    return await transact(pool, work)


async def resolve_messages_in(
    connection: "Link",
    messages: Sequence[UUID],
    *,
    state: Literal["delivered", "cancelled"],
    by: str,
) -> list[Changed | None]:
    """Resolve messages inside a transaction of somebody else."""
    await lock_for_messages(connection, messages)
    rows = {
        row["id"]: row
        for row in await SQL["resolve_messages"].rows(
            connection, messages=list(messages), state=state, by=by
        )
    }
    moved = [
        (row["id"], row["turn"], row["state"]) for row in rows.values() if row["turn"] is not None
    ]
    await follow_up(connection, moved)
    return [
        Changed(rows[id_]["state"], rows[id_]["turn"] is not None) if id_ in rows else None
        for id_ in messages
    ]
