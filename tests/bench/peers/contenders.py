"""The peers as sides: their programs are started on a new database of the same server, or beside their own store."""

import asyncio
import json
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.dev.child import CHILD_ENVIRONMENT
from tests.bench.peers.peer import Peer
from tests.bench.peers.sides import (
    POLL_SECONDS,
    READY_SECONDS_MAX,
    Json,
    Running,
    free_port,
    postgres_parts,
    reachable,
    until_none,
)
from tests.system.processes import Program

TASK_SECONDS_MAX = 120.0


@dataclass(slots=True)
class Contender(Peer):
    """A peer on Postgres."""

    known: Json

    @asynccontextmanager
    async def accepting(self) -> AsyncIterator[Running]:
        async with self._installed() as (known, remaining), self._started() as start:
            yield self._running(known, remaining, await self._front(known, start))

    @asynccontextmanager
    async def living(self) -> AsyncIterator[Running]:
        async with self._installed() as (known, remaining), self._started() as start:
            worker = await start("worker", {**known, "do": "work"})
            front = await self._front(known, start)
            yield self._running(known, remaining, front, worker)

    @asynccontextmanager
    async def draining(self, count: int) -> AsyncIterator[Running]:
        async with self._installed() as (known, remaining), self._started() as start:
            await self._do({**known, "do": "fill", "count": count})
            worker = await start("worker", {**known, "do": "work"})
            yield self._running(known, remaining, (0, None), worker)

    @asynccontextmanager
    async def _installed(self) -> AsyncIterator[tuple[Json, str]]:
        """Its tables in a new database; what its programs are told, and what asks for what is left."""
        async with self.stage.database() as url:
            known = {
                **self.known,
                **postgres_parts(url),
                "receiver_port": self.stage.receiver_port,
            }
            told = await self._do({**known, "do": "install"})
            yield known, json.loads(told.splitlines()[-1])["remaining"]

    @asynccontextmanager
    async def _started(self) -> AsyncIterator[Any]:
        """Start programs; they end with the context."""
        programs: list[Program] = []
        async with AsyncExitStack() as stack:

            async def start(name: str, task: Json) -> Program:
                path = tempfile.mkdtemp(prefix=f"{self.name.split()[0]}-", dir=self.folder)
                command = [*self.command, json.dumps(task)]
                program = Program(name, command, {**CHILD_ENVIRONMENT, "HOME": path}, Path(path))
                stack.push_async_callback(program.kill)
                programs.append(program)
                await program.start()
                return program

            with explained_by(programs):
                yield start

    async def _front(self, known: Json, start: Any) -> tuple[int, Program]:
        port = free_port()
        front = await start("front", {**known, "do": "serve", "port": port})
        await reachable(port)
        return port, front

    def _running(
        self,
        known: Json,
        remaining: str,
        front: tuple[int, Program | None],
        worker: Program | None = None,
    ) -> Running:
        port, program = front
        return Running(
            turns={"port": port, "path": "/turn"},
            notes={"port": port, "path": "/note", "stamp": True},
            pids=[one.pid for one in (program, worker) if one is not None],
            finished=lambda: until_none(known["database_url"], remaining),
            starts=lambda count: noted_starts(worker, count),
        )

    async def _do(self, task: Json) -> str:
        """Run its program to its end; returns what it printed."""
        process = await asyncio.create_subprocess_exec(
            *self.command,
            json.dumps(task),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env={**CHILD_ENVIRONMENT, "HOME": str(self.folder)},
        )
        try:
            async with asyncio.timeout(TASK_SECONDS_MAX):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, (err or out).decode()[-1000:]
        return out.decode()


@contextmanager
def explained_by(programs: Sequence[Program]) -> Iterator[None]:
    """What goes wrong within is told with the ends of their logs."""
    try:
        yield
    except Exception as error:
        for program in programs:
            error.add_note(f"{program.name}: {program.tail()}")
        raise


async def noted_starts(worker: Program | None, count: int) -> Sequence[float]:
    """How long jobs took to start, as the worker's log has it."""
    assert worker is not None
    async with asyncio.timeout(READY_SECONDS_MAX):
        while True:
            lines = worker.log.read_text(encoding="utf-8", errors="replace").splitlines()
            told = [float(line.split()[1]) for line in lines if line.startswith("started ")]
            if len(told) >= count:
                return told
            await asyncio.sleep(POLL_SECONDS)
