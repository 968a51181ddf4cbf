"""One verb call, one transaction: retried whole where Postgres says that it may be, and never a single statement of it.

Serialization failures, deadlocks and lock timeouts leave nothing behind, so the whole work runs again, a bounded number
of times with jitter. A lost database ends in `DatabaseUnavailable`: whether the commit was done is then unknown, which
every verb answers by being repeatable.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from app.domain.errors import NotReady

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

T = TypeVar("T")
Item = TypeVar("Item")

TRIES_MAX = 6
# No further try begins after this: whoever waits for an answer gets one.
RETRY_SECONDS_MAX = 4.0
# Shorter than any provider waits for its answer.
ACQUIRE_SECONDS_MAX = 3.0
# How long a batch that failed is done one by one.
SINGLES_SECONDS_MAX = 10.0
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


class Overloaded(NotReady):
    """More is asked for at the moment than there is room for. Nothing was done."""

    def __init__(self) -> None:
        super().__init__("overloaded", "There are too many requests at the moment.")


class Busy(DatabaseUnavailable):
    """Somebody else held what this needed, at every try. Nothing was changed."""


async def transact(
    pool: "Pool",
    work: "Callable[[Link], Awaitable[T]]",
    *,
    explicit: bool = True,
    lock_wait_ms: int | None = None,
) -> T:
    """Run `work` in a transaction of its own and return what it returns, once that is committed.

    `explicit=False` is for work whose single writing statement is its own transaction.

    With `lock_wait_ms` no lock is waited for longer than that, and one that somebody holds so long is `Busy` at once:
    for work that can be done in parts instead. What is not `explicit` says so itself in its statement.
    """
    tried, began = 0, time.monotonic()
    begin: str | None = getattr(pool, "begin", None)
    while True:
        tried += 1
        try:
            async with _connection(pool) as connection:
                if explicit or begin is not None:
                    return await _committed(connection, work, lock_wait_ms, begin)
                return await work(connection)
        except _RETRIED as error:
            if lock_wait_ms is not None and isinstance(error, asyncpg.LockNotAvailableError):
                raise Busy from error
            if tried >= TRIES_MAX or time.monotonic() - began > RETRY_SECONDS_MAX:
                raise Busy from error
            await asyncio.sleep(_pause(tried))
        except asyncpg.QueryCanceledError as error:
            # It took too long, most likely behind somebody: waiting again would take as long again.
            raise Busy from error
        except _UNAVAILABLE as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # What broke while it was cancelled must not keep it from ending.
                raise asyncio.CancelledError from error
            if isinstance(error, ValueError):
                # A value that cannot be encoded is a mistake of ours, and no outage.
                raise
            raise DatabaseUnavailable from error


@dataclass(frozen=True, slots=True)
class _Spelled:
    """A transaction that sets what it needs as it begins, in one round trip."""

    connection: "Link"
    begin: str

    async def start(self) -> None:
        try:
            await self.connection.execute(self.begin)
        except asyncpg.PostgresError as error:
            self.connection.terminate()
            # As when a session cannot be had: it may be had later.
            raise DatabaseUnavailable from error

    async def commit(self) -> None:
        await self.connection.execute("commit")

    async def rollback(self) -> None:
        await self.connection.execute("rollback")


async def _committed(
    connection: "Link",
    work: "Callable[[Link], Awaitable[T]]",
    lock_wait_ms: int | None,
    begin: str | None,
) -> T:
    if lock_wait_ms is not None:
        begin = f"{begin or 'begin'};set local lock_timeout to {lock_wait_ms:d}"
    transaction = connection.transaction() if begin is None else _Spelled(connection, begin)
    await transaction.start()
    try:
        result = await work(connection)
    except (TimeoutError, asyncio.CancelledError):
        # Who does not answer would not answer to a rollback either. Closing the connection is one.
        connection.terminate()
        raise
    except BaseException:
        await transaction.rollback()
        raise
    await transaction.commit()
    return result


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
    except asyncpg.ReadOnlySQLTransactionError:
        # What was the primary is one no more. The next connection finds the one that is.
        connection.terminate()
        raise
    finally:
        await pool.release(connection)


def _pause(tried: int) -> float:
    return float(min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS * 2**tried)) * _jitter.random()


async def each_or_all(
    items: "Sequence[Item]", work: "Callable[[Sequence[Item]], Awaitable[T]]"
) -> "tuple[list[T], list[Exception]]":
    """Do a batch in one call of `work`; if it fails, every item in a call of its own, so that one holds up no other.

    Returns what was done and what failed. A database that is away is raised.
    """
    try:
        return [await work(items)], []
    except Exception as error:
        if len(items) == 1 and not is_away(error):
            return [], [error]
        if is_away(error):
            raise
    done: list[T] = []
    failed: list[Exception] = []
    until = time.monotonic() + SINGLES_SECONDS_MAX
    for item in items:
        if time.monotonic() > until:
            # The rest waits for the next time: others have work for this loop, too.
            break
        one, broken = await each_or_all([item], work)
        done += one
        failed += broken
    return done, failed


def is_away(error: Exception) -> bool:
    """Whether it says that the database is away: nothing else that is asked of it now would fare better."""
    return isinstance(error, NotReady) and not isinstance(error, Busy)
