"""A folder for a cluster, a process that serves it, and what is to be seen of both from outside."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypedDict
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

ROOT = Path(__file__).resolve().parents[2]
HOLDER = Path(__file__).with_name("hold_folder.py")
AS_ROOT = os.geteuid() == 0


root_only = pytest.mark.skipif(not AS_ROOT, reason="changes account")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a signal of Linux alone")


class _Told(TypedDict):
    url: str
    pid: int


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder that every account may pass through, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-test-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder / "data"
    shutil.rmtree(folder)


@asynccontextmanager
async def holder(
    folder: Path, *options: str, ready: bool = True
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str, int]]:
    """A process in a group of its own that serves the folder; its URL and its server's pid."""
    hostile = {
        "LC_ALL": "nowhere",
        "PGPORT": "1",
        "PGDATA": "/nowhere",
        "PGOPTIONS": "-c x=y",
        "PGHOST": "nowhere",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(HOLDER), str(folder), *options),
        env={
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "PATH": "/usr/bin:/bin",
            **hostile,
        },
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    pid = 0
    try:
        line = await process.stdout.readline() if ready else b'{"url": "", "pid": 0}'
        told: _Told = json.loads(line)
        pid = told["pid"]
        yield process, told["url"], pid
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT if pid else signal.SIGKILL)
        await process.wait()
        if pid and "--outlived" not in options:
            await until(lambda: gone(pid))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def sockets(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


async def ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()
