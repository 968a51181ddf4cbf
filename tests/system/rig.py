"""Everything that one test starts: replicas, agents and commands, in one folder with one configuration.

Every process ends with the rig. A replica keeps its port over restarts, as providers and agents expect.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from app.dev.child import CHILD_ENVIRONMENT
from app.domain.scopes import SCOPES
from tests.system.processes import STEP_SECONDS_MAX, Agent, Finished, Program, Service

ROOT = Path(__file__).resolve().parents[2]
REQUEST_SECONDS_MAX = 40.0
LINE_BYTES_MAX = 1 << 22
# All that one key may do: whoever proposes never decides.
WORKING = tuple(scope for scope in SCOPES if scope != "approve")


@dataclass(slots=True)
class Rig:
    """What a test starts, and ends with it."""

    folder: Path
    database_url: str
    key: str
    session: aiohttp.ClientSession
    programs: list[Program] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)
    reserved: list[socket.socket] = field(default_factory=list)

    def configure(self, text: str) -> None:
        """Write the configuration of what starts from now on."""
        (self.folder / "sinksweep.toml").write_text(text, encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """All that a process sees of the world outside."""
        own = {"HOME": str(self.folder), "PYTHONPATH": str(ROOT)}
        return {**CHILD_ENVIRONMENT, **own, "DATABASE_URL": self.database_url}

    async def serve(self, name: str, *more: str, roles: str = "api,deliver,sweep") -> Service:
        """Start a replica, with more arguments if wished, and wait until it is ready."""
        (service,) = await self.serve_all({name: roles}, *more)
        return service

    async def serve_all(self, roles: Mapping[str, str], *more: str) -> Sequence[Service]:
        """Start several replicas, by their names, and wait until all are ready."""
        services = [self._service(name, *more, roles=roles[name]) for name in roles]
        for service in services:
            await service.start()
        for service in services:
            await service.ready()
        return services

    def _service(self, name: str, *more: str, roles: str) -> Service:
        port = self._reserve_port()
        service = Service(
            name,
            [sys.executable, "-m", "app", "serve", "--roles", roles, "--port", str(port), *more],
            self.environment,
            self.folder,
            url=f"http://127.0.0.1:{port}",
            key=self.key,
            session=self.session,
        )
        self.programs.append(service)
        return service

    def _reserve_port(self) -> int:
        # Bound and not listening: nobody else is given it, and a listener may still take it.
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self.reserved.append(held)
        return int(held.getsockname()[1])

    async def run(self, *arguments: str, **environment: str) -> Finished:
        """Run a command of the service to its end."""
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "app", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env={**self.environment, **environment},
        )
        try:
            async with asyncio.timeout(STEP_SECONDS_MAX):
                out, err = await process.communicate()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        return Finished(process.returncode or 0, out.decode(), err.decode())

    async def agent(self, name: str, *services: Service, **task: object) -> Agent:
        """Start an agent on a task; see `agent.py` for what a task may say."""
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-I", str(Path(__file__).with_name("agent.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            cwd=self.folder,
            env=CHILD_ENVIRONMENT,
            limit=LINE_BYTES_MAX,
        )
        agent = Agent(name, process)
        self.agents.append(agent)
        assert process.stdin is not None
        urls = [service.url for service in services]
        known = {"name": name, "urls": urls, "key": self.key, "queue": "support"}
        process.stdin.write(json.dumps({**known, **task}).encode() + b"\n")
        return agent

    async def close(self) -> None:
        """End what still runs, and show the logs: they are read when a test has failed."""
        for agent in self.agents:
            await agent.kill()
        for program in self.programs:
            await program.kill()
            print(f"--- {program.name}\n{program.tail()}")
        for held in self.reserved:
            held.close()
