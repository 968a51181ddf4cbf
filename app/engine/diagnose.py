"""Diagnose: ask a server what it says about itself, and try what the service needs of it. Changes nothing.

Everything takes a pool, so that it can be asked as the role that works and as the login, which may see more.
"""

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.schema import written_schema
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link, Statement

SQL = load(__file__)

_INDEX = re.compile(
    r"^CREATE (?:UNIQUE )?INDEX (\w+) |ADD CONSTRAINT (\w+) PRIMARY KEY", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Server:
    """Which server answers, and as whom it is asked.

    `version` is its number, 150004 for 15.4; `is_here`: it is this machine.
    """

    version: int
    spelled: str
    is_standby: bool
    works_as: str
    logged_in_as: str
    is_here: bool
    sees_all: bool


@dataclass(frozen=True, slots=True)
class Standbys:
    """How many servers follow this one, and how many of them a commit waits for."""

    standbys: int
    synchronous: int


@dataclass(frozen=True, slots=True)
class DatabaseRole:
    """What the role that works may do beside its work."""

    name: str
    is_superuser: bool
    makes_roles: bool
    makes_databases: bool
    replicates: bool
    enters: bool
    makes_tables: bool
    owns_tables: bool


@dataclass(frozen=True, slots=True)
class Grant:
    """What a role may do with one table; `changes` is to update, delete or truncate."""

    name: str
    reads: bool
    adds: bool
    changes: bool


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one table as the statistics estimate them; `vacuumed_ago` in seconds, None for never."""

    name: str
    live: int
    dead: int
    vacuumed_ago: float | None
    never_vacuumed: bool


@dataclass(frozen=True, slots=True)
class Stuck:
    """For how many seconds something should have been put back or made due; None where there is nothing."""

    turn_seconds: float | None
    message_seconds: float | None
    scheduled_seconds: float | None
    deadline_seconds: float | None


@dataclass(frozen=True, slots=True)
class OpenBreaker:
    """A destination whose breaker is not closed, configured or not: `open`, `probing` or `disabled`."""

    name: str
    state: str
    reason: str | None
    open_seconds: float


async def _rows(pool: "Pool", statement: "Statement", **values: object) -> "list[Record]":
    async def work(connection: "Link") -> "list[Record]":
        return await statement.rows(connection, **values)

    return await transact(pool, work, explicit=False)


async def find_server(pool: "Pool") -> Server:
    """Which server this is."""
    return Server(**dict((await _rows(pool, SQL["find_server"]))[0]))


async def find_settings(pool: "Pool", *names: str) -> Mapping[str, str]:
    """Settings by name; those that this role may not see are left out."""
    rows = await _rows(pool, SQL["find_settings"], names=list(names))
    return {row["name"]: row["setting"] for row in rows}


async def time_commits(pool: "Pool", *, count: int, seconds_max: float) -> list[float]:
    """Seconds that each of up to `count` commits took, one after the other, within about `seconds_max`.

    Each flushes the log as every commit of the service does, and leaves no row behind.
    """
    return await _timed(pool, SQL["commit_once"], count=count, seconds_max=seconds_max)


async def time_questions(pool: "Pool", *, count: int, seconds_max: float) -> list[float]:
    """The same for questions, which write nothing: the way there and back."""
    return await _timed(pool, SQL["find_backend"], count=count, seconds_max=seconds_max)


async def _timed(
    pool: "Pool", statement: "Statement", *, count: int, seconds_max: float
) -> list[float]:
    until = time.monotonic() + seconds_max
    took: list[float] = []
    while len(took) <= count and (not took or time.monotonic() < until):
        began = time.monotonic()
        await _rows(pool, statement)
        took.append(time.monotonic() - began)
    # The first one also connects and plans.
    return took[1:] or took


async def find_standbys(pool: "Pool") -> Standbys:
    """Who follows this server."""
    return Standbys(**dict((await _rows(pool, SQL["find_standbys"]))[0]))


async def find_role(pool: "Pool") -> DatabaseRole:
    """What the role of this pool may do."""
    return DatabaseRole(**dict((await _rows(pool, SQL["find_role"]))[0]))


async def find_grants(pool: "Pool") -> list[Grant]:
    """What the role of this pool may do with each table."""
    return [Grant(**dict(row)) for row in await _rows(pool, SQL["find_grants"])]


async def find_indexes(pool: "Pool") -> Mapping[str, bool]:
    """Whether each index can be used, by its name."""
    return {row["name"]: row["is_valid"] for row in await _rows(pool, SQL["find_indexes"])}


def expected_indexes() -> frozenset[str]:
    """The indexes of the schema that this version was written for."""
    return frozenset(one or other for one, other in _INDEX.findall(written_schema()))


async def find_tables(pool: "Pool") -> list[Table]:
    """Each table, the one with the most dead rows first."""
    return [Table(**dict(row)) for row in await _rows(pool, SQL["find_tables"])]


async def find_freeze_age(pool: "Pool") -> int:
    """How many transactions ago this database was frozen."""
    return int((await _rows(pool, SQL["find_freeze_age"]))[0]["transactions"])


async def find_overdue(pool: "Pool", queues: Collection[str]) -> Stuck:
    """What nobody sees to, by those who have these queues configured."""
    return Stuck(**dict((await _rows(pool, SQL["find_overdue"], queues=list(queues)))[0]))


async def find_breakers(pool: "Pool") -> list[OpenBreaker]:
    """The breakers that are not closed."""
    return [OpenBreaker(**dict(row)) for row in await _rows(pool, SQL["find_open_breakers"])]


async def kept_longest_seconds(pool: "Pool") -> float | None:
    """How long ago the longest of the oldest thousand turns ended that is replied and not purged; None without any."""
    (row,) = await _rows(pool, SQL["find_kept_longest"])
    ended: float | None = row["ended_seconds"]
    return ended
