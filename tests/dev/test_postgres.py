"""The embedded Postgres serves over its socket as stated, says why it cannot, and lets nobody else in."""

import asyncio
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from app.dev.binaries import Binaries, NoAccount
from app.dev.postgres import AlreadyRunning, EmbeddedPostgres, StartFailed
from tests.dev.clusters import AS_ROOT, ask, gone, holder, root_only, sockets


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


async def test_a_second_start_names_the_folder_and_the_process_that_holds_it(
    used: Path, binaries: Binaries
) -> None:
    async with holder(used, "--quick") as (parent, url, _):
        with pytest.raises(AlreadyRunning, match=rf"{used} .* pid {parent.pid}:"):
            async with EmbeddedPostgres.open(used, binaries=binaries):
                pass
        assert await ask(url, "select 1") == 1


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
