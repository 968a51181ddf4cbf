"""What a process shows of itself: each thing that happens is counted where it happened, and timed."""

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app import VERSION
from app.engine.sweep import sweep_turns
from app.telemetry.metrics import USAGE_FIELDS
from app.workers.sweeper import Sweeper
from tests.api.conftest import Service
from tests.database import Clock


async def shown(service: Service) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels."""
    text = (await service.get("/metrics", scope=None)).body.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Watch:
    """How much each sample grew since the watch began."""

    def __init__(self, service: Service, before: dict[Any, float]) -> None:
        self._service = service
        self._before = before

    @classmethod
    async def begin(cls, service: Service) -> "Watch":
        return cls(service, await shown(service))

    async def grown(self, name: str, **labels: str) -> float:
        key = (f"sinksweep_{name}", tuple(sorted(labels.items())))
        return (await shown(self._service)).get(key, 0.0) - self._before.get(key, 0.0)


async def test_accepts_are_counted_by_what_their_key_said(service: Service) -> None:
    watch = await Watch.begin(service)
    await service.accept("k1")
    await service.accept("k1")
    await service.accept("k1", payload={"n": 2})
    for result in ("new", "duplicate", "reused"):
        assert await watch.grown("accepts_total", queue="default", result=result) == 1


async def test_claims_are_counted_with_those_that_found_nothing(service: Service) -> None:
    watch = await Watch.begin(service)
    await service.claim()
    await service.accept("k1")
    await service.claim()
    assert await watch.grown("claims_total", queue="default", result="empty") == 1
    assert await watch.grown("claims_total", queue="default", result="given") == 1
    assert await watch.grown("turns_claimed_total", queue="default") == 1


async def test_each_step_is_timed_by_the_clock_of_the_database(
    service: Service, clock: Clock
) -> None:
    watch = await Watch.begin(service)
    await service.accept("k1")
    await clock.travel(100)
    (turn,) = (await service.claim()).json["turns"]
    await clock.travel(1000)
    await service.seal(turn, [])
    for name, seconds in (
        ("accept_to_claim", 100),
        ("claim_to_seal", 1000),
        ("accept_to_replied", 1100),
    ):
        assert await watch.grown(f"{name}_seconds_count", queue="default") == 1
        total = await watch.grown(f"{name}_seconds_sum", queue="default")
        assert seconds <= total < seconds + 10


async def test_the_wait_until_it_was_due_is_no_waiting_for_an_agent(
    service: Service, clock: Clock
) -> None:
    watch = await Watch.begin(service)
    await service.accept("k1", delay_seconds=500)
    await clock.travel(510)
    await Sweeper(service.core).tick()
    assert (await service.claim()).json["turns"]
    assert await watch.grown("accept_to_claim_seconds_count", queue="default") == 1
    assert await watch.grown("accept_to_claim_seconds_sum", queue="default") < 20


async def test_a_repeated_seal_and_a_second_attempt_are_timed_no_second_time(
    service: Service,
) -> None:
    watch = await Watch.begin(service)
    turn = await service.claimed("k1")
    path = f"/v1/turns/{turn['id']}/release"
    body = {"lease_token": turn["lease_token"], "reason": "later"}
    assert (await service.post(path, body)).status == 200
    (turn,) = (await service.claim()).json["turns"]
    for _ in range(2):
        assert (await service.seal(turn, [])).status == 200
    assert await watch.grown("accept_to_claim_seconds_count", queue="default") == 1
    assert await watch.grown("claim_to_seal_seconds_count", queue="default") == 1
    assert await watch.grown("seals_total", queue="default", result="sealed") == 1
    assert await watch.grown("seals_total", queue="default", result="repeated") == 1


async def _used(service: Service, key: str, **usage: object) -> dict[str, Any]:
    turn = await service.claimed(key)
    body = {"lease_token": turn["lease_token"], "usage": usage}
    assert (await service.post(f"/v1/turns/{turn['id']}/renew", body)).status == 200
    return turn


async def test_what_a_failed_attempt_used_is_wasted_and_what_is_released_is_not(
    service: Service,
) -> None:
    watch = await Watch.begin(service)
    failed = await _used(service, "k1", tokens=700, money="0.25", of_its_own=9)
    body = {"lease_token": failed["lease_token"], "reason": "broken", "failed": True}
    assert (await service.post(f"/v1/turns/{failed['id']}/release", body)).status == 200
    free = await _used(service, "k2", tokens=50)
    body = {"lease_token": free["lease_token"], "reason": "later", "delay_seconds": 60}
    assert (await service.post(f"/v1/turns/{free['id']}/release", body)).status == 200
    assert await watch.grown("wasted_usage_total", field="tokens") == 700
    assert await watch.grown("wasted_usage_total", field="money") == 0.25
    fields = {dict(labels).get("field") for _, labels in await shown(service)}
    assert fields - {None} <= set(USAGE_FIELDS)


async def test_what_a_swept_attempt_used_is_wasted(service: Service, clock: Clock) -> None:
    watch = await Watch.begin(service)
    await _used(service, "k1", calls=3)
    await clock.travel(1000)
    await Sweeper(service.core).tick()
    assert await watch.grown("wasted_usage_total", field="calls") == 3
    assert await watch.grown("swept_total", kind="turn", state="queued") == 1


async def test_a_lost_lease_is_counted_by_why(service: Service, clock: Clock) -> None:
    watch = await Watch.begin(service)
    turn = await service.claimed("k1")
    await clock.travel(1000)
    await sweep_turns(service.core.pool, policies={}, turns_max=10, jitter=service.core.jitter)
    assert (await service.seal(turn, [])).status == 409
    assert await watch.grown("leases_lost_total", reason="swept") == 1
    assert await watch.grown("seals_total", queue="default", result="lease_lost") == 1


async def test_what_waits_is_counted_by_queue_and_state_with_its_age(
    service: Service, clock: Clock
) -> None:
    await service.claimed("held")
    for n in range(3):
        await service.accept(f"k{n}", queue="support", conversation="c")
    await service.accept("later", delay_seconds=9000)
    await clock.travel(50)
    await Sweeper(service.core).tick()
    now = await shown(service)

    def value(name: str, **labels: str) -> float:
        return now[f"sinksweep_{name}", tuple(sorted(labels.items()))]

    assert value("turns", queue="support", state="queued") == 1
    assert value("turns", queue="support", state="waiting") == 2
    assert value("turns", queue="default", state="processing") == 1
    assert value("turns", queue="default", state="scheduled") == 1
    assert value("turns", queue="default", state="failed") == 0
    assert 50 <= value("oldest_turn_age_seconds", queue="support", state="waiting") < 70
    assert 50 <= value("oldest_turn_age_seconds", queue="default", state="processing") < 70
    assert value("oldest_turn_age_seconds", queue="default", state="sealed") == 0
    assert 50 <= value("oldest_queued_age_seconds", queue="support") < 70


async def test_the_process_tells_its_version_its_pool_and_its_loops(service: Service) -> None:
    now = await shown(service)
    assert now["sinksweep_build_info", (("version", VERSION),)] == 1
    settings = service.core.settings.database
    most = settings.pool_max + settings.reserved_connections
    assert now["sinksweep_pool_connections_max", ()] == most
    assert now["sinksweep_pool_waiting", ()] == 0
    assert now["sinksweep_pool_acquire_seconds_count", ()] > 0
    assert now["process_resident_memory_bytes", ()] > 1 << 20


async def test_who_waits_for_a_connection_is_seen(service: Service) -> None:
    core = service.core
    held = [await core.pool.acquire(timeout=5) for _ in range(core.settings.database.pool_max)]

    async def come_late() -> None:
        await core.pool.release(await core.pool.acquire(timeout=5))

    async with asyncio.TaskGroup() as group:
        group.create_task(come_late())
        while core.pool_watch.waiting == 0:
            await asyncio.sleep(0)
        now = await shown(service)
        for connection in held:
            await core.pool.release(connection)
    assert now["sinksweep_pool_waiting", ()] == 1
    assert now["sinksweep_pool_connections", (("state", "busy"),)] >= len(held)
    assert (await shown(service))["sinksweep_pool_waiting", ()] == 0


async def test_metrics_need_no_key_and_no_database(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_values: object) -> None:
        raise AssertionError("a scrape asks the database nothing")

    monkeypatch.setattr(type(service.core.pool), "acquire", broken)
    assert (await service.get("/metrics", scope=None)).status == 200
    assert (await service.get("/livez", scope=None)).status == 200
