"""A pgbouncer of a test's own, in front of a server's socket. Where it is not installed, the test is skipped."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from app.dev.child import Runner, spawn, stop

START_SECONDS_MAX = 20.0
POLL_SECONDS = 0.05
KEEPS_STATEMENTS_FROM = (1, 21)
PORT = 6432  # names the socket's file; nothing listens on a port
# An administrator's programs are not on everybody's PATH.
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])  # noqa: TID251 - as a shell would


def find_pgbouncer() -> str:
    """The program; skips the test where there is none."""
    found = shutil.which("pgbouncer", path=PATH)
    if found is None:
        pytest.skip("pgbouncer is not installed")
    return found


def pgbouncer_version() -> tuple[int, ...]:
    """Its major and minor version."""
    told = subprocess.run(
        [find_pgbouncer(), "--version"], capture_output=True, text=True, check=True
    )
    return tuple(int(part) for part in told.stdout.split()[1].split(".")[:2])


@contextlib.asynccontextmanager
async def open_pgbouncer(
    database_url: str,
    *,
    pool_mode: str = "transaction",
    pool_size: int = 5,
    ignores: str = "",
) -> AsyncIterator[str]:
    """The URL of the same database over a pooler that lends `pool_size` connections."""
    program = find_pgbouncer()
    parts = urlsplit(database_url)
    query = parse_qs(parts.query)
    sockets = Path(query["host"][0])
    # Whoever may use the server's socket: the account that the server runs as.
    owner = sockets.stat()
    if owner.st_uid == 0:
        pytest.skip("pgbouncer does not run as root, and only root reaches this server")
    own = owner.st_uid == os.geteuid()
    runner = Runner(
        "pgbouncer",
        None if own else owner.st_uid,
        None if own else owner.st_gid,
        owner.st_uid,
        owner.st_gid,
    )
    folder = Path(tempfile.mkdtemp(prefix="sinksweep-pool-", dir="/tmp"))
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"""
[databases]
* = host={sockets} port={query["port"][0]} user={parts.username}
[pgbouncer]
listen_addr =
listen_port = {PORT}
unix_socket_dir = {folder}
auth_type = any
pool_mode = {pool_mode}
default_pool_size = {pool_size}
max_client_conn = 500
server_round_robin = 1
ignore_startup_parameters = {ignores}
"""
    )
    if not own:
        shutil.chown(folder, owner.st_uid, owner.st_gid)
    child = spawn(
        [program, str(settings)],
        runner=runner,
        log=folder.with_suffix(".log"),
        dies_with=signal.SIGINT,
    )
    url = parts._replace(query=f"host={folder}&port={PORT}").geturl()
    try:
        await _until_open(url)
        yield url
    finally:
        await stop(child)
        print(folder.with_suffix(".log").read_text(encoding="utf-8")[-2000:])
        folder.with_suffix(".log").unlink()
        shutil.rmtree(folder, ignore_errors=True)


async def _until_open(url: str) -> None:
    async with asyncio.timeout(START_SECONDS_MAX):
        while True:
            try:
                connection = await asyncpg.connect(url, statement_cache_size=0, timeout=2)
            except (OSError, asyncpg.PostgresError, TimeoutError):
                await asyncio.sleep(POLL_SECONDS)
            else:
                await connection.close()
                return
