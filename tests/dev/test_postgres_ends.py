"""The embedded Postgres ends with its process, however that ends, and loses nothing."""

import os
import shutil
import signal
from pathlib import Path

import asyncpg
import pytest

from app.dev.binaries import Binaries
from app.dev.postgres import AlreadyRunning, EmbeddedPostgres
from tests.dev.clusters import ask, gone, holder, linux_only, sockets, until


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
