"""A durable Postgres of a test's own, always at the same address, that can be killed and started again."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from app.dev.binaries import choose_runner, find_binaries
from app.dev.child import Runner, spawn, stop
from app.dev.postgres import EmbeddedPostgres

START_SECONDS_MAX = 30.0
ORPHAN_SECONDS_MAX = 5.0
POLL_SECONDS = 0.05


@dataclass(slots=True)
class OwnPostgres:
    """The server; `url` stays valid over restarts."""

    url: str
    command: list[str]
    runner: Runner
    log: Path
    server: "subprocess.Popen[bytes] | None" = None
    orphans: list[int] = field(default_factory=list)

    async def start(self) -> None:
        """Start it and wait until it answers.

        A backend of a killed one that is busy with a long query sees only at its end that its server is gone, and until
        then no other can start. It is waited for a moment, and then killed like its server was.
        """
        patient_until = time.monotonic() + ORPHAN_SECONDS_MAX
        async with asyncio.timeout(START_SECONDS_MAX):
            while True:
                if self.orphans and time.monotonic() > patient_until:
                    for pid in self.orphans:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    self.orphans.clear()
                if self.server is None or self.server.poll() is not None:
                    self.server = spawn(
                        self.command, runner=self.runner, log=self.log, dies_with=signal.SIGINT
                    )
                try:
                    connection = await asyncpg.connect(self.url, timeout=2)
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                    await asyncio.sleep(POLL_SECONDS)
                else:
                    await connection.close()
                    return

    async def kill(self) -> None:
        """SIGKILL the postmaster: its children end because it did."""
        assert self.server is not None
        pid = self.server.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        self.orphans = [int(child) for child in children.split()]
        self.server.kill()
        await asyncio.to_thread(self.server.wait)


@contextlib.asynccontextmanager
async def open_own_postgres(*settings: str, parent: str = "/tmp") -> AsyncIterator[OwnPostgres]:
    """Make a cluster and serve it until the context ends."""
    folder = Path(tempfile.mkdtemp(prefix="sinksweep-system-", dir=parent))
    folder.chmod(0o711)
    sockets = folder / "sockets"
    try:
        binaries = find_binaries()
        async with EmbeddedPostgres.open(folder, binaries=binaries, durable=False):
            pass
        cluster = folder / f"pg{binaries.version}"
        runner = choose_runner(binaries, cluster=cluster)
        sockets.mkdir(mode=0o700)
        if sockets.stat().st_uid != runner.owner_uid:
            os.chown(sockets, runner.owner_uid, runner.owner_gid)
        command = [str(binaries.folder / "postgres"), "-D", str(cluster), "-k", str(sockets)]
        for setting in ("listen_addresses=", "unix_socket_permissions=0777", *settings):
            command += ["-c", setting]
        url = f"postgresql://postgres@/postgres?host={sockets}&port=5432"
        own = OwnPostgres(url, command, runner, folder / "own.log")
        await own.start()
        try:
            yield own
        finally:
            if own.server is not None:
                await stop(own.server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
