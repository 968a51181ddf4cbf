"""Processes that are kept running, as a service manager would: replicas of the service, and agents.

A replica that ends without having been asked to is a finding, unless it could not start and said why in one line.
"""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from app.dev.child import CHILD_ENVIRONMENT
from tests.system.processes import POLL_SECONDS, Service
from tests.torture.agent import DIED
from tests.torture.proxy import Proxy

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS_MAX = 20.0
START_PAUSE_SECONDS = 0.2


@dataclass(slots=True)
class Replica:
    """One replica behind its own way to Postgres. `busy` is held by whoever does something to it."""

    service: Service
    proxy: Proxy
    roles: str
    wanted: bool = True
    asked_to_end: bool = False
    ready: bool = False
    starts: int = 0
    refusals: int = 0
    findings: list[str] = field(default_factory=list)
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def keep(self) -> None:
        """Start it whenever it does not run and should. Ends by cancellation."""
        while True:
            process = self.service.process
            ended = process is None or process.returncode is not None
            if ended and process is not None and not self.asked_to_end:
                self._note(process.returncode or 0)
            if ended and self.wanted:
                self.asked_to_end, self.ready = False, False
                self.starts += 1
                await self.service.start()
            await asyncio.sleep(START_PAUSE_SECONDS if ended else POLL_SECONDS)

    def _note(self, code: int) -> None:
        self.asked_to_end = True
        (last,) = self.service.tail().splitlines()[-1:] or [""]
        if not self.ready and code == 1 and last.startswith("sinksweep: "):
            self.refusals += 1
        else:
            self.findings.append(f"{self.service.name} ended by itself with {code}: {last}")

    def kill(self) -> None:
        """SIGKILL."""
        process = self.service.process
        if process is not None and process.returncode is None:
            self.asked_to_end = True
            process.kill()

    async def end(self) -> None:
        """SIGKILL, and wait until it is gone."""
        await self.service.kill()

    async def stop(self) -> None:
        """SIGTERM, as a deploy does; not to end in time is a finding."""
        process = self.service.process
        if process is None or process.returncode is not None:
            return
        self.asked_to_end = True
        began = time.monotonic()
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                code = await process.wait()
        except TimeoutError:
            self.findings.append(f"{self.service.name} did not end within {STOP_SECONDS_MAX} s")
            process.kill()
            return
        # Before it listens for signals it ends as any process does.
        if code != 0 and (self.ready or code != -signal.SIGTERM):
            took = time.monotonic() - began
            self.findings.append(f"{self.service.name} was stopped and ended with {code} in {took}")

    def signal(self, number: signal.Signals) -> None:
        """Freeze or thaw it, if it runs."""
        process = self.service.process
        if process is not None and process.returncode is None:
            process.send_signal(number)

    async def until_ready(self, *, seconds_max: float) -> None:
        """Return once readiness is green, or the time is up."""
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            try:
                async with asyncio.timeout(2):
                    if await self.service.is_ready():
                        self.ready = True
                        return
            except (TimeoutError, OSError):
                pass
            await asyncio.sleep(POLL_SECONDS)


@dataclass(slots=True)
class Worker:
    """One agent, started again when it dies, as another one: it knows nothing of what it was."""

    name: str
    task: dict[str, object]
    rng: random.Random
    deaths: int = 0
    findings: list[str] = field(default_factory=list)
    process: asyncio.subprocess.Process | None = None
    asked_to_end: bool = False

    async def keep(self, log: Path) -> None:
        """Start it again whenever it ended. Ends by cancellation."""
        number = 0
        while True:
            number += 1
            name = f"{self.name}-{number}"
            with log.open("ab") as errors:
                self.process = await asyncio.create_subprocess_exec(
                    *[sys.executable, "-m", "tests.torture.agent"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    cwd=ROOT,
                    env={**CHILD_ENVIRONMENT, "PYTHONPATH": str(ROOT)},
                )
            self.asked_to_end = False
            task = {**self.task, "name": name, "seed": self.rng.randrange(1 << 30)}
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            code = await self.process.wait()
            self.deaths += 1
            if code != DIED and not self.asked_to_end:
                self.findings.append(f"agent {name} ended with {code}: see {log.name}")
                return

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None and self.process.returncode is None:
            self.asked_to_end = True
            self.process.kill()

    async def end(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.kill()
        if self.process is not None:
            await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Freeze or thaw it."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)


def build_replica(
    name: str,
    *,
    roles: str,
    port: int,
    proxy: Proxy,
    folder: Path,
    key: str,
    session: aiohttp.ClientSession,
    plant: str | None,
) -> Replica:
    """A replica that is not started yet; with a planted bug, if one is named."""
    database = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=disable"
    own = {"HOME": str(folder), "PYTHONPATH": str(ROOT), "DATABASE_URL": database}
    program = ["app"] if plant is None else ["tests.plants", plant]
    service = Service(
        name,
        [sys.executable, "-m", *program, "serve", "--roles", roles, "--port", str(port)],
        {**CHILD_ENVIRONMENT, **own},
        folder,
        url=f"http://127.0.0.1:{port}",
        key=key,
        session=session,
    )
    return Replica(service, proxy, roles)
