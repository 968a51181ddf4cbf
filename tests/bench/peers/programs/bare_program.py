"""No library: one table and SKIP LOCKED, as a good team writes it in an afternoon. Batches of a hundred.

A turn's three sends are committed with its end. It looks every twenty milliseconds, and gives up nothing: what a
worker had taken when it died waits for half a minute.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import asyncpg
from program import WORKER_CONNECTIONS, Json, Program, main, note, outgoing

if TYPE_CHECKING:
    from asyncpg import Pool, Record

BATCH = 100
POLL_SECONDS = 0.02
TABLE = """
create table job (
    id bigint generated always as identity primary key,
    kind text not null,
    body jsonb not null,
    visible_at timestamptz not null default now()
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
create index on job (kind, id);
"""
PUT = "insert into job (kind, body) select $1, unnest($2::jsonb[])"
TAKE = """
update job set visible_at = now() + interval '30 seconds'
where id in (
    select id from job where kind = $1 and visible_at <= now()
    order by id for update skip locked limit $2
) returning id, body
"""
END = "delete from job where id = any($1::bigint[])"


class Bare(Program):
    remaining = "select count(*) from job"

    async def install(self) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(TABLE)
        await connection.close()

    async def open(self, connections: int) -> None:
        self.pool: Pool[Record] = await asyncpg.create_pool(
            self.url, min_size=connections, max_size=connections
        )

    async def close(self) -> None:
        await self.pool.close()

    async def enqueue(self, kind: str, payload: Json) -> None:
        await self.pool.execute(PUT, kind, [json.dumps(payload)])

    async def enqueue_many(self, kind: str, payloads: Sequence[Json]) -> None:
        await self.pool.execute(PUT, kind, [json.dumps(one) for one in payloads])

    async def work(self) -> None:
        await self.open(WORKER_CONNECTIONS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.loop("turn", self.turns))
            group.create_task(self.loop("note", self.notes))
            for _ in range(2):
                group.create_task(self.loop("send", self.sends))

    async def loop(
        self, kind: str, handle: Callable[[list[int], list[Json]], Awaitable[None]]
    ) -> None:
        """Take, handle, and look again."""
        while True:
            if rows := await self.pool.fetch(TAKE, kind, BATCH):
                await handle([row["id"] for row in rows], [json.loads(row["body"]) for row in rows])
            else:
                await asyncio.sleep(POLL_SECONDS)

    async def turns(self, ids: list[int], payloads: list[Json]) -> None:
        """What a turn says is there when the turn is gone, and not before."""
        said = [json.dumps(message) for payload in payloads for message in outgoing(payload)]
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute(PUT, "send", said)
            await connection.execute(END, ids)

    async def notes(self, ids: list[int], payloads: list[Json]) -> None:
        for payload in payloads:
            note(payload)
        await self.pool.execute(END, ids)

    async def sends(self, ids: list[int], payloads: list[Json]) -> None:
        async with asyncio.TaskGroup() as group:
            for payload in payloads:
                group.create_task(self.send(payload))
        await self.pool.execute(END, ids)


if __name__ == "__main__":
    main(Bare)
