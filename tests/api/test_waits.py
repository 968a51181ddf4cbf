"""A wait over HTTP ends with the state that it is for, or with its time, and costs nobody anything meanwhile."""

import asyncio
import time
from typing import Any
from uuid import uuid4

import pytest

import app.api.waits as waits_module
from app.domain.ids import TURN_PREFIX, parse_id
from app.engine.wake import EVERYBODY, turn_topic
from tests.api.conftest import Answer, Service
from tests.api.deliveries import settle_one


async def wait(service: Service, turn: str, state: str, seconds: float = 10) -> Answer:
    return await service.get(f"/v1/turns/{turn}?wait={state}&timeout_seconds={seconds}")


async def test_a_wait_ends_when_the_state_is_reached(service: Service) -> None:
    turn = await service.claimed()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait(service, turn["id"], "replied"))
        await service.seal(turn, [{"destination": "loopback", "payload": 1}])
        await settle_one(service, "delivered")
        settled = time.monotonic()
    assert waiting.result().json["state"] == "replied"
    assert time.monotonic() - settled < 1.0


async def test_a_wait_for_a_state_that_has_been_ends_at_once(service: Service) -> None:
    turn = await service.claimed()
    started = time.monotonic()
    assert (await wait(service, turn["id"], "queued")).json["state"] == "processing"
    assert time.monotonic() - started < 1.0


async def test_a_wait_ends_when_the_turn_ends_otherwise(service: Service) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "reason": "cannot", "final": True}
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait(service, turn["id"], "replied"))
        await service.post(f"/v1/turns/{turn['id']}/release", body)
    shown = waiting.result().json
    assert (shown["state"], shown["reason"]) == ("failed", "cannot")


async def test_a_wait_ends_at_its_timeout(service: Service) -> None:
    turn = await service.claimed()
    started = time.monotonic()
    answer = await wait(service, turn["id"], "replied", 0.3)
    assert (answer.status, answer.json["state"]) == (200, "processing")
    assert 0.3 <= time.monotonic() - started < 2


async def test_an_inbound_can_be_waited_for_like_its_turn(service: Service) -> None:
    accepted = (await service.accept("k1")).json
    path = f"/v1/inbound/{accepted['id']}?wait=processing"
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.get(path))
        await service.claim()
    assert waiting.result().json["state"] == "processing"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("wait=nope", "state_unknown"),
        ("wait=", "state_unknown"),
        ("timeout_seconds=1", "unknown_field"),
        ("wait=replied&timeout_seconds=nan", "wrong_type"),
        ("wait=replied&timeout_seconds=-1", "wrong_type"),
        ("wait=replied&timeout_seconds=61", "out_of_range"),
        ("wait=replied&wait=replied", "unknown_field"),
    ],
)
async def test_a_wait_that_makes_no_sense_is_422(service: Service, query: str, code: str) -> None:
    turn = await service.claimed()
    answer = await service.get(f"/v1/turns/{turn['id']}?{query}")
    assert (answer.status, answer.code) == (422, code)


async def test_what_happens_to_other_turns_wakes_nobody(service: Service) -> None:
    """Of many turns each has waiters of its own."""
    turns = [await service.claimed(f"k{n}") for n in range(3)]
    names = [turn_topic(parse_id(TURN_PREFIX, turn["id"]) or uuid4()) for turn in turns]
    assert len(set(names)) == len(names)
    wakes = service.core.wakes
    with wakes.waiting(names[0]) as first, wakes.waiting(names[1]) as second:
        wakes.tell(names[0])
        assert (first.is_set(), second.is_set()) == (True, False)


async def test_a_waiter_reads_the_whole_turn_once_at_the_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def counting(name: str) -> None:
        real = getattr(waits_module, name)

        async def count(*given: Any) -> object:
            looks.append(name)
            return await real(*given)

        monkeypatch.setattr(waits_module, name, count)

    counting("find_progress")
    counting("find_turn")
    turn = await service.claimed()
    name = turn_topic(parse_id(TURN_PREFIX, turn["id"]) or uuid4())
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait(service, turn["id"], "replied", 0.6))
        while not waiting.done():
            service.core.wakes.tell(name)
            await asyncio.sleep(0.02)
    assert waiting.result().json["state"] == "processing"
    assert looks.count("find_progress") > 2
    assert looks.count("find_turn") == 1
    assert looks[-1] == "find_turn"


async def test_waiting_holds_no_connection(fresh: Service) -> None:
    turn = await fresh.claimed()
    pool = fresh.core.pool
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(wait(fresh, turn["id"], "replied", 3)) for _ in range(50)]
        topic = fresh.core.wakes._waiting  # noqa: SLF001 - nothing else tells that all of them wait
        name = turn_topic(parse_id(TURN_PREFIX, turn["id"]) or uuid4())
        async with asyncio.timeout(5):
            while len(topic.get(name, ())) < 50 or pool.get_idle_size() != pool.get_size():
                await asyncio.sleep(0.01)
        assert pool.get_idle_size() == pool.get_size()
        assert (await fresh.get("/readyz")).status == 200
        fresh.core.draining.start()
        # Only this process drains: the others wait on.
        told = fresh.core.wakes._untold  # noqa: SLF001 - what the others will be told
        assert EVERYBODY not in told
    assert {one.result().status for one in waiting} == {200}
