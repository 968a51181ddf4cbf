"""One verb call, one transaction: retried whole where Postgres says that it may be, and never a single statement of it.

Serialization failures, deadlocks and lock timeouts leave nothing behind, so the whole work runs again, a bounded number
of times with jitter. A lost database ends in `DatabaseUnavailable`: whether the commit was done is then unknown, which
every verb answers by being repeatable.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from app.domain.errors import NotReady

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

T = TypeVar("T")

TRIES_MAX = 6
# Shorter than any provider waits for its answer.
ACQUIRE_SECONDS_MAX = 3.0
_PAUSE_SECONDS = 0.01
_PAUSE_SECONDS_MAX = 0.3

_RETRIED = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
)
# The server is away, starting, stopping, full, or did not answer in time.
_UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)

_jitter = random.Random()


class DatabaseUnavailable(NotReady):
    """The database did not answer. Whether the transaction was committed is not known; repeat the call."""

    def __init__(self) -> None:
        super().__init__("database_unavailable", "The database is not available at the moment.")


async def transact(
    pool: "Pool",
    work: "Callable[[Link], Awaitable[T]]",
    *,
    explicit: bool = True,
) -> T:
    """Run `work` in a transaction of its own and return what it returns, once that is committed.

    `explicit=False` is for work whose single writing statement is its own transaction.
    """
    tried = 0
    while True:
        tried += 1
        try:
            async with _connection(pool) as connection:
                if not explicit:
                    return await work(connection)
                async with connection.transaction():
                    return await work(connection)
        except _RETRIED as error:
            if tried >= TRIES_MAX:
                raise DatabaseUnavailable from error
            await asyncio.sleep(_pause(tried))
        except _UNAVAILABLE as error:
            if isinstance(error, ValueError):
                # A value that cannot be encoded is a mistake of ours, and no outage.
                raise
            raise DatabaseUnavailable from error


@contextlib.asynccontextmanager
async def _connection(pool: "Pool") -> "AsyncGenerator[Link]":
    try:
        # The limit is what keeps an exhausted pool from hanging its callers.
        connection = await pool.acquire(timeout=ACQUIRE_SECONDS_MAX)
    except (*_UNAVAILABLE, asyncpg.PostgresError) as error:
        # Whatever keeps the service from connecting, it may connect later.
        raise DatabaseUnavailable from error
    try:
        yield connection
    except (TimeoutError, asyncio.CancelledError):
        # Giving it back would wait until the server has cancelled what it was asked, and a server that is silent does
        # not even do that.
        connection.terminate()
        raise
    finally:
        await pool.release(connection)


def _pause(tried: int) -> float:
    return float(min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS * 2**tried)) * _jitter.random()
