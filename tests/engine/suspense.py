"""A replica whose transaction has done its work and not yet ended: the moment that races are about."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tests.database import wait_for_lock
from tests.engine.stories import Sink

if TYPE_CHECKING:
    from asyncpg.transaction import Transaction

    from app.engine.database import Pool
    from app.engine.statements import Link
    from tests.database import Admin

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OneSession:
    """Stands in for a pool: whatever is asked happens inside one open transaction."""

    connection: "Link"

    async def acquire(self, *, timeout: float) -> "Link":  # noqa: ASYNC109
        assert timeout > 0
        return self.connection

    async def release(self, connection: "Link") -> None:
        assert connection is self.connection


@dataclass(slots=True)
class Within:
    """A session in an open transaction: one that is spelled out within it is a savepoint."""

    connection: "Link"
    inner: "Transaction | None" = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    async def execute(self, text: str, *arguments: object) -> str:
        first, _, rest = text.partition(";")
        if first == "begin":
            self.inner = self.connection.transaction()
            await self.inner.start()
            return await self.connection.execute(rest)
        if self.inner is not None and first in {"commit", "rollback"}:
            inner, self.inner = self.inner, None
            await (inner.commit() if first == "commit" else inner.rollback())
            return first.upper()
        return await self.connection.execute(text, *arguments)


@dataclass(slots=True)
class Suspended:
    """The verbs of a replica that stands before its commit."""

    sink: Sink
    admin: "Admin"
    others: asyncio.TaskGroup
    commits: bool = True

    def roll_back(self) -> None:
        """The replica is to die instead of committing."""
        self.commits = False

    async def blocks(self, verb: Coroutine[Any, Any, T], *, sessions: int = 1) -> asyncio.Task[T]:
        """Start a verb of another replica, and return as soon as Postgres says that it waits for a lock, as so many do.

        It has its result when the context has ended.
        """
        task = self.others.create_task(verb)
        await wait_for_lock(self.admin, sessions=sessions)
        assert not task.done()
        return task


Suspend = Callable[[], AbstractAsyncContextManager[Suspended]]


@asynccontextmanager
async def suspended(sink: Sink, admin: "Admin") -> AsyncIterator[Suspended]:
    """What is done with these verbs is committed, or rolled back, when the context ends.

    Then it waits for those that were blocked.
    """
    async with asyncio.TaskGroup() as others, sink.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        pool = cast("Pool", OneSession(cast("Link", Within(connection))))
        replica = Suspended(replace(sink, pool=pool), admin, others)
        try:
            yield replica
        except BaseException:
            await transaction.rollback()
            raise
        if replica.commits:
            await transaction.commit()
        else:
            await transaction.rollback()
