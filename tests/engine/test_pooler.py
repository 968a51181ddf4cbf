"""How connections behave is compared with what was configured; `test_pgbouncer.py` does it with a pooler in between."""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.engine.database import begin_with_settings, open_pool
from app.engine.pooler import check_pooler, refusal
from app.engine.transaction import DatabaseUnavailable, transact
from tests.database import Server, options_for

if TYPE_CHECKING:
    from app.engine.statements import Link

SHOWN = """
    select
        current_user::text, current_setting('search_path'), current_setting('timezone'),
        current_setting('statement_timeout'), current_setting('lock_timeout'),
        current_setting('idle_in_transaction_session_timeout'),
        current_setting('jit'), current_setting('plan_cache_mode'), current_setting('enable_seqscan')
"""


async def look(connection: "Link") -> tuple[str, ...]:
    return tuple(await connection.fetchrow(SHOWN) or ())


async def test_postgres_itself_is_as_configured(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await check_pooler(options_for(database_url))
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_pooler_that_is_named_and_not_there_is_told(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = options_for(database_url, pooled=True, direct_url=database_url)
    await check_pooler(replace(options, keeps_statements=True))
    assert ["and Postgres itself answers" in one.message for one in caplog.records] == [True]


async def test_without_a_way_past_the_pooler_the_start_says_that_everything_polls(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await check_pooler(options_for(database_url, pooled=True))
    assert "without database.direct_url" in caplog.text


async def test_a_way_past_the_pooler_that_leads_nowhere_is_told_and_stops_nothing(
    database_url: str, postgres: Server, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = postgres.url_of("nowhere")
    await check_pooler(options_for(database_url, pooled=True, direct_url=nowhere))
    assert "it does not answer (InvalidCatalogNameError)" in caplog.text


async def test_a_database_that_is_not_there_is_no_wrong_pooler(postgres: Server) -> None:
    for pooled in (False, True):
        with pytest.raises(DatabaseUnavailable):
            await check_pooler(options_for(postgres.url_of("nowhere"), pooled=pooled))


def test_what_a_pooler_says_is_put_into_words() -> None:
    said = asyncpg.ProtocolViolationError("unsupported startup parameter: search_path")
    assert 'set database.pooler = "transaction"' in str(refusal(said))
    assert refusal(asyncpg.ProtocolViolationError("no such user")) is None
    assert refusal(OSError("unsupported startup parameter")) is None
    assert refusal(None) is None


async def test_a_transaction_that_sets_everything_has_what_a_session_has_and_leaves_nothing(
    database_url: str,
) -> None:
    async with open_pool(options_for(database_url), application_name="test") as pool:
        wanted = await transact(pool, look)
    options = options_for(database_url, pooled=True, pool_max=1)
    async with open_pool(options, application_name="test") as pool:
        for explicit in (False, True):
            assert await transact(pool, look, explicit=explicit) == wanted
        connection = await pool.acquire(timeout=5)
        try:
            assert (await look(connection))[0] == "postgres"
            assert not connection.is_in_transaction()
        finally:
            await pool.release(connection)


async def test_what_such_a_transaction_did_is_undone_when_its_work_fails(
    database_url: str,
) -> None:
    key = "insert into sink.pause (kind, name, paused_at, paused_by) values ('all', '', now(), 'x')"

    async def fail(connection: "Link") -> None:
        await connection.execute(key)
        raise ZeroDivisionError

    async def count(connection: "Link") -> int:
        return int(await connection.fetchval("select count(*) from sink.pause"))

    options = options_for(database_url, pooled=True, pool_max=1)
    async with open_pool(options, application_name="test") as pool:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await transact(pool, fail)
        assert await transact(pool, count, explicit=False) == 0


async def test_a_role_that_the_login_may_not_take_on_is_unavailable_and_no_connection_is_lost(
    database_url: str,
) -> None:
    options = replace(options_for(database_url, pooled=True, pool_max=1), role="nobody_knows")
    async with open_pool(options, application_name="test") as pool:
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable) as refused:
                await transact(pool, look)
            assert isinstance(refused.value.__cause__, asyncpg.InvalidParameterValueError)


async def test_who_is_cut_off_in_such_a_transaction_leaves_no_session_in_one(
    database_url: str,
) -> None:
    async def hang(connection: "Link") -> None:
        await connection.execute("select pg_sleep(30)")

    options = options_for(database_url, pooled=True, pool_max=1)
    async with open_pool(options, application_name="test") as pool:
        async with asyncio.TaskGroup() as group:
            hung = group.create_task(transact(pool, hang))
            await asyncio.sleep(0.1)
            hung.cancel()
        assert (await transact(pool, look))[0] == "sinksweep_app"


def test_values_cannot_leave_their_quotes() -> None:
    options = replace(options_for("postgresql://x/y", pooled=True), role="a'; drop table x; --")
    assert "set local role to 'a''; drop table x; --'" in begin_with_settings(options)
