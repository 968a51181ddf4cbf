"""One Postgres for a session of tests, a migrated database for each test, and a clock that tests can move."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg

from app.dev.binaries import find_binaries
from app.dev.postgres import EmbeddedPostgres
from app.engine import schema
from app.engine.database import DatabaseOptions

if TYPE_CHECKING:
    from asyncpg import Connection, Record

    Admin = Connection[Record]

TEMPLATE = "template_migrated"
POLL_SECONDS = 0.005
MEMORY_BYTES_MIN = 4 << 30


@dataclass(slots=True)
class Server:
    """A running Postgres that makes databases and drops them."""

    url: str
    maintenance: "Admin"
    made: int = 0

    def url_of(self, database: str) -> str:
        """Where a database of this server is, for its superuser."""
        return urlsplit(self.url)._replace(path=f"/{database}").geturl()

    @asynccontextmanager
    async def database(self, *, template: str = TEMPLATE) -> AsyncIterator[str]:
        """The URL of a new database, which is dropped with everybody in it."""
        self.made += 1
        name = f"test_{self.made}"
        # Copying files is what a file system in memory does best.
        await self.maintenance.execute(
            f"create database {name} template {template} strategy file_copy"
        )
        try:
            yield self.url_of(name)
        finally:
            await self.maintenance.execute(f"drop database {name} with (force)")


@asynccontextmanager
async def open_server() -> AsyncIterator[Server]:
    """Serve a new folder, with a migrated database to copy, until the context ends."""
    folder = Path(tempfile.mkdtemp(prefix="sinksweep-tests-", dir=scratch_folder()))
    # The server may run as another account, which has to pass through; the data inside is its own.
    os.chmod(folder, 0o711)  # noqa: PTH101
    try:
        async with EmbeddedPostgres.open(
            folder, binaries=find_binaries(), durable=False
        ) as postgres:
            maintenance = await asyncpg.connect(postgres.url)
            server = Server(postgres.url, maintenance)
            await maintenance.execute(f"create database {TEMPLATE}")
            await schema.upgrade(server.url_of(TEMPLATE))
            try:
                yield server
            finally:
                await maintenance.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scratch_folder() -> str:
    """Memory, where there is plenty of it: a database is made ten times faster there than on a disk."""
    memory = "/dev/shm"
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= MEMORY_BYTES_MIN
    return memory if roomy else "/tmp"


def options_for(
    url: str,
    *,
    pool_max: int = 10,
    statement_timeout_ms: int = 10_000,
    lock_timeout_ms: int = 5_000,
    pooled: bool = False,
    direct_url: str | None = None,
) -> DatabaseOptions:
    """How the service connects in tests: as the role that owns nothing, like in production."""
    return DatabaseOptions(
        url=url,
        role="sinksweep_app",
        pool_max=pool_max,
        reserved_connections=1,
        acquire_seconds_max=3.0,
        connect_seconds=10.0,
        statement_timeout_ms=statement_timeout_ms,
        lock_timeout_ms=lock_timeout_ms,
        command_seconds_max=20.0,
        pooled=pooled,
        keeps_statements=False,
        direct_url=direct_url,
    )


@dataclass(slots=True)
class Clock:
    """Moves `sink.now()` for every session of one database at once."""

    admin: "Admin"
    ahead_seconds: float = 0.0

    async def travel(self, seconds: float) -> None:
        """Move time by `seconds`, on from where it is."""
        self.ahead_seconds += seconds
        await self._define(f"statement_timestamp() + interval '{self.ahead_seconds} seconds'")

    async def freeze(self) -> None:
        """Stop time where it is, so that what follows happens at one instant. `travel` lets it run again."""
        now = await self.admin.fetchval("select sink.now()")
        await self._define(f"timestamptz '{now.isoformat()}'")

    async def step(self, seconds: float) -> None:
        """Move stopped time by exactly `seconds`; it stays stopped."""
        now = await self.admin.fetchval("select sink.now()")
        await self._define(f"timestamptz '{(now + timedelta(seconds=seconds)).isoformat()}'")

    async def _define(self, expression: str) -> None:
        body = expression.replace("'", "''")
        await self.admin.execute(
            "create or replace function sink.now() returns timestamptz"
            f" language sql stable parallel safe as 'select {body}'"
        )


async def wait_for_lock(admin: "Admin", *, sessions: int = 1, seconds_max: float = 10.0) -> None:
    """Return as soon as Postgres says that this many sessions of the service wait for a lock."""
    query = """
        select count(*) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()
    """
    async with asyncio.timeout(seconds_max):
        while await admin.fetchval(query) < sessions:
            await asyncio.sleep(POLL_SECONDS)


async def close_database(admin: "Admin") -> None:
    """Let nobody in, and throw out everybody but this connection."""
    await admin.execute(
        "update pg_database set datallowconn = false where datname = current_database()"
    )
    await admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )


async def open_database(admin: "Admin") -> None:
    """Let everybody in again."""
    await admin.execute(
        "update pg_database set datallowconn = true where datname = current_database()"
    )
