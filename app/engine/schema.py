"""The schema: brings it up to date, and refuses to work with one that is behind or ahead."""

import asyncio
import importlib.util
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from app.domain.errors import SinksweepError
from app.engine.statements import load
from app.engine.transaction import DatabaseUnavailable, transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# alembic keeps what it works on in a module's globals: one at a time in a process. Between processes
# the migrations' own lock in the database decides.
_alembic = threading.Lock()


# The role of the service does not exist, or the login may not take it on.
NOT_OUR_ROLE = (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError)


class WrongSchema(SinksweepError):
    """The database's schema is not the one that this version was written for."""


class UpgradeFailed(SinksweepError):
    """The database was not reached, or does not let this role change it."""


def _configuration(url: str | None) -> Config:
    found = importlib.util.find_spec("migrations")
    if found is None or found.origin is None:
        message = "the migrations are not installed beside the service"
        raise WrongSchema(message)
    config = Config()
    config.set_main_option("script_location", str(Path(found.origin).parent).replace("%", "%%"))
    config.attributes["url"] = url
    return config


def head() -> str:
    """The revision this version was written for."""
    return str(ScriptDirectory.from_config(_configuration(None)).get_current_head())


def written_schema() -> str:
    """The schema that this version was written for, as `make schema` wrote it."""
    folder = Path(_configuration(None).get_main_option("script_location") or "")
    return (folder / "schema.sql").read_text(encoding="utf-8")


async def upgrade(url: str) -> None:
    """Run the missing revisions as the role of `url`, which must own the schema. Safe to run at once.

    Raises `UpgradeFailed`.
    """

    def work() -> None:
        with _alembic:
            command.upgrade(_configuration(url), "head")

    try:
        # The migrations bring an event loop of their own.
        await asyncio.to_thread(work)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        message = f"the schema was not brought up to date: {error or type(error).__name__}"
        raise UpgradeFailed(message) from error
    except DBAPIError as error:
        # What Postgres said of a revision; the rest is where it was said.
        message = f"the schema was not brought up to date: {error.orig}"
        raise UpgradeFailed(message) from error


def not_our_role(error: BaseException) -> bool:
    """Whether the server was reached and the login could not take on the role of the service."""
    return isinstance(error.__cause__, NOT_OUR_ROLE)


async def check_schema(pool: "Pool") -> None:
    """Raise `WrongSchema` unless the database is at this version's revision."""

    async def work(connection: "Link") -> str | None:
        exists = await SQL["find_version_table"].rows(connection)
        if not exists[0]["present"]:
            return None
        rows = await SQL["find_revision"].rows(connection)
        return str(rows[0]["version_num"]) if rows else None

    try:
        found, wanted = await transact(pool, work, explicit=False), head()
    except DatabaseUnavailable as error:
        # The first migration on a server makes the role that the service takes on.
        if not_our_role(error):
            message = f"{error.__cause__}: run `sinksweep migrate`, or correct database.role"
            raise WrongSchema(message) from error
        raise
    if found == wanted:
        return
    if found is None:
        message = "the database has no schema yet: run `sinksweep migrate`"
    elif found < wanted:
        message = f"the schema is at {found}, this version needs {wanted}: run `sinksweep migrate`"
    else:
        message = f"the schema is at {found}, newer than {wanted}, which this version knows"
    raise WrongSchema(message)


async def undurable(pool: "Pool") -> list[str]:
    """The server's settings that make a commit less than durable, as `name = value`."""

    async def work(connection: "Link") -> list[str]:
        rows = await SQL["find_durability"].rows(connection)
        return [f"{row['name']} = {row['setting']}" for row in rows if row["setting"] == "off"]

    return await transact(pool, work, explicit=False)
