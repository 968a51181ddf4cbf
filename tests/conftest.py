"""What every test may ask for: a migrated database of its own, the service's pool on it, and its clock."""

import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.domain.ids import IdFactory
from app.engine.database import open_pool
from tests.database import Clock, Server, open_server, options_for

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

Travel = Callable[[float], Awaitable[None]]
Freeze = Callable[[], Awaitable[None]]


@pytest.fixture(scope="session")
async def postgres() -> AsyncIterator[Server]:
    """One Postgres for all tests of a session."""
    async with open_server() as server:
        yield server


@pytest.fixture
async def database_url(postgres: Server) -> AsyncIterator[str]:
    """A migrated, empty database, for its superuser."""
    async with postgres.database() as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> "AsyncIterator[Pool]":
    """The service's own pool, under the role that owns nothing."""
    async with open_pool(options_for(database_url), application_name="sinksweep-test") as opened:
        yield opened


@pytest.fixture
async def admin(database_url: str) -> "AsyncIterator[Admin]":
    """A superuser's connection, to look and to place rows."""
    connection = await asyncpg.connect(database_url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
def clock(admin: "Admin") -> Clock:
    """The database's clock."""
    return Clock(admin)


@pytest.fixture
def travel(clock: Clock) -> Travel:
    """Moves `sink.now()` by seconds, for every session."""
    return clock.travel


@pytest.fixture
def freeze(clock: Clock) -> Freeze:
    """Stops `sink.now()` where it is, for every session, until the next `travel`."""
    return clock.freeze


@pytest.fixture
def ids() -> IdFactory:
    """Ids as the service mints them."""
    return IdFactory(milliseconds=lambda: time.time_ns() // 1_000_000, random_bytes=os.urandom)


@pytest.fixture
def jitter() -> random.Random:
    """The same jitter in every run."""
    return random.Random(0)
