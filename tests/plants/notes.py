"""A run being written down: the records, the two clocks, and the faults that it meets."""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import asyncpg

from app.domain.errors import SinksweepError
from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX, format_id
from app.domain.model import Claimed
from tests.database import POLL_SECONDS, Clock
from tests.engine.stories import Sink
from tests.engine.suspense import OneSession
from tests.history.history import History
from tests.history.log import Asked, PostAnswered, Record, Terms, Told, now
from tests.history.rows import read_database, read_moment

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

TERMS = Terms(
    turn_attempts_max=5,
    releases_max=20,
    message_attempts_max=5,
    message_age_seconds_max=86_400.0,
    slack_seconds=1.0,
)

# What a verb raises when the service, or the database behind it, does not do it.
Failed = (SinksweepError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
Verb = Callable[[Sink], Awaitable[Any]]

_OTHERS = """
    select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
_THROW_OUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
_WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()
"""


def turn_id(turn: UUID) -> str:
    return format_id(TURN_PREFIX, turn)


def message_id(message: UUID) -> str:
    return format_id(MESSAGE_PREFIX, message)


@dataclass(slots=True)
class Notes:
    """Who watches a run: `records` is what was seen of it so far."""

    url: str
    sink: Sink
    admin: "Admin"
    clock: Clock
    records: list[Record] = field(default_factory=lambda: [TERMS])
    _untold: list[Told | PostAnswered] = field(default_factory=list)

    def note(self, record: Record, sink: Sink | None = None) -> None:
        """Write down. What a replica says that has not committed is not heard before it has."""
        suspended = sink is not None and isinstance(sink.pool, OneSession)
        if suspended and isinstance(record, Told | PostAnswered):
            self._untold.append(record)
        else:
            self.records.append(record)

    def agree(self, **terms: Any) -> None:
        """Change what was configured."""
        self.records[0] = replace(cast("Terms", self.records[0]), **terms)

    async def travel(self, seconds: float) -> None:
        """Move the database's clock, and write down what it says."""
        await self.clock.travel(seconds)
        self.note(await read_moment(self.admin))

    async def crash(self) -> None:
        """Every session of the service is lost, with whatever it has not committed."""
        await self.admin.execute(_THROW_OUT)
        async with asyncio.timeout(10):
            while await self.admin.fetchval(_OTHERS):
                await asyncio.sleep(POLL_SECONDS)
        await self.sink.pool.expire_connections()

    async def race(self, first: Verb, second: Verb) -> None:
        """The second begins when the first has done its work, which is committed when the second waits or has ended."""
        async with self.sink.pool.acquire() as connection, asyncio.TaskGroup() as others:
            transaction = connection.transaction()
            await transaction.start()
            pool = cast("Pool", OneSession(connection))
            await first(replace(self.sink, pool=pool))
            task = others.create_task(_ended(second(self.sink)))
            async with asyncio.timeout(10):
                while not task.done() and not await self.admin.fetchval(_WAITING):
                    await asyncio.sleep(POLL_SECONDS)
            await transaction.commit()
            self.records += [replace(told, at=now()) for told in self._untold]
            self._untold.clear()

    async def beside(self, *verbs: Awaitable[Any]) -> None:
        """All at once; each may fail, as its caller has written down."""
        async with asyncio.TaskGroup() as group:
            for verb in verbs:
                group.create_task(_ended(verb))

    async def history(self) -> History:
        """The run so far."""
        return History(self.records, await read_database(self.url))

    def ask(self, agent: str, verb: str, held: Claimed | None = None, **more: Any) -> str:
        call = uuid.uuid4().hex
        if held is not None:
            more |= {"turn": turn_id(held.turn), "token": str(held.token)}
        self.note(Asked(call, now(), agent, verb, **more))
        return call


async def _ended(verb: Awaitable[Any]) -> None:
    with contextlib.suppress(*Failed):
        await verb


class OneBreath:
    """Stands in for a pool: the database is there for one transaction, and then away."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._used = False

    async def acquire(self, *, timeout: float) -> Any:  # noqa: ASYNC109
        if self._used:
            raise ConnectionResetError
        self._used = True
        return await self._pool.acquire(timeout=timeout)

    async def release(self, connection: Any) -> None:
        await self._pool.release(connection)


def with_one_breath(sink: Sink) -> Sink:
    """A replica that loses the database after one transaction."""
    return replace(sink, pool=cast("Pool", OneBreath(sink.pool)))
