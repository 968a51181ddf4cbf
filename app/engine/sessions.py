"""Sessions: who else is on the server, and what they hold: transactions, the log, connections. Changes nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link, Statement

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Session:
    """A transaction that has been open for `open_seconds`, and has done nothing for `still_seconds` if it is idle."""

    pid: int
    login: str
    application: str
    is_here: bool
    is_idle: bool
    open_seconds: float
    still_seconds: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction that was prepared and neither committed nor rolled back since."""

    gid: str
    login: str
    open_seconds: float


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot. `held_bytes` of the log are kept for it; None on a standby or before its first use."""

    name: str
    is_read: bool
    is_lost: bool
    held_bytes: int | None


@dataclass(frozen=True, slots=True)
class Connections:
    """Limits of the server, the login and the database (-1 for none), and how much of each is used."""

    allowed: int
    login_limit: int
    database_limit: int
    used: int
    here: int
    of_login: int
    ours: int


async def _rows(pool: "Pool", statement: "Statement", **values: object) -> "list[Record]":
    async def work(connection: "Link") -> "list[Record]":
        return await statement.rows(connection, **values)

    return await transact(pool, work, explicit=False)


async def find_sessions(pool: "Pool", *, seconds: float) -> list[Session]:
    """Up to ten transactions that are open for longer than this, the longest first."""
    return [
        Session(**dict(row)) for row in await _rows(pool, SQL["find_sessions"], seconds=seconds)
    ]


async def find_prepared(pool: "Pool", *, seconds: float) -> list[Prepared]:
    """Up to ten transactions that were prepared longer ago than this, the longest first."""
    return [
        Prepared(**dict(row)) for row in await _rows(pool, SQL["find_prepared"], seconds=seconds)
    ]


async def find_slots(pool: "Pool") -> list[Slot]:
    """Up to twenty replication slots, the one that holds most first."""
    return [Slot(**dict(row)) for row in await _rows(pool, SQL["show_slots"])]


async def find_connections(pool: "Pool") -> Connections:
    """How many connections there may be, and are."""
    return Connections(**dict((await _rows(pool, SQL["find_connections"]))[0]))
