"""Loopback: what its channel received, kept so that a delivery can be seen without a receiver."""

import json
from collections.abc import Mapping, Sequence
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
class Received:
    """One message that arrived, `times` times under its key."""

    key: str
    queue: str
    conversation: str | None
    destination: str
    content_type: str
    headers: Mapping[str, str]
    body: bytes
    first_at: datetime
    last_at: datetime
    times: int


async def store(
    pool: "Pool",
    *,
    key: str,
    queue: str,
    conversation: str | None,
    destination: str,
    content_type: str,
    headers: Mapping[str, str],
    body: bytes,
) -> int:
    """Keep a message; returns how many times its key has arrived."""

    async def work(connection: "Link") -> int:
        rows = await SQL["store_loopback"].rows(
            connection,
            key=key,
            queue=queue,
            conversation=conversation,
            destination=destination,
            content_type=content_type,
            headers=json.dumps(dict(headers)),
            body=body,
        )
        return int(rows[0]["times"])

    return await transact(pool, work, explicit=False)


async def list_received(
    pool: "Pool",
    *,
    queues: Sequence[str] | None,
    rows_max: int,
    after: tuple[datetime, str] | None = None,
) -> list[Received]:
    """What arrived last, newest first; with `after` what is behind that time and key."""
    after_at, after_key = after or (None, None)

    async def work(connection: "Link") -> list[Received]:
        rows = await SQL["list_loopback"].rows(
            connection,
            queues=None if queues is None else list(queues),
            rows_max=rows_max,
            after_at=after_at,
            after_key=after_key,
        )
        return [
            Received(
                **{name: row[name] for name in Received.__slots__ if name != "headers"},
                headers=json.loads(row["headers"]),
            )
            for row in rows
        ]

    return await transact(pool, work, explicit=False)
