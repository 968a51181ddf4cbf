"""A claim that waits is woken, gets what nobody else gets, and costs next to nothing meanwhile."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from app.api import desk as desk_module
from app.api.desk import ClaimDesk
from app.domain.model import Claimed, ClaimRequest
from app.engine.accept import accept
from app.engine.claim import claim as real_claim
from app.engine.marks import Marks
from app.engine.wake import queue_topic
from tests.api.claiming import Wanted, seated
from tests.api.conftest import Answer, Here, Service
from tests.engine.stories import KEY_SECONDS, arrival, wish

if TYPE_CHECKING:
    from app.engine.database import Pool


async def test_an_accept_wakes_a_waiting_claim(service: Service) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.claim(wait_seconds=20))
        await seated(service, "default")
        await service.accept("k1")
        accepted = time.monotonic()
    assert len(waiting.result().json["turns"]) == 1
    assert time.monotonic() - accepted < 0.5


async def test_a_wait_ends_with_nothing_at_its_time(service: Service) -> None:
    started = time.monotonic()
    answer = await service.claim(wait_seconds=0.4)
    assert answer.json == {"turns": []}
    assert 0.4 <= time.monotonic() - started < 2


async def test_waiting_claims_get_one_turn_each_in_any_number(service: Service) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(service.claim(wait_seconds=20)) for _ in range(30)]
        await seated(service, "default")
        for n in range(30):
            await service.accept(f"k{n}")
    ids = [turn["id"] for one in waiting for turn in one.result().json["turns"]]
    assert len(ids) == len(set(ids)) == 30


async def test_what_comes_at_once_is_claimed_at_once_for_all_who_wait(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    async def counting(
        pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        answers = await real_claim(pool, requests, still_wanted=still_wanted, marks=marks)
        given.append(sum(len(answer or ()) for answer in answers))
        return answers

    monkeypatch.setattr(desk_module, "claim", counting)
    core = service.core
    desk = ClaimDesk(core)
    async with asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(desk.claim(desk.seat(wish(2), Here(), wait_seconds=20.0)))
            for _ in range(32)
        ]
        await seated(service, "default")
        arrivals = [arrival(f"k{n}") for n in range(64)]
        await accept(core.pool, arrivals, ids=core.ids, key_seconds=KEY_SECONDS)
        core.wakes.tell(queue_topic("default"))
    assert sum(len(one.result()) for one in waiting) == 64
    # Two where a poll was on its way.
    assert len([count for count in given if count]) <= 2


async def test_idle_waiters_cost_about_one_query_a_second_and_no_connection(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = busiest = 0
    repeats: set[str | None] = set()
    pool = service.core.pool

    async def counting(
        pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        nonlocal asked
        asked += len(requests)
        repeats.update(request.request_id for request in requests)
        return await real_claim(pool, requests, still_wanted=still_wanted, marks=marks)

    monkeypatch.setattr(desk_module, "claim", counting)
    async with asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(
                service.claim(wait_seconds=4, agent=f"a{n}", request_id=f"request-of-agent-{n}")
                if n % 2
                else service.claim(wait_seconds=4, agent=f"a{n}")
            )
            for n in range(100)
        ]
        await seated(service, "default")
        # Every request that may be a repeat is looked up once; then the line is idle.
        idle = asked
        async with asyncio.timeout(5):
            while True:
                await asyncio.sleep(0.5)
                if asked - idle <= 1 and len(repeats - {None}) == 50:
                    break
                idle = asked
        before = asked
        for _ in range(200):
            busiest = max(busiest, pool.get_size() - pool.get_idle_size())
            await asyncio.sleep(0.01)
        queries = asked - before
    assert {json.dumps(one.result().json) for one in waiting} == {'{"turns": []}'}
    assert 1 <= queries <= 4
    assert busiest <= 1


async def test_a_drain_ends_waits_and_claims_nothing(fresh: Service) -> None:
    async def waiting_turn() -> Answer:
        return await fresh.get(f"/v1/turns/{accepted['turn']}?wait=replied&timeout_seconds=60")

    accepted = (await fresh.accept("k1", delay_seconds=1000)).json
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(fresh.claim(wait_seconds=30)) for _ in range(5)]
        turn = group.create_task(waiting_turn())
        await seated(fresh, "default")
        started = time.monotonic()
        fresh.core.draining.start()
    assert time.monotonic() - started < 1.5
    assert {json.dumps(one.result().json) for one in claims} == {'{"turns": []}'}
    assert turn.result().json["state"] == "scheduled"
    assert (await fresh.accept("k2")).status == 202
    assert (await fresh.claim(wait_seconds=5)).json == {"turns": []}
    assert (await fresh.get("/readyz")).status == 503
