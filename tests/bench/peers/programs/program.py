"""What the program of every peer in Python does, in the environment of that peer: install, serve, fill, work.

It is given one argument, a line of JSON, and knows nothing of Sinksweep. The front is what a team would write around
the library, FastAPI under uvicorn; a job is what came in, and the handler of a turn leaves three jobs that are sent.
"""

import asyncio
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import aiohttp
import uvloop

Json = dict[str, Any]

KINDS = ("turn", "note", "send")
FRONT_CONNECTIONS = 32
WORKER_CONNECTIONS = 20
SENDS_MAX = 100
FILL_BATCH = 500
FILL_PRODUCERS = 32
SAID = "a reply of about three hundred bytes, as an agent may give one " * 4


class Sender:
    """What delivers, whatever the peer."""

    def __init__(self, task: Json) -> None:
        self.task = task
        self._session: aiohttp.ClientSession | None = None

    async def send(self, payload: Json) -> None:
        """The delivery: a POST under a key of its own."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=SENDS_MAX)
            self._session = aiohttp.ClientSession(connector=connector)
        url = f"http://127.0.0.1:{self.task['receiver_port']}/hook"
        headers = {"Idempotency-Key": payload["key"]}
        async with self._session.post(url, json=payload, headers=headers) as response:
            await response.read()
            response.raise_for_status()


class Program(Sender, ABC):
    """One peer: each of these is a call or two of its library. Kinds of jobs: a turn, a note of its start, a send."""

    # SQL that counts the jobs that are not done yet.
    remaining: str

    def __init__(self, task: Json) -> None:
        super().__init__(task)
        self.url: str = task["database_url"]

    @abstractmethod
    async def install(self) -> None:
        """Make its tables in an empty database."""

    @abstractmethod
    async def open(self, connections: int) -> None:
        """Connect, to put in jobs."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of what `open` took."""

    @abstractmethod
    async def enqueue(self, kind: str, payload: Json) -> None:
        """Put in one job, durably."""

    async def enqueue_many(self, kind: str, payloads: Sequence[Json]) -> None:
        """Put in many; one by one where the library has no call for it."""
        waiting = list(payloads)

        async def produce() -> None:
            while waiting:
                await self.enqueue(kind, waiting.pop())

        async with asyncio.TaskGroup() as group:
            for _ in range(FILL_PRODUCERS):
                group.create_task(produce())

    @abstractmethod
    async def work(self) -> None:
        """Work off jobs until the process is ended."""


def outgoing(payload: Json) -> list[Json]:
    """What the handler of a turn has to say: three messages."""
    return [{"key": f"{payload['conversation']}-{n}", "text": SAID} for n in range(3)]


def note(payload: Json) -> None:
    """Tell how long it took until the handler ran, in seconds."""
    print(f"started {time.monotonic() - payload['payload']['sent']:.6f}", flush=True)


def serve(program: Program, port: int) -> None:
    """The front: a durable accept over HTTP."""
    import uvicorn  # noqa: PLC0415 - workers do without
    from fastapi import Body, FastAPI  # noqa: PLC0415

    @asynccontextmanager
    async def opened(_app: FastAPI) -> AsyncIterator[None]:
        await program.open(FRONT_CONNECTIONS)
        yield
        await program.close()

    app = FastAPI(lifespan=opened)

    @app.post("/{kind}", status_code=202)
    async def accept(kind: str, body: Annotated[Json, Body()]) -> Json:
        await program.enqueue(kind, body)
        return {"accepted": True}

    uvicorn.run(
        app, port=port, loop="uvloop", http="httptools", log_level="warning", access_log=False
    )


async def fill(program: Program, count: int) -> None:
    """Leave so many sends for a worker that starts later."""
    await program.open(FRONT_CONNECTIONS)
    payloads = [{"key": f"backlog-{n}", "text": SAID} for n in range(count)]
    for n in range(0, count, FILL_BATCH):
        await program.enqueue_many("send", payloads[n : n + FILL_BATCH])
    await program.close()


def main(peer: type[Program]) -> None:
    """Do the task."""
    task: Json = json.loads(sys.argv[1])
    program = peer(task)
    match task["do"]:
        case "install":
            uvloop.run(program.install())
            print(json.dumps({"remaining": program.remaining}))
        case "serve":
            serve(program, task["port"])
        case "fill":
            uvloop.run(fill(program, task["count"]))
        case "work":
            uvloop.run(program.work())
        case other:
            message = f"no such task: {other}"
            raise ValueError(message)
