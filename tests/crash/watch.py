"""A pool that tells of every statement, BEGIN and COMMIT that a verb sends, before it is sent and after its answer."""

import importlib
import pkgutil
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import app.engine

if TYPE_CHECKING:
    from asyncpg import Record
    from asyncpg.pool import PoolConnectionProxy
    from asyncpg.transaction import Transaction

    from app.engine.database import Pool
    from app.engine.statements import Link

T = TypeVar("T")

_WRITE = re.compile(r"\b(?:insert into|update|delete from) sink\.")

BEGIN, COMMIT, ROLLBACK = "BEGIN", "COMMIT", "ROLLBACK"


@dataclass(frozen=True, slots=True)
class Point:
    """One request of a verb to its database. `commits`: what was written is committed once it is answered."""

    number: int
    label: str
    commits: bool


class Watcher(Protocol):
    """Is told of every point. What it raises is what the verb sees."""

    async def before(self, point: Point, connection: "Link") -> None: ...
    async def after(self, point: Point, connection: "Link") -> None: ...


def statement_names() -> dict[str, str]:
    """The name of every statement of the engine, by its text."""
    names: dict[str, str] = {}
    for module in pkgutil.iter_modules(app.engine.__path__):
        loaded = getattr(importlib.import_module(f"app.engine.{module.name}"), "SQL", {})
        names |= {statement.text: name for name, statement in loaded.items()}
    return names


@dataclass(slots=True)
class WatchedPool:
    """Stands in for a pool, for one verb call."""

    pool: "Pool"
    watcher: Watcher
    names: dict[str, str] = field(default_factory=statement_names)
    points: list[Point] = field(default_factory=list)

    async def acquire(self, *, timeout: float) -> "WatchedLink":  # noqa: ASYNC109
        """A connection whose requests are told."""
        return WatchedLink(self, await self.pool.acquire(timeout=timeout))

    async def release(self, link: "WatchedLink") -> None:
        """Give the connection back."""
        await self.pool.release(cast("PoolConnectionProxy[Record]", link.connection))

    async def step(
        self,
        label: str,
        connection: "Link",
        request: Callable[[], Awaitable[T]],
        *,
        commits: bool,
    ) -> T:
        """One request, with the watcher on both sides of it."""
        point = Point(len(self.points), label, commits)
        self.points.append(point)
        await self.watcher.before(point, connection)
        answer = await request()
        await self.watcher.after(point, connection)
        return answer


@dataclass(slots=True)
class WatchedLink:
    """Stands in for a connection."""

    pool: WatchedPool
    connection: "Link"
    inside: bool = False
    has_written: bool = False

    async def fetch(self, text: str, *arguments: object) -> "list[Record]":
        """As a connection does."""
        return await self._statement(text, lambda: self.connection.fetch(text, *arguments))

    async def execute(self, text: str, *arguments: object) -> str:
        """As a connection does. A transaction may be spelled out, with what it sets as it begins."""

        async def request() -> str:
            return await self.connection.execute(text, *arguments)

        match text.partition(";")[0].upper():
            case "BEGIN":
                return await self.begin(request)
            case "COMMIT" | "ROLLBACK" as end:
                return await self.end(end, request)
            case _:
                return await self._statement(text, request)

    async def begin(self, request: Callable[[], Awaitable[T]]) -> T:
        """What begins a transaction."""
        answer = await self.pool.step(BEGIN, self.connection, request, commits=False)
        self.inside, self.has_written = True, False
        return answer

    async def end(self, name: str, request: Callable[[], Awaitable[T]]) -> T:
        """What ends one."""
        self.inside = False
        commits = name == COMMIT and self.has_written
        return await self.pool.step(name, self.connection, request, commits=commits)

    async def _statement(self, text: str, request: Callable[[], Awaitable[T]]) -> T:
        writes = _WRITE.search(text) is not None
        self.has_written = self.has_written or writes
        return await self.pool.step(
            self.pool.names[text], self.connection, request, commits=writes and not self.inside
        )

    def transaction(self) -> "WatchedTransaction":
        """As a connection does."""
        return WatchedTransaction(self, self.connection.transaction())

    def terminate(self) -> None:
        """As a connection does."""
        self.connection.terminate()


@dataclass(slots=True)
class WatchedTransaction:
    """Stands in for a transaction."""

    link: WatchedLink
    inner: "Transaction"

    async def start(self) -> None:
        """As a transaction does."""
        await self.link.begin(self.inner.start)

    async def commit(self) -> None:
        """As a transaction does."""
        await self.link.end(COMMIT, self.inner.commit)

    async def rollback(self) -> None:
        """As a transaction does."""
        await self.link.end(ROLLBACK, self.inner.rollback)


@dataclass(slots=True)
class Nobody:
    """Watches and does nothing."""

    async def before(self, point: Point, connection: "Link") -> None:
        """Nothing."""

    async def after(self, point: Point, connection: "Link") -> None:
        """Nothing."""
