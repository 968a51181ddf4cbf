"""Real processes of the service and of agents: started, frozen, killed and started again, with their logs kept.

Every process ends with the rig. A service keeps its port over restarts, as providers and agents expect.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from app.dev.child import CHILD_ENVIRONMENT

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
STEP_SECONDS_MAX = 30.0
POLL_SECONDS = 0.02
LOG_LINES_SHOWN_MAX = 60
REQUEST_SECONDS_MAX = 40.0
LINE_BYTES_MAX = 1 << 22


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The body as JSON."""
        content: Json = json.loads(self.body)
        return content


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class Program:
    """One process that may be started again under its name; what it writes is appended to its log."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def log(self) -> Path:
        """Where it writes."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """The running process."""
        assert self.process is not None
        return self.process.pid

    async def start(self) -> None:
        """Start it, in a session of its own."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone. Again is harmless."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    async def exit_code(self, *, seconds_max: float = STEP_SECONDS_MAX) -> int:
        """Wait until it has ended by itself."""
        assert self.process is not None
        async with asyncio.timeout(seconds_max):
            return await self.process.wait()

    async def stop(self, *, seconds_max: float = STEP_SECONDS_MAX) -> int:
        """SIGTERM, and its exit code."""
        self.signal(signal.SIGTERM)
        return await self.exit_code(seconds_max=seconds_max)

    def tail(self) -> str:
        """The end of its log."""
        if not self.log.exists():
            return ""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_SHOWN_MAX:])


@dataclass(slots=True)
class Service(Program):
    """A process of the service, and a client of it."""

    url: str = ""
    key: str = ""
    session: aiohttp.ClientSession | None = None

    async def ready(self, *, seconds_max: float = STEP_SECONDS_MAX) -> None:
        """Wait until it is ready for work."""
        deadline = time.monotonic() + seconds_max
        while not await self.is_ready():
            assert self.process is not None
            assert self.process.returncode is None, f"{self.name} ended:\n{self.tail()}"
            assert time.monotonic() < deadline, f"{self.name} is not ready:\n{self.tail()}"
            await asyncio.sleep(POLL_SECONDS)

    async def is_ready(self) -> bool:
        """Whether readiness is green."""
        try:
            return (await self.get("/readyz")).status == 200
        except aiohttp.ClientError:
            return False

    async def restart(self) -> None:
        """Start it and wait until it is ready."""
        await self.start()
        await self.ready()

    async def get(self, path: str, *, key: str | None = None) -> Answer:
        """GET with its key, or another one."""
        return await self._request("GET", path, key=key, data=None, headers={})

    async def post(
        self,
        path: str,
        body: Json | bytes,
        *,
        key: str | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """POST a JSON body with its key, or another one."""
        headers = {"Content-Type": "application/json"}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self._request("POST", path, key=key, data=data, headers=headers)

    async def _request(
        self, method: str, path: str, *, key: str | None, data: bytes | None, headers: Json
    ) -> Answer:
        assert self.session is not None
        headers["Authorization"] = f"Bearer {key or self.key}"
        async with self.session.request(
            method, self.url + path, data=data, headers=headers
        ) as answer:
            return Answer(answer.status, dict(answer.headers), await answer.read())


@dataclass(slots=True)
class Agent:
    """An agent's process: it tells what it does, and takes orders where it stops."""

    name: str
    process: asyncio.subprocess.Process

    async def hear(self, what: str, *, seconds_max: float = STEP_SECONDS_MAX) -> Json:
        """Its next report, which must be this one."""
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds_max):
            line = await self.process.stdout.readline()
        report: Json = json.loads(line) if line else {"what": "nothing more"}
        assert report["what"] == what, f"{self.name} was to tell {what!r}: {report}"
        return report

    async def order(self, word: str, answer: str) -> Json:
        """Have it do something, and hear what came of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(word.encode() + b"\n")
        return await self.hear(answer)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.process.returncode is None:
            self.process.kill()
        # What it told before is read to the end, so that its pipe closes.
        await self.process.communicate()


@dataclass(slots=True)
class Rig:
    """Everything that one test starts, in one folder with one configuration."""

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

    async def serve(self, name: str, *options: str, roles: str = "api,deliver,sweep") -> Service:
        """Start a replica and wait until it is ready."""
        service = self.service(name, *options, roles=roles)
        await service.restart()
        return service

    def service(self, name: str, *options: str, roles: str = "api,deliver,sweep") -> Service:
        """A replica that is not started yet."""
        port = self._reserve_port()
        command = [sys.executable, "-m", "app", "serve", "--roles", roles, "--port", str(port)]
        service = Service(
            name,
            [*command, *options],
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


async def until_gone(pid: int, *, seconds_max: float = 10.0) -> None:
    """Wait until there is no process with this id."""
    async with asyncio.timeout(seconds_max):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            await asyncio.sleep(POLL_SECONDS)
