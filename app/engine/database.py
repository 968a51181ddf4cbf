"""Opens the pool: a role that owns nothing, a time limit on everything, and no state left behind in a session."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

if TYPE_CHECKING:
    from asyncpg import Connection, Record

    Pool = asyncpg.Pool[Record]


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """How the service connects: times bound every wait on both sides of the socket.

    An empty role is the login's own.
    """

    url: str
    role: str
    pool_max: int
    connect_seconds: float
    statement_timeout_ms: int
    lock_timeout_ms: int
    command_seconds_max: float


async def _leave_as_it_is(_connection: "Connection[Record]") -> None:
    """No verb sets session state, so a released connection needs no round trip to clean it."""


def session_settings(options: DatabaseOptions, *, application_name: str) -> dict[str, str]:
    """The settings of each session, set while it connects."""
    role = {"role": options.role} if options.role else {}
    return role | {
        "application_name": application_name,
        "search_path": "pg_catalog",
        "timezone": "UTC",
        "statement_timeout": str(options.statement_timeout_ms),
        "lock_timeout": str(options.lock_timeout_ms),
        "idle_in_transaction_session_timeout": str(options.statement_timeout_ms * 2),
        "jit": "off",
        # The statements are few and large: planning one costs more than running it, and no plan depends on a value.
        "plan_cache_mode": "force_generic_plan",
    }


@contextlib.asynccontextmanager
async def open_pool(options: DatabaseOptions, *, application_name: str) -> "AsyncGenerator[Pool]":
    """A pool that opens connections as they are needed: a database that is away delays calls, not the start."""
    pool = asyncpg.create_pool(
        options.url,
        min_size=0,
        max_size=options.pool_max,
        timeout=options.connect_seconds,
        command_timeout=options.command_seconds_max,
        server_settings=session_settings(options, application_name=application_name),
        reset=_leave_as_it_is,
    )
    await pool
    try:
        yield pool
    finally:
        try:
            async with asyncio.timeout(options.command_seconds_max):
                await pool.close()
        except TimeoutError:
            pool.terminate()
