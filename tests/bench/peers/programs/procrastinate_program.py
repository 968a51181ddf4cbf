"""procrastinate: the async connector, fifty jobs at once, LISTEN/NOTIFY on."""

from collections.abc import Sequence

import procrastinate
from program import WORKER_CONNECTIONS, Json, Program, main, note, outgoing

CONCURRENCY = 50


class Procrastinate(Program):
    remaining = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"

    def app(self, connections: int) -> procrastinate.App:
        """Its application, with the three tasks."""
        connector = procrastinate.PsycopgConnector(
            conninfo=self.url, min_size=min(10, connections), max_size=connections
        )
        app = procrastinate.App(connector=connector)

        @app.task(name="turn")
        async def turn(**payload: object) -> None:
            await send.batch_defer_async(*outgoing(payload))

        @app.task(name="note")
        async def noted(**payload: object) -> None:
            note(payload)

        @app.task(name="send")
        async def send(**payload: object) -> None:
            await self.send(payload)

        return app

    async def install(self) -> None:
        app = self.app(2)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self, connections: int) -> None:
        self.opened = self.app(connections)
        await self.opened.open_async()

    async def close(self) -> None:
        await self.opened.close_async()

    async def enqueue(self, kind: str, payload: Json) -> None:
        await self.opened.tasks[kind].defer_async(**payload)

    async def enqueue_many(self, kind: str, payloads: Sequence[Json]) -> None:
        await self.opened.tasks[kind].batch_defer_async(*payloads)

    async def work(self) -> None:
        app = self.app(WORKER_CONNECTIONS)
        async with app.open_async():
            await app.run_worker_async(concurrency=CONCURRENCY)


if __name__ == "__main__":
    main(Procrastinate)
