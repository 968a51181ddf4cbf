"""Absurd: a turn is a task of three steps; fifty at once, claimed fifty at a time, looked for every fifty milliseconds.

Its schema comes with its command line from the same registry as its SDK.
"""

import asyncio

import psycopg
from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from absurdctl import BUNDLED_SCHEMA_SQL
from program import Json, Program, main, note, outgoing

CONCURRENCY = 50
POLL_SECONDS = 0.05
QUEUE = "default"


class Absurd(Program):
    remaining = (
        f"select count(*) from absurd.t_{QUEUE} where state in ('pending', 'running', 'sleeping')"
    )

    async def install(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute(BUNDLED_SCHEMA_SQL)
        absurd = AsyncAbsurd(self.url)
        await absurd.create_queue(QUEUE)
        await absurd.close()

    async def open(self, connections: int) -> None:
        # Each of its clients has one connection.
        self.free: asyncio.Queue[AsyncAbsurd] = asyncio.Queue()
        for _ in range(connections):
            self.free.put_nowait(AsyncAbsurd(self.url))

    async def close(self) -> None:
        while not self.free.empty():
            await self.free.get_nowait().close()

    async def enqueue(self, kind: str, payload: Json) -> None:
        client = await self.free.get()
        try:
            await client.spawn(kind, payload, queue=QUEUE)
        finally:
            self.free.put_nowait(client)

    async def work(self) -> None:
        absurd = AsyncAbsurd(self.url)

        async def post(message: Json) -> int:
            await self.send(message)
            return 1

        @absurd.register_task("turn")
        async def turn(payload: Json, context: AsyncTaskContext) -> None:
            for n, message in enumerate(outgoing(payload)):
                await context.step(f"send-{n}", lambda message=message: post(message))

        @absurd.register_task("note")
        async def noted(payload: Json, _context: object) -> None:
            note(payload)

        @absurd.register_task("send")
        async def send(payload: Json, context: AsyncTaskContext) -> None:
            await context.step("send", lambda: post(payload))

        await absurd.start_worker(
            concurrency=CONCURRENCY, batch_size=CONCURRENCY, poll_interval=POLL_SECONDS
        )


if __name__ == "__main__":
    main(Absurd)
