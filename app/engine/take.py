"""Take: lease due messages to a worker and record the attempt, before the first byte of it leaves.

Each row is checked against the hash of its seal; one that does not match is never sent.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import Slots, Taken
from app.domain.seal import message_hash
from app.engine.delivery import follow_up, lock_for_messages
from app.engine.statements import load
from app.engine.transaction import TRIES_MAX, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


class _Spoiled(Exception):
    """Rows that do not match their seal were taken: undo the take, end them, take again."""

    def __init__(self, messages: list[UUID]) -> None:
        super().__init__("integrity")
        self.messages = messages


async def take(pool: "Pool", slots: Sequence[Slots]) -> list[Taken]:
    """Take up to `count` messages for each destination, the longest due first."""

    async def work(connection: "Link") -> list[Taken]:
        rows = await SQL["take_messages"].rows(
            connection,
            destinations=[slot.destination for slot in slots],
            counts=[slot.count for slot in slots],
            leases=[slot.lease_seconds for slot in slots],
        )
        spoiled = [row["id"] for row in rows if not _intact(row)]
        if spoiled:
            raise _Spoiled(spoiled)
        return [_taken(row) for row in rows]

    for _ in range(TRIES_MAX):
        try:
            return await transact(pool, work)
        except _Spoiled as found:
            await _condemn(pool, found.messages)
    return []


async def _condemn(pool: "Pool", messages: Sequence[UUID]) -> None:
    async def work(connection: "Link") -> None:
        await lock_for_messages(connection, messages)
        ended = await SQL["condemn_messages"].rows(connection, messages=list(messages))
        await follow_up(connection, [(row["id"], row["turn"], row["state"]) for row in ended])

    await transact(pool, work)


def _intact(row: "Record") -> bool:
    return row["hash"] is not None and row["hash"] == message_hash(
        destination=row["destination"],
        recipient=row["recipient"],
        conversation=row["conversation"],
        headers=json.loads(row["headers"]),
        content_type=row["content_type"],
        delay_seconds=row["delay_seconds"],
        body=row["body"],
    )


def _taken(row: "Record") -> Taken:
    return Taken(
        message=row["id"],
        turn=row["turn"],
        attempt_id=row["attempt_id"],
        attempt=row["attempts"],
        attempts_used=row["attempts_used"],
        may_have_arrived=row["may_have_arrived"],
        age_seconds=row["age_seconds"],
        queue=row["queue"],
        conversation=row["conversation"],
        destination=row["destination"],
        key=row["key"],
        recipient=row["recipient"],
        headers=json.loads(row["headers"]),
        content_type=row["content_type"],
        body=row["body"],
        sealed_at=row["sealed_at"],
        attempted_at=row["attempted_at"],
        expires_at=row["expires_at"],
    )
