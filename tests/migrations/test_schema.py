"""The schema is what schema.sql says, can be made by anybody at any time, and no other is worked with."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.dev.binaries import find_binaries
from app.dev.postgres import EmbeddedPostgres
from app.engine import schema
from app.engine.database import open_pool
from app.engine.keys import create_key, list_keys
from app.engine.schema import UpgradeFailed, WrongSchema, check_schema
from tests.database import Server, options_for, scratch_folder
from tests.dump_schema import SCHEMA, dump

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

ROOT = SCHEMA.parents[1]

MIGRATE = (
    "import asyncio, sys; from app.engine import schema; asyncio.run(schema.upgrade(sys.argv[1]))"
)

# Without the index that 0005 builds beside whoever writes.
BACK_AT_0004 = """
    alter table sink.event drop constraint event_pkey, add primary key (id);
    create index event_turn on sink.event (turn, id);
    update sink.alembic_version set version_num = '0004';
"""
BUILDER = (
    "select pid from pg_stat_activity where query like 'create unique index%' and state = 'active'"
)
DROPPER = "select from pg_stat_activity where query like 'drop index%' and state = 'active'"

TABLES = {
    "alembic_version",
    "allowance",
    "api_key",
    "attempt",
    "claim_request",
    "delivery_lane",
    "destination",
    "differing",
    "event",
    "follow_up",
    "hold",
    "idempotency_key",
    "inbound",
    "lane",
    "loopback",
    "notice",
    "operation",
    "outbox",
    "outbox_payload",
    "pause",
    "resend",
    "schedule",
    "signal",
    "standstill",
    "tombstone",
    "turn",
    "wait",
}


def test_schema_sql_is_the_sum_of_the_revisions(database_url: str) -> None:
    assert dump(database_url) == SCHEMA.read_text(encoding="utf-8"), "run `make schema`"


async def test_events_that_are_there_keep_their_numbers_while_their_index_is_built(
    database_url: str, admin: "Admin"
) -> None:
    await admin.execute(BACK_AT_0004)
    await admin.execute("""
        -- As it is left by a build that was cut short.
        create index event_of_turn on sink.event (turn);
        insert into sink.event (turn, verb, to_state)
        select gen_random_uuid(), 'accept', 'queued' from generate_series(1, 100)
    """)
    before = await admin.fetch("select * from sink.event order by id")
    await schema.upgrade(database_url)
    assert await admin.fetch("select * from sink.event order by id") == before
    assert dump(database_url) == SCHEMA.read_text(encoding="utf-8")


@contextlib.asynccontextmanager
async def _old_transaction(url: str) -> AsyncIterator[None]:
    """Goes on while the context lasts, and an index that is built beside it has to wait."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetchval("select count(*) from sink.event")
            yield
    finally:
        await connection.close()


async def _builder(admin: "Admin") -> int:
    """The session that builds the index, once it does."""
    async with asyncio.timeout(20):
        while (pid := await admin.fetchval(BUILDER)) is None:
            await asyncio.sleep(0.05)
    return int(pid)


async def test_a_revision_that_fails_says_why_in_one_line(
    database_url: str, admin: "Admin"
) -> None:
    await admin.execute(BACK_AT_0004)
    async with _old_transaction(database_url), asyncio.TaskGroup() as group:
        running = group.create_task(_failed(database_url))
        await admin.execute("select pg_cancel_backend($1)", await _builder(admin))
    reason = "canceling statement due to user request"
    assert running.result() == f"the schema was not brought up to date: {reason}"
    await schema.upgrade(database_url)
    assert dump(database_url) == SCHEMA.read_text(encoding="utf-8")


async def _failed(url: str) -> str:
    with pytest.raises(UpgradeFailed) as failed:
        await schema.upgrade(url)
    return str(failed.value)


async def test_what_a_killed_migration_still_builds_is_waited_for(
    database_url: str, admin: "Admin"
) -> None:
    await admin.execute(BACK_AT_0004)
    async with asyncio.TaskGroup() as group, _old_transaction(database_url):
        killed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", MIGRATE, database_url), cwd=ROOT
        )
        await _builder(admin)
        killed.kill()
        await killed.wait()
        group.create_task(schema.upgrade(database_url))
        # Time enough to get into its way, if it were not to wait.
        await asyncio.sleep(2)
        assert await admin.fetch(DROPPER) == []
    assert dump(database_url) == SCHEMA.read_text(encoding="utf-8")


async def test_every_table_is_known(admin: "Admin") -> None:
    rows = await admin.fetch(
        "select relname from pg_class where relnamespace = 'sink'::regnamespace and relkind = 'r'"
    )
    assert {row["relname"] for row in rows} == TABLES


async def test_migrating_twice_changes_nothing(database_url: str, pool: "Pool") -> None:
    before = dump(database_url)
    await schema.upgrade(database_url)
    assert dump(database_url) == before
    await check_schema(pool)


async def test_one_process_may_migrate_an_empty_database_several_times_at_once(
    postgres: Server,
) -> None:
    async with postgres.database(template="template1") as url:
        async with asyncio.TaskGroup() as calls:
            for _ in range(3):
                calls.create_task(schema.upgrade(url))
        assert dump(url) == SCHEMA.read_text(encoding="utf-8")


async def test_replicas_may_migrate_an_empty_database_at_once(postgres: Server) -> None:
    async def replica(url: str) -> tuple[int | None, bytes]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", MIGRATE, url), cwd=ROOT, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
        return process.returncode, errors

    async with postgres.database(template="template1") as url:
        async with asyncio.TaskGroup() as replicas:
            started = [replicas.create_task(replica(url)) for _ in range(2)]
        assert [task.result() for task in started] == [(0, b"")] * 2
        assert dump(url) == SCHEMA.read_text(encoding="utf-8")


async def test_the_service_runs_on_the_schema_it_was_written_for(pool: "Pool") -> None:
    await check_schema(pool)


async def test_a_database_without_a_schema_is_refused(postgres: Server) -> None:
    async with (
        postgres.database(template="template1") as url,
        open_pool(options_for(url), application_name="test") as pool,
    ):
        with pytest.raises(WrongSchema, match="no schema yet: run `sinksweep migrate`"):
            await check_schema(pool)


@pytest.mark.parametrize(
    ("revision", "told"),
    [
        ("0000", "the schema is at 0000, this version needs .*: run `sinksweep migrate`"),
        ("9999", "the schema is at 9999, newer than"),
    ],
)
async def test_a_schema_that_is_behind_or_ahead_is_refused(
    pool: "Pool", admin: "Admin", revision: str, told: str
) -> None:
    await admin.execute("update sink.alembic_version set version_num = $1", revision)
    with pytest.raises(WrongSchema, match=told):
        await check_schema(pool)


async def test_a_version_table_without_a_version_is_refused(pool: "Pool", admin: "Admin") -> None:
    await admin.execute("delete from sink.alembic_version")
    with pytest.raises(WrongSchema, match="no schema yet"):
        await check_schema(pool)


async def test_the_service_cannot_rewrite_the_audit_nor_the_schema(pool: "Pool") -> None:
    for forbidden in (
        "update sink.event set verb = 'x'",
        "delete from sink.event",
        "truncate sink.turn",
        "drop table sink.turn",
        "create table sink.other (id int)",
        "update sink.alembic_version set version_num = '9999'",
    ):
        async with pool.acquire() as connection:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(forbidden)


async def test_settings_that_make_a_commit_less_than_durable_are_named(pool: "Pool") -> None:
    # The server of the tests is fast and not durable.
    assert sorted(await schema.undurable(pool)) == [
        "fsync = off",
        "full_page_writes = off",
        "synchronous_commit = off",
    ]


@pytest.fixture
async def untouched() -> AsyncIterator["Admin"]:
    """The superuser of a server that has never seen the service: roles belong to a whole server."""
    folder = Path(tempfile.mkdtemp(prefix="sinksweep-tests-", dir=scratch_folder()))
    os.chmod(folder, 0o711)  # noqa: PTH101
    try:
        async with EmbeddedPostgres.open(
            folder, binaries=find_binaries(), durable=False
        ) as postgres:
            admin = await asyncpg.connect(postgres.url)
            yield admin
            await admin.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def owner(admin: "Admin", attributes: str) -> str:
    """A login that is no superuser and owns a database: its URL."""
    await admin.execute(f"create role somebody login {attributes}")
    await admin.execute("create database theirs owner somebody")
    sockets = (await admin.fetchval("show unix_socket_directories")).split(",")[0]
    return f"postgresql://somebody@/theirs?host={sockets}"


async def test_an_owner_who_may_make_roles_migrates_and_serves(untouched: "Admin") -> None:
    url = await owner(untouched, "createrole")
    await schema.upgrade(url)
    async with open_pool(options_for(url), application_name="test") as pool:
        await check_schema(pool)
        await create_key(pool, name="first", scopes=["read"], queues=None)
        assert [key.name for key in await list_keys(pool)] == ["first"]
    await schema.upgrade(url)


async def test_an_owner_who_may_not_make_roles_is_told_in_one_line_what_is_needed(
    untouched: "Admin",
) -> None:
    url = await owner(untouched, "nocreaterole")
    with pytest.raises(UpgradeFailed) as refused:
        await schema.upgrade(url)
    said = str(refused.value)
    assert "Give it CREATEROLE, or let an administrator run: " in said
    assert len(said.splitlines()) == 1
    make, give, _ = said.rpartition("run: ")[2].split(";")
    await untouched.execute(make)
    with pytest.raises(UpgradeFailed, match="or not take it on"):
        await schema.upgrade(url)
    await untouched.execute(give)
    await schema.upgrade(url)
    async with open_pool(options_for(url), application_name="test") as pool:
        await check_schema(pool)
