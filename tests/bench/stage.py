"""What a run of the bench starts, and ends with it: a durable Postgres of its own, replicas, a receiver, clients.

The server keeps everything on (fsync, synchronous_commit, full_page_writes), in a folder of a real disk.
"""

import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg

from app.dev.binaries import Binaries, find_binaries
from app.dev.child import CHILD_ENVIRONMENT
from app.dev.postgres import EmbeddedPostgres
from app.engine import schema
from app.engine.database import open_pool
from app.engine.keys import create_key
from tests.database import options_for
from tests.system.processes import Service
from tests.system.rig import ROOT, Rig

if TYPE_CHECKING:
    from asyncpg import Connection, Record

Json = dict[str, Any]
TEMPLATE = "bench_template"
SECRET = "whsec_" + "bench" * 8
ANSWER_SECONDS_MAX = 60.0
LINE_BYTES_MAX = 1 << 24

CONFIGURATION = """
[queues.bench]

[destinations.receiver]
kind = "webhook"
url = "http://127.0.0.1:{port}/hook"
secrets = ["env:BENCH_SECRET"]
concurrency_max = {concurrency}

[sources.slack]
kind = "slack"
queue = "bench"
secrets = ["env:BENCH_SECRET"]

[sources.telegram]
kind = "telegram"
queue = "bench"
secrets = ["env:BENCH_SECRET"]

[network]
allow = ["127.0.0.0/8"]
"""


@dataclass(slots=True)
class Script:
    """A process of the bench: it is given a task, and answers in lines of JSON."""

    process: asyncio.subprocess.Process

    async def ask(self, words: str, *, seconds_max: float = ANSWER_SECONDS_MAX) -> Any:
        """Say a line; returns the next one."""
        assert self.process.stdin is not None
        self.process.stdin.write(words.encode() + b"\n")
        return await self.hear(seconds_max=seconds_max)

    async def hear(self, *, seconds_max: float = ANSWER_SECONDS_MAX) -> Any:
        """The next line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds_max):
            line = await self.process.stdout.readline()
        assert line, "a process of the bench has ended; its words are above"
        return json.loads(line)


@dataclass(slots=True)
class Stage:
    """Where figures are taken."""

    folder: Path
    url: str
    binaries: Binaries
    key: str
    maintenance: "Connection[Record]"
    receiver: Script
    receiver_port: int
    server_pid: int
    made: int = 0
    concurrency: int = 128

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """The URL of a new, migrated database, for its superuser."""
        self.made += 1
        name = f"bench_{self.made}"
        await self.maintenance.execute(f"create database {name} template {TEMPLATE}")
        # What making it has left to write is not on the account of what comes.
        await self.maintenance.execute("checkpoint")
        try:
            yield urlsplit(self.url)._replace(path=f"/{name}").geturl()
        finally:
            await self.maintenance.execute(f"drop database {name} with (force)")

    @asynccontextmanager
    async def service(
        self, database_url: str, *, roles: str = "api,deliver,sweep"
    ) -> AsyncIterator[Service]:
        """One replica on a database, ready."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        async with aiohttp.ClientSession() as session:
            rig = Benched(folder, database_url, self.key, session)
            rig.configure(
                CONFIGURATION.format(port=self.receiver_port, concurrency=self.concurrency)
            )
            service = None
            try:
                service = await rig.serve("service", roles=roles)
                yield service
            finally:
                with contextlib.redirect_stdout(None):
                    await rig.close()

    async def load(self, service: Service, **task: object) -> Json:
        """Accept over HTTP as the task says; see `load.py`."""
        async with script("load", self.folder) as process:
            told = await process.ask(self.task(service, **task))
        assert isinstance(told, dict)
        return told

    def task(self, service: Service, **task: object) -> str:
        """A task with where and who."""
        target = urlsplit(service.url)
        known = {"host": target.hostname, "port": target.port, "key": self.key}
        return json.dumps({**known, **task})

    @asynccontextmanager
    async def agents(self, service: Service, **task: object) -> AsyncIterator[Script]:
        """Agents that work until the context ends; see `agents.py`."""
        async with script("agents", self.folder) as process:
            assert process.process.stdin is not None
            process.process.stdin.write(self.task(service, **task).encode() + b"\n")
            yield process

    async def arrivals(self, count: int, *, seconds_max: float) -> Json:
        """Wait until so many messages have arrived; returns how many did, and when the first and the last."""
        until = time.monotonic() + seconds_max
        while True:
            told: Json = await self.receiver.ask("count")
            if told["count"] >= count or time.monotonic() > until:
                return told
            await asyncio.sleep(0.02)


class Benched(Rig):
    """A rig whose processes know the secret of the receiver."""

    @property
    def environment(self) -> dict[str, str]:
        """All that a process sees of the world outside."""
        return {**super().environment, "BENCH_SECRET": SECRET}


@asynccontextmanager
async def script(name: str, folder: Path) -> AsyncIterator[Script]:
    """A process of the bench, which ends with the context."""
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", f"tests.bench.{name}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**CHILD_ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        limit=LINE_BYTES_MAX,
    )
    try:
        yield Script(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def open_stage(parent: Path | None = None) -> AsyncIterator[Stage]:
    """Start the server and the receiver in a new folder, which goes with them."""
    folder = Path(tempfile.mkdtemp(prefix="sinksweep-bench-", dir=parent))
    folder.chmod(0o711)
    try:
        binaries = find_binaries()
        async with (
            EmbeddedPostgres.open(folder / "data", binaries=binaries) as postgres,
            script("receiver", folder) as receiver,
        ):
            maintenance = await asyncpg.connect(postgres.url)
            await maintenance.execute(f"create database {TEMPLATE}")
            template = urlsplit(postgres.url)._replace(path=f"/{TEMPLATE}").geturl()
            await schema.upgrade(template)
            async with open_pool(options_for(template), application_name="bench") as pool:
                scopes = ["accept", "agent", "read"]
                key = await create_key(pool, name="bench", scopes=scopes, queues=None)
            port = int(await receiver.hear())
            try:
                known = (folder, postgres.url, binaries, key, maintenance, receiver, port)
                yield Stage(*known, server_pid=postgres.pid)
            finally:
                await maintenance.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def memory_mb(pid: int) -> tuple[float, float]:
    """What a process has in memory now, and at most had, in MB (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    sizes = {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("Vm")}
    return sizes["VmRSS:"] / 1024, sizes["VmHWM:"] / 1024


def disk_sync_ms(folder: Path, *, tries: int = 100) -> float:
    """The median time that one fdatasync of 8 KiB takes there."""
    took: list[float] = []
    path = folder / "sync"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for _ in range(tries):
            began = time.perf_counter()
            os.pwrite(descriptor, bytes(8192), 0)
            os.fdatasync(descriptor)
            took.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return 1000 * statistics.median(took)


def machine() -> Sequence[str]:
    """What the figures were taken on, in words."""
    processors = os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    load = os.getloadavg()[0]
    python = ".".join(map(str, sys.version_info[:3]))
    return (
        f"{processors} processors, {memory:.0f} GiB, load {load:.1f} before",
        f"Python {python}",
    )


__all__ = ["Script", "Stage", "disk_sync_ms", "machine", "memory_mb", "open_stage"]
