"""DBOS Transact: a turn is a workflow of three steps, in a queue that is looked at every fifty milliseconds.

Its own default is a second, which would make a poor figure of its latency.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS, DBOSClient
from program import WORKER_CONNECTIONS, Json, Program, main, note, outgoing

POLL_SECONDS = 0.05
VERSION = "1"


class Dbos(Program):
    remaining = "select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING', 'DELAYED')"

    def launch(self) -> None:
        """Register the three workflows, and start."""
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.url,
                "sys_db_pool_size": WORKER_CONNECTIONS,
                "log_level": "ERROR",
                "application_version": VERSION,
            }
        )

        @DBOS.step()
        async def post(payload: Json) -> None:
            await self.send(payload)

        @DBOS.workflow(name="turn")
        async def turn(payload: Json) -> None:
            for message in outgoing(payload):
                await post(message)

        @DBOS.workflow(name="note")
        async def noted(payload: Json) -> None:
            note(payload)

        @DBOS.workflow(name="send")
        async def send(payload: Json) -> None:
            await post(payload)

        DBOS.launch()

    async def install(self) -> None:
        self.launch()
        await DBOS.register_queue_async("bench", polling_interval_sec=POLL_SECONDS)
        DBOS.destroy()

    async def open(self, connections: int) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(connections))
        self.client = DBOSClient(
            system_database_url=self.url, system_database_pool_size=connections
        )

    async def close(self) -> None:
        self.client.destroy()

    async def enqueue(self, kind: str, payload: Json) -> None:
        where = {"queue_name": "bench", "workflow_name": kind, "app_version": VERSION}
        await self.client.enqueue_async(where, payload)

    async def work(self) -> None:
        self.launch()
        await DBOS.register_queue_async("bench", polling_interval_sec=POLL_SECONDS)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main(Dbos)
