"""Restate as a side: it keeps what it acknowledges in a store of its own, its WAL synced, and not in Postgres."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from app.dev.child import CHILD_ENVIRONMENT
from tests.bench.peers.contenders import explained_by, noted_starts
from tests.bench.peers.peer import Peer
from tests.bench.peers.sides import POLL_SECONDS, READY_SECONDS_MAX, Running, free_port, reachable
from tests.system.processes import Program


@dataclass(slots=True)
class Restate(Peer):
    """Restate: its server is front and store, its service the handlers. Both run for every measure."""

    server: Path

    @asynccontextmanager
    async def accepting(self) -> AsyncIterator[Running]:
        async with self._serving("accept") as running:
            yield running

    @asynccontextmanager
    async def living(self) -> AsyncIterator[Running]:
        async with self._serving("turn") as running:
            yield running

    def draining(self, count: int) -> None:
        """Nothing can wait: it pushes at once."""

    @asynccontextmanager
    async def _serving(self, handler: str) -> AsyncIterator[Running]:
        folder = Path(tempfile.mkdtemp(prefix="restate-", dir=self.folder))
        ingress, admin, node, handlers = (free_port() for _ in range(4))
        task = {"port": handlers, "receiver_port": self.stage.receiver_port}
        environment = {
            **CHILD_ENVIRONMENT,
            "HOME": str(folder),
            "RESTATE_BASE_DIR": str(folder / "data"),
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LOG_FILTER": "warn",
        }
        server = Program("server", [str(self.server)], environment, folder)
        worker = Program("worker", [*self.command, json.dumps(task)], environment, folder)
        try:
            with explained_by((server, worker)):
                for program in (server, worker):
                    await program.start()
                for port in (admin, ingress, handlers):
                    await reachable(port)
                await _register(admin, handlers)
                yield Running(
                    turns={"port": ingress, "path": f"/bench/{handler}/send"},
                    notes={"port": ingress, "path": "/bench/note/send", "stamp": True},
                    pids=[server.pid, worker.pid],
                    finished=_at_once,
                    starts=lambda count: noted_starts(worker, count),
                )
        finally:
            for program in (worker, server):
                await program.kill()


async def _register(admin: int, handlers: int) -> None:
    """Tell Restate of the service; it may not be ready to be told yet."""
    told = {"uri": f"http://127.0.0.1:{handlers}"}
    async with aiohttp.ClientSession() as session, asyncio.timeout(READY_SECONDS_MAX):
        while True:
            async with session.post(f"http://127.0.0.1:{admin}/deployments", json=told) as answer:
                if answer.ok:
                    return
            await asyncio.sleep(POLL_SECONDS)


async def _at_once() -> None:
    """Its last arrival is the last thing that it had to do."""
