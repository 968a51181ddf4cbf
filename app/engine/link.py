"""Link: how connections to the server behave, which a pooler between may change: what is kept, what is heard."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

from app.engine.database import DatabaseOptions, session_settings
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Connection, Record
    from asyncpg.prepared_stmt import PreparedStatement

SQL = load(__file__)

CHANNEL = "sinksweep_doctor"
HEAR_SECONDS_MAX = 3.0
OTHERS_MAX = 4


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What two connections at once showed.

    `is_pooled`: something between answers for the server. `is_shared`: two clients met in one process of the server, or
    one met several: sessions do not last. `keeps_statements`: what was prepared before is there after.
    """

    is_pooled: bool
    is_shared: bool
    keeps_statements: bool


@contextlib.asynccontextmanager
async def _connected(options: DatabaseOptions) -> "AsyncGenerator[Connection[Record]]":
    connection = await asyncpg.connect(
        options.url,
        timeout=options.connect_seconds,
        command_timeout=options.command_seconds_max,
        # Only what is asked for by name is prepared.
        statement_cache_size=0,
        server_settings=session_settings(options, application_name="sinksweep doctor"),
    )
    try:
        yield connection
    finally:
        connection.terminate()


async def watch_link(options: DatabaseOptions) -> Behaviour:
    """Watch where two connections end up. Raises what connecting raises."""
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(_connected(options))
        first = await _backend(one)
        # By a name of its own, which nobody left behind in a process that was lent before.
        name = f"kept_{secrets.token_hex(8)}"
        kept = await one.prepare(SQL["echo_number"].text, name=name)
        is_pooled = one.get_server_pid() != first
        is_shared, keeps = False, True
        # Whoever shares takes the process that has just become free, or another one of those that a pooler has.
        for _ in range(OTHERS_MAX if is_pooled else 1):
            other = await stack.enter_async_context(_connected(options))
            await stack.enter_async_context(other.transaction())
            met = await _backend(other)
            is_shared = is_shared or met == first or await _backend(one) != first
            keeps = keeps and await _is_kept(kept)
            if is_shared and not keeps:
                break
        return Behaviour(is_pooled=is_pooled, is_shared=is_shared, keeps_statements=keeps)


async def _is_kept(prepared: "PreparedStatement[Record]") -> bool:
    try:
        return bool(await prepared.fetchval(7) == 7)  # noqa: PLR2004 - any number
    except asyncpg.PostgresError:
        return False


async def _backend(connection: "Connection[Record]") -> int:
    return int((await SQL["find_own_backend"].rows(connection))[0]["pid"])


async def keeps_settings(options: DatabaseOptions) -> bool:
    """Whether a session is what it was asked to be, while it connected."""
    async with _connected(options) as connection:
        (found,) = await SQL["find_session"].rows(connection)
    wanted = session_settings(options, application_name="")
    role = wanted.get("role", found["role"])
    return (found["role"], found["search_path"]) == (role, wanted["search_path"])


async def hears_itself(options: DatabaseOptions) -> bool:
    """Whether a connection that listens is told what another one says, within three seconds."""
    word, heard = secrets.token_hex(8), asyncio.Event()

    def hear(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload == word:
            heard.set()

    async with _connected(options) as listening, _connected(options) as speaking:
        await listening.add_listener(CHANNEL, hear)
        await SQL["say"].run(speaking, channel=CHANNEL, payload=word)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEAR_SECONDS_MAX):
                await heard.wait()
        return heard.is_set()
