"""The server that tests kill comes back, whatever its backends were doing."""

import asyncio
import contextlib

import asyncpg

from tests.system.own_postgres import open_own_postgres

ENDLESS = "select sum(n) from (select generate_series(1, 1000000000000) as n) as numbers"


async def test_a_killed_server_comes_back_although_one_of_its_backends_is_busy() -> None:
    async with open_own_postgres("fsync=off") as own:
        busy = await asyncpg.connect(own.url)
        watcher = await asyncpg.connect(own.url)
        async with asyncio.TaskGroup() as group:
            query = group.create_task(_ask(busy))
            active = "select count(*) from pg_stat_activity where query like 'select sum(n)%'"
            while not await watcher.fetchval(active):
                await asyncio.sleep(0.01)
            await own.kill()
            async with asyncio.timeout(20):
                await own.start()
            await query
        again = await asyncpg.connect(own.url)
        assert await again.fetchval("select 1") == 1
        await again.close()
        watcher.terminate()


async def _ask(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        await connection.fetchval(ENDLESS)
