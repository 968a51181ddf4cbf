"""Behind a pooler that lends connections for one transaction: everything holds, and what is wrong with it is told."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from app.engine.database import open_pool
from app.engine.transaction import transact
from tests.database import options_for
from tests.receiver import Receiver
from tests.system.conftest import configuration
from tests.system.pgbouncer import KEEPS_STATEMENTS_FROM, open_pgbouncer, pgbouncer_version
from tests.system.provider import Provider, events
from tests.system.rig import Rig
from tests.system.verdict import all_replied, faults, received_twice

if TYPE_CHECKING:
    from app.engine.statements import Link
    from tests.database import Admin

SERVE = ("serve", "--port", "0")
# What a session asks for while it connects.
SETTINGS = (
    "role,search_path,timezone,statement_timeout,lock_timeout,"
    "idle_in_transaction_session_timeout,jit,plan_cache_mode,enable_seqscan"
)
POOLED = """
[database]
allow_unsafe = true
pool_max = 12
pooler = "transaction"
"""


@pytest.fixture
async def pooled_url(database_url: str) -> AsyncIterator[str]:
    """The database over a pooler of five connections."""
    async with open_pgbouncer(database_url, pool_size=5) as url:
        yield url


def pooled(text: str, *, direct_url: str | None) -> str:
    """A configuration that names the pooler."""
    direct = "" if direct_url is None else f'direct_url = "{direct_url}"\n'
    head, _, tail = text.partition("[database]\nallow_unsafe = true\npool_max = 6\n")
    return f"{head}{POOLED}{direct}{tail}"


async def test_behind_a_pooler_everything_holds_under_load_with_few_connections(
    rig: Rig,
    database_url: str,
    pooled_url: str,
    admin: "Admin",
    receiver: Receiver,
    jitter: random.Random,
) -> None:
    rig.configure(pooled(configuration(receiver.url), direct_url=database_url))
    rig.database_url = pooled_url
    one, two = await rig.serve_all({"one": "api,deliver,sweep", "two": "api,deliver,sweep"})
    provider = Provider([one, two])
    for number in range(3):
        await rig.agent(f"agent {number}", one, two)
    await provider.storm(events(120, conversations=20), workers=16, jitter=jitter)
    await all_replied(admin, turns=120)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    assert received_twice(receiver) == {}
    assert provider.refused == []
    for service in (one, two):
        assert await service.stop() == 0
        assert "polling" not in service.log.read_text()


async def test_over_the_direct_way_wake_ups_cross_processes_at_once(
    rig: Rig, database_url: str, pooled_url: str, receiver: Receiver
) -> None:
    text = configuration(receiver.url, poll_seconds=30)
    rig.configure(pooled(text, direct_url=database_url))
    rig.database_url = pooled_url
    api, worker = await rig.serve_all({"api": "api", "worker": "deliver"})
    await rig.agent("agent", api, messages=1)
    loop = asyncio.get_running_loop()
    for number in range(3):
        began = loop.time()
        event = {"queue": "support", "payload": number}
        assert (await api.post("/v1/inbound", event, idempotency_key=f"k{number}")).status == 202
        await receiver.wait_for(number + 1)
        assert loop.time() - began < 5
    metrics = (await worker.get("/metrics")).body.decode()
    assert "sinksweep_wakeups_listening 1.0" in metrics


async def test_without_a_direct_way_the_start_says_that_it_polls_and_everything_still_arrives(
    rig: Rig, pooled_url: str, receiver: Receiver
) -> None:
    rig.configure(pooled(configuration(receiver.url), direct_url=None))
    rig.database_url = pooled_url
    api, worker = await rig.serve_all({"api": "api", "worker": "deliver,sweep"})
    assert "without database.direct_url other processes are not heard" in worker.log.read_text()
    await rig.agent("agent", api, messages=1)
    event = {"queue": "support", "payload": 1}
    assert (await api.post("/v1/inbound", event, idempotency_key="k")).status == 202
    await receiver.wait_for(1)


async def test_a_direct_way_that_leads_to_the_pooler_is_told_and_stops_nothing(
    rig: Rig, pooled_url: str, receiver: Receiver
) -> None:
    rig.configure(pooled(configuration(receiver.url), direct_url=pooled_url))
    rig.database_url = pooled_url
    api = await rig.serve("api")
    assert "database.direct_url does not lead to Postgres: a pooler answers" in api.log.read_text()


@pytest.mark.parametrize("ignores", ["", SETTINGS])
async def test_a_pooler_that_nobody_named_stops_the_start_in_words(
    rig: Rig, database_url: str, ignores: str
) -> None:
    async with open_pgbouncer(database_url, ignores=ignores) as url:
        refused = await rig.run(*SERVE, DATABASE_URL=url)
    assert refused.code == 1
    last = refused.err.splitlines()[-1]
    assert last.startswith("sinksweep: ")
    assert 'set database.pooler = "transaction" and database.direct_url' in last
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("ignores", ["", SETTINGS])
async def test_a_pooler_in_session_mode_that_drops_settings_stops_the_start_as_well(
    rig: Rig, database_url: str, ignores: str
) -> None:
    async with open_pgbouncer(database_url, pool_mode="session", ignores=ignores) as url:
        refused = await rig.run(*SERVE, DATABASE_URL=url)
    assert refused.code == 1
    assert 'database.pooler = "transaction"' in refused.err.splitlines()[-1]


async def test_a_pooler_that_lends_for_a_statement_stops_the_start(
    rig: Rig, database_url: str, receiver: Receiver
) -> None:
    rig.configure(pooled(configuration(receiver.url), direct_url=database_url))
    async with open_pgbouncer(database_url, pool_mode="statement") as url:
        refused = await rig.run(*SERVE, DATABASE_URL=url)
    assert refused.code == 1
    assert "it needs pool_mode = transaction" in refused.err.splitlines()[-1]


async def test_prepared_statements_that_vanish_stop_a_start_that_counts_on_them(
    rig: Rig, database_url: str, pooled_url: str, receiver: Receiver
) -> None:
    if pgbouncer_version() >= KEEPS_STATEMENTS_FROM:
        pytest.skip("this pgbouncer carries prepared statements along")
    text = pooled(configuration(receiver.url), direct_url=database_url)
    counting = text.replace("pooler =", "pooler_keeps_statements = true\npooler =")
    rig.configure(counting)
    refused = await rig.run(*SERVE, DATABASE_URL=pooled_url)
    assert refused.code == 1
    assert "prepared statements vanish behind the pooler" in refused.err.splitlines()[-1]


async def test_migrations_take_the_direct_way_or_say_that_they_need_it(
    rig: Rig, database_url: str, pooled_url: str, receiver: Receiver
) -> None:
    rig.configure(pooled(configuration(receiver.url), direct_url=None))
    refused = await rig.run("migrate", DATABASE_URL=pooled_url)
    assert refused.code == 1
    assert "migrations need Postgres itself: set database.direct_url" in refused.err
    rig.configure(pooled(configuration(receiver.url), direct_url=database_url))
    assert (await rig.run("migrate", DATABASE_URL=pooled_url)).code == 0
    assert (await rig.run("keys", "list", DATABASE_URL=pooled_url)).code == 0


async def test_each_transaction_has_its_role_its_path_and_its_limits_and_leaves_none_behind(
    pooled_url: str, database_url: str
) -> None:
    async def look(connection: "Link") -> tuple[str, ...]:
        row = await connection.fetchrow(
            "select current_user::text, current_setting('search_path'),"
            " current_setting('statement_timeout'), current_setting('lock_timeout')"
        )
        return tuple(row or ())

    options = options_for(pooled_url, pooled=True, direct_url=database_url)
    async with open_pool(options, application_name="test") as pool:
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(transact(pool, look, explicit=False)) for _ in range(30)]
        assert {one.result() for one in looks} == {("sinksweep_app", "pg_catalog", "10s", "5s")}
        connection = await pool.acquire(timeout=5)
        try:
            assert (await look(connection))[0] == "postgres"
        finally:
            await pool.release(connection)
