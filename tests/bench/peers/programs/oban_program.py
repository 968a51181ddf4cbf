"""Oban for Python: a queue of a hundred at once, its notifier on, its pruner as it comes."""

import asyncio
from collections.abc import Sequence
from typing import Any

from oban import Job, Oban, worker
from oban.schema import install
from program import WORKER_CONNECTIONS, Json, Program, main, note, outgoing
from psycopg_pool import AsyncConnectionPool

CONCURRENCY = 100


def workers(program: "ObanProgram") -> dict[str, Any]:
    """Its three workers, by the kind of job."""

    @worker(queue="default")
    class Turn:
        async def process(self, job: Job) -> None:
            await program.enqueue_many("send", outgoing(job.args))

    @worker(queue="default")
    class Note:
        async def process(self, job: Job) -> None:
            note(job.args)

    @worker(queue="default")
    class Send:
        async def process(self, job: Job) -> None:
            await program.send(job.args)

    return {"turn": Turn, "note": Note, "send": Send}


class ObanProgram(Program):
    remaining = (
        "select count(*) from oban_jobs"
        " where state in ('available', 'executing', 'scheduled', 'retryable')"
    )

    def __init__(self, task: Json) -> None:
        super().__init__(task)
        self.workers = workers(self)

    async def connect(self, connections: int) -> None:
        """Open its pool."""
        self.pool = AsyncConnectionPool(
            self.url, min_size=min(10, connections), max_size=connections, open=False
        )
        await self.pool.open()

    async def install(self) -> None:
        await self.connect(2)
        await install(self.pool)
        await self.pool.close()

    async def open(self, connections: int) -> None:
        await self.connect(connections)
        self.oban = Oban(pool=self.pool)
        await self.oban.start()

    async def close(self) -> None:
        await self.oban.stop()
        await self.pool.close()

    async def enqueue(self, kind: str, payload: Json) -> None:
        await self.oban.enqueue(self.workers[kind].new(payload))

    async def enqueue_many(self, kind: str, payloads: Sequence[Json]) -> None:
        await self.oban.enqueue_many([self.workers[kind].new(one) for one in payloads])

    async def work(self) -> None:
        await self.connect(WORKER_CONNECTIONS)
        self.oban = Oban(pool=self.pool, queues={"default": CONCURRENCY})
        await self.oban.start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main(ObanProgram)
