"""Opens the pool: a role that owns nothing, a time limit on everything, and no state left behind in a session.

Most callers share all connections but a reserve, so that however many of them there are, what must not wait finds one.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import asyncpg

from app.engine.transaction import Overloaded

if TYPE_CHECKING:
    from asyncpg import Connection, Record
    from asyncpg.pool import PoolConnectionProxy

    Pool = asyncpg.Pool[Record]


# Whoever has waited for a place has this long to get its connection.
_LEFT_SECONDS_MIN = 0.1
# More than there are.
_STATEMENTS_KEPT = 500


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """How the service connects: times bound every wait on both sides of the socket.

    An empty role is the login's own. `pool_max` connections are for everybody and `reserved_connections` more for what
    must not wait. `pooled`: a pooler in between lends a connection for one transaction, so that no session lasts, and
    `keeps_statements` if it carries prepared ones along; `direct_url` leads past it.
    """

    url: str
    role: str
    pool_max: int
    reserved_connections: int
    acquire_seconds_max: float
    connect_seconds: float
    statement_timeout_ms: int
    lock_timeout_ms: int
    command_seconds_max: float
    pooled: bool
    keeps_statements: bool
    direct_url: str | None

    @property
    def direct(self) -> "DatabaseOptions | None":
        """How to connect to Postgres itself; None where only the way over a pooler is known."""
        if not self.pooled and self.direct_url is None:
            return self
        if self.direct_url is None:
            return None
        return replace(self, url=self.direct_url, pooled=False)


@dataclass(slots=True)
class PoolWatch:
    """Who looks on while connections are taken: how many wait for one now; `acquired` hears how long each did."""

    acquired: Callable[[float], None] = lambda _seconds: None
    waiting: int = 0


class Share:
    """The connections of a pool as some of its callers see them: at most so many at once, waited for at most so long.

    `begin` is what begins each transaction where sessions do not last.
    """

    def __init__(
        self,
        pool: "Pool",
        *,
        connections_max: int | None,
        seconds_max: float,
        begin: str | None,
        watch: PoolWatch,
    ) -> None:
        self._pool = pool
        self._watch = watch
        self._free = None if connections_max is None else asyncio.Semaphore(connections_max)
        self._seconds_max = seconds_max
        self.begin = begin

    async def acquire(self, *, timeout: float) -> "PoolConnectionProxy[Record]":  # noqa: ASYNC109 - the pool's own form
        """A connection; raises `Overloaded` where none was free for `timeout` seconds, or for the share's own time."""
        began = time.monotonic()
        self._watch.waiting += 1
        try:
            connection = await self._acquire(timeout)
        finally:
            self._watch.waiting -= 1
        self._watch.acquired(time.monotonic() - began)
        return connection

    async def _acquire(self, timeout: float) -> "PoolConnectionProxy[Record]":  # noqa: ASYNC109 - the pool's own form
        seconds = min(timeout, self._seconds_max)
        until = asyncio.get_running_loop().time() + seconds
        await self._take_place(seconds)
        try:
            if self._pool.get_idle_size():
                # At once as well. Should it be dead, a new one is opened within the time that connecting may take.
                return await self._pool.acquire()
            left = until - asyncio.get_running_loop().time()
            return await self._pool.acquire(timeout=max(left, _LEFT_SECONDS_MIN))
        except BaseException as error:
            self._give_back()
            if isinstance(error, TimeoutError) and self._is_taken:
                raise Overloaded from error
            raise

    async def _take_place(self, seconds: float) -> None:
        if self._free is None:
            return
        if not self._free.locked():
            # At once: a deadline would cost more than the wait.
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
        except TimeoutError:
            raise Overloaded from None

    @property
    def _is_taken(self) -> bool:
        pool = self._pool
        return pool.get_size() == pool.get_max_size() and not pool.get_idle_size()

    async def release(self, connection: "PoolConnectionProxy[Record]") -> None:
        """Give a connection back."""
        try:
            await self._pool.release(connection)
        finally:
            self._give_back()

    def _give_back(self) -> None:
        if self._free is not None:
            self._free.release()

    def get_size(self) -> int:
        """How many connections the whole pool has open."""
        return self._pool.get_size()

    def get_idle_size(self) -> int:
        """How many of them nobody uses."""
        return self._pool.get_idle_size()

    def get_max_size(self) -> int:
        """How many the whole pool may have."""
        return self._pool.get_max_size()


async def _leave_as_it_is(_connection: "Connection[Record]") -> None:
    """No verb sets session state, so a released connection needs no round trip to clean it."""


def session_settings(options: DatabaseOptions, *, application_name: str) -> dict[str, str]:
    """The settings of each session, set while it connects. A pooler knows only the name."""
    name = {"application_name": application_name}
    return name if options.pooled else name | _settings(options)


def _settings(options: DatabaseOptions) -> dict[str, str]:
    role = {"role": options.role} if options.role else {}
    return role | {
        "search_path": "pg_catalog",
        "timezone": "UTC",
        "statement_timeout": str(options.statement_timeout_ms),
        "lock_timeout": str(options.lock_timeout_ms),
        "idle_in_transaction_session_timeout": str(options.statement_timeout_ms * 2),
        "jit": "off",
        # The statements are few and large: planning one costs more than running it, and no plan depends on a value.
        "plan_cache_mode": "force_generic_plan",
        # A plan that is made while a table is nearly empty is kept after it has grown: none may read a whole one.
        "enable_seqscan": "off",
    }


def begin_with_settings(options: DatabaseOptions) -> str:
    """What begins a transaction where a session does not last: the same settings, for it alone, in one round trip."""
    parts = (
        f"set local {name} to '{value.replace(chr(39), chr(39) * 2)}'"
        for name, value in _settings(options).items()
    )
    return ";".join(("begin", *parts))


@contextlib.asynccontextmanager
async def open_pool(options: DatabaseOptions, *, application_name: str) -> "AsyncGenerator[Pool]":
    """A pool that opens connections as they are needed: a database that is away delays calls, not the start."""
    async with _opened(
        options, application_name=application_name, connections_max=options.pool_max
    ) as pool:
        alone = _share(pool, options, connections_max=None, watch=PoolWatch())
        yield alone if options.pooled else pool


@contextlib.asynccontextmanager
async def open_shares(
    options: DatabaseOptions, *, application_name: str, watch: PoolWatch
) -> "AsyncGenerator[tuple[Pool, Pool]]":
    """One pool, seen twice: by most callers, and by those who may use the reserve as well."""
    both = options.pool_max + options.reserved_connections
    async with _opened(options, application_name=application_name, connections_max=both) as pool:
        yield (
            _share(pool, options, connections_max=options.pool_max, watch=watch),
            _share(pool, options, connections_max=None, watch=watch),
        )


def _share(
    pool: "Pool", options: DatabaseOptions, *, connections_max: int | None, watch: PoolWatch
) -> "Pool":
    share = Share(
        pool,
        connections_max=connections_max,
        seconds_max=options.acquire_seconds_max,
        begin=begin_with_settings(options) if options.pooled else None,
        watch=watch,
    )
    # Of a pool the verbs only take connections, and give them back.
    return cast("Pool", share)


@contextlib.asynccontextmanager
async def _opened(
    options: DatabaseOptions, *, application_name: str, connections_max: int
) -> "AsyncGenerator[Pool]":
    keeps_statements = options.keeps_statements or not options.pooled
    pool = asyncpg.create_pool(
        options.url,
        min_size=0,
        max_size=connections_max,
        timeout=options.connect_seconds,
        command_timeout=options.command_seconds_max,
        server_settings=session_settings(options, application_name=application_name),
        reset=_leave_as_it_is,
        statement_cache_size=_STATEMENTS_KEPT if keeps_statements else 0,
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
