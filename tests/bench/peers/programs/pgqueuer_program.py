"""pgqueuer: asyncpg with a pool, batches of a hundred, LISTEN/NOTIFY on."""

import json
from collections.abc import Sequence
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries
from program import WORKER_CONNECTIONS, Json, Program, main, note, outgoing

BATCH = 100


class Pgqueuer(Program):
    remaining = "select count(*) from pgqueuer where status in ('queued', 'picked')"

    async def install(self) -> None:
        await self.open(1)
        await self.queries.install()
        await self.close()

    async def open(self, connections: int) -> None:
        self.pool = await asyncpg.create_pool(self.url, min_size=connections, max_size=connections)
        self.queries = Queries.from_asyncpg_pool(self.pool)

    async def close(self) -> None:
        await self.pool.close()

    async def enqueue(self, kind: str, payload: Json) -> None:
        await self.queries.enqueue(kind, json.dumps(payload).encode())

    async def enqueue_many(self, kind: str, payloads: Sequence[Json]) -> None:
        bodies: list[bytes | None] = [json.dumps(one).encode() for one in payloads]
        await self.queries.enqueue([kind] * len(bodies), bodies, [0] * len(bodies))

    async def work(self) -> None:
        await self.open(WORKER_CONNECTIONS)
        queuer = PgQueuer.from_asyncpg_pool(self.pool)

        @queuer.entrypoint("turn")
        async def turn(job: Any) -> None:
            await self.enqueue_many("send", outgoing(json.loads(job.payload)))

        @queuer.entrypoint("note")
        async def noted(job: Any) -> None:
            note(json.loads(job.payload))

        @queuer.entrypoint("send")
        async def send(job: Any) -> None:
            await self.send(json.loads(job.payload))

        await queuer.run(batch_size=BATCH)


if __name__ == "__main__":
    main(Pgqueuer)
