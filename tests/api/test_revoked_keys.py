"""A key that is revoked is dead within a second, also for what waits under it."""

import asyncio
import time
from typing import TYPE_CHECKING

from app.api.auth import KNOWN_SECONDS
from app.engine.keys import create_key, key_id_of, revoke_key
from tests.api.claiming import seated
from tests.api.conftest import Service

if TYPE_CHECKING:
    from tests.database import Admin


async def test_a_revoked_key_is_dead_within_a_second(service: Service) -> None:
    pool = service.core.pool
    key = await create_key(pool, name="short", scopes=["read"], queues=None)
    assert (await service.get("/v1/loopback", scope=key)).status == 200
    await revoke_key(pool, key_id_of(key) or "")
    revoked = time.monotonic()
    async with asyncio.timeout(5):
        while (await service.get("/v1/loopback", scope=key)).status != 401:
            await asyncio.sleep(0.02)
    assert time.monotonic() - revoked < 1.0


async def test_a_key_that_is_revoked_while_its_claim_waits_is_given_nothing(
    service: Service, admin: "Admin"
) -> None:
    key = await create_key(service.core.pool, name="r", scopes=["agent"], queues=None)
    async with asyncio.TaskGroup() as group:
        claim = group.create_task(service.claim(scope=key, wait_seconds=10))
        await seated(service, "default")
        await revoke_key(service.core.pool, key_id_of(key) or "")
        await asyncio.sleep(KNOWN_SECONDS)
        await service.accept("k1")
    assert (claim.result().status, claim.result().code) == (401, "unauthorized")
    row = await admin.fetchrow("select state, attempts_used, releases from sink.turn")
    assert row is not None
    assert tuple(row) == ("queued", 0, 0)


async def test_a_key_that_is_revoked_while_it_watches_is_told_nothing(service: Service) -> None:
    key = await create_key(service.core.pool, name="r", scopes=["read"], queues=None)
    turn = (await service.accept("k1")).json["turn"]
    async with asyncio.TaskGroup() as group:
        path = f"/v1/turns/{turn}?wait=processing&timeout_seconds=10"
        watch = group.create_task(service.get(path, scope=key))
        await asyncio.sleep(2 * KNOWN_SECONDS)
        await revoke_key(service.core.pool, key_id_of(key) or "")
        await asyncio.sleep(KNOWN_SECONDS)
        await service.claim()
    assert watch.result().status == 401
