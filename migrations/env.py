"""Runs the revisions under one lock, each statement bounded in time, so that replicas may migrate at once."""

import asyncio
from typing import Any

import asyncpg
from alembic import context
from sqlalchemy import Connection, pool, text
from sqlalchemy.ext.asyncio import create_async_engine

ADVISORY_LOCK = 0x51AC5EEB
LOCK_SECONDS_MAX = 120
_POLL_SECONDS = 0.1

PREPARE = """
set lock_timeout = '4s';
set statement_timeout = '60s';
set search_path = pg_catalog;
create schema if not exists sink;
do $$
begin
    begin
        if not exists (select from pg_catalog.pg_roles where rolname = 'sinksweep_app') then
            create role sinksweep_app nologin;
        end if;
    exception when duplicate_object or unique_violation then
        -- Another database of this server was migrated at the same moment. Roles are the server's.
        null;
    end;
    -- Whoever makes a role may give it away from Postgres 16 on, and yet not take it on.
    if not pg_catalog.pg_has_role(
        current_user, 'sinksweep_app',
        case when pg_catalog.current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end
    ) then
        execute pg_catalog.format('grant sinksweep_app to %I', current_user);
    end if;
exception when insufficient_privilege then
    raise insufficient_privilege using message = pg_catalog.format(
        '%I may not make the role sinksweep_app, or not take it on. Give it CREATEROLE, or let an administrator run: '
        'create role sinksweep_app nologin; grant sinksweep_app to %I;', current_user, current_user
    );
end
$$;
"""


def migrate(connection: Connection) -> None:
    """Run what is missing, in one transaction for each revision."""
    context.configure(
        connection=connection,
        version_table_schema="sink",
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def main() -> None:
    """Wait for the lock, then migrate over the connection that has it.

    Whoever is killed leaves a statement that Postgres carries on with: it keeps the lock until that has ended.
    """
    own = await asyncpg.connect(context.config.attributes["url"], timeout=10)

    async def connect(**_options: Any) -> Any:
        return own

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=connect, poolclass=pool.NullPool
    )
    try:
        async with asyncio.timeout(LOCK_SECONDS_MAX):
            # Tried and not awaited: a waiting statement would hold a snapshot, and every DDL up.
            while not await own.fetchval(  # noqa: ASYNC110 - the event is in the database
                "select pg_try_advisory_lock($1)", ADVISORY_LOCK
            ):
                await asyncio.sleep(_POLL_SECONDS)
        await own.execute(PREPARE)
        async with engine.connect() as connection:
            await connection.run_sync(migrate)
            await connection.execute(text("grant select on sink.alembic_version to sinksweep_app"))
            await connection.commit()
    finally:
        await own.close()
        await engine.dispose()


asyncio.run(main())
