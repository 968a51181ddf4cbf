"""However many others wait for the database: who holds a lease keeps it, and can end it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.settings import Database
from tests.api.conftest import Service, opened
from tests.database import Server

if TYPE_CHECKING:
    from app.engine.database import Pool

ACQUIRE_SECONDS_MAX = 0.2
ANSWER_SECONDS_MAX = 2.0


@pytest.fixture
async def narrow(postgres: Server) -> AsyncIterator[Service]:
    """A service with two connections for everybody and one in reserve."""
    database = Database(pool_max=2, reserved_connections=1, acquire_seconds_max=ACQUIRE_SECONDS_MAX)
    async with postgres.database() as url, opened(url, database=database) as service:
        yield service


@asynccontextmanager
async def exhausted(pool: "Pool", *, connections: int) -> AsyncIterator[None]:
    """So many connections are held in transactions that do not end."""
    async with AsyncExitStack() as stack:
        for _ in range(connections):
            connection = await pool.acquire(timeout=5)
            stack.push_async_callback(pool.release, connection)
            transaction = connection.transaction()
            await transaction.start()
            stack.push_async_callback(transaction.rollback)
        yield


async def test_leases_are_kept_and_ended_while_held_transactions_have_every_other_connection(
    narrow: Service,
) -> None:
    turns = [await narrow.claimed(f"k{n}") for n in range(3)]
    async with exhausted(narrow.core.pool, connections=2):
        began = time.monotonic()
        renewed = await narrow.post(
            f"/v1/turns/{turns[0]['id']}/renew", {"lease_token": turns[0]["lease_token"]}
        )
        sealed = await narrow.seal(turns[1], [{"destination": "loopback", "payload": 1}])
        token = {"lease_token": turns[2]["lease_token"], "reason": "later"}
        released = await narrow.post(f"/v1/turns/{turns[2]['id']}/release", token)
        assert time.monotonic() - began < ANSWER_SECONDS_MAX
    assert [renewed.status, sealed.status, released.status] == [200, 200, 200]
    assert sealed.json["state"] == "sealed"


async def test_everybody_else_is_turned_away_in_time_and_nothing_of_theirs_is_done(
    narrow: Service,
) -> None:
    await narrow.accept("k1")
    async with exhausted(narrow.core.pool, connections=2):
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(call)
                for call in (
                    *(narrow.accept(f"late-{n}") for n in range(20)),
                    narrow.claim(wait_seconds=5),
                    narrow.get("/v1/loopback", scope="read"),
                )
            ]
        assert time.monotonic() - began < ANSWER_SECONDS_MAX
        # A crowd is no reason to send everybody to the next replica.
        assert (await narrow.get("/readyz", scope=None)).status == 200
    for call in calls:
        assert (call.result().status, call.result().code) == (503, "overloaded")
        assert int(call.result().headers["Retry-After"]) >= 1
    assert narrow.core.settings.database_url is not None
    admin = await asyncpg.connect(narrow.core.settings.database_url.get_secret_value())
    try:
        assert await admin.fetchval("select count(*) from sink.inbound") == 1
        assert await admin.fetchval("select count(*) from sink.attempt") == 0
    finally:
        await admin.close()
    assert (await narrow.accept("late-0")).status == 202
    assert len((await narrow.claim()).json["turns"]) == 1


async def _wait_for_one(pool: "Pool") -> None:
    await pool.acquire(timeout=60)


async def test_who_was_turned_away_or_left_takes_no_place_with_him(narrow: Service) -> None:
    pool = narrow.core.pool
    async with exhausted(pool, connections=2):
        for _ in range(5):
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(_wait_for_one(pool))
                await asyncio.sleep(0.01)
                waiting.cancel()
        assert (await narrow.accept("late")).code == "overloaded"
    async with exhausted(pool, connections=2):
        pass


async def test_the_reserve_itself_is_waited_for_no_longer(narrow: Service) -> None:
    turn = await narrow.claimed("k1")
    async with exhausted(narrow.core.urgent, connections=3):
        began = time.monotonic()
        renewed = await narrow.post(
            f"/v1/turns/{turn['id']}/renew", {"lease_token": turn["lease_token"]}
        )
        assert time.monotonic() - began < ANSWER_SECONDS_MAX
    assert (renewed.status, renewed.code) == (503, "overloaded")
