"""A process that is asked to stop ends with 0 within its grace, and costs nobody an attempt."""

import asyncio
import random
import signal
from typing import TYPE_CHECKING

from aiohttp import web

from tests.receiver import Receiver, Request
from tests.system.conftest import configuration
from tests.system.processes import Service
from tests.system.provider import Provider, events
from tests.system.rig import Rig
from tests.system.verdict import all_replied, faults, received_twice

if TYPE_CHECKING:
    from tests.database import Admin

DRAIN_SECONDS = 5.0
# A lease that no part of these tests outlives: whoever lost a turn would keep it for ever.
LEASE_SECONDS = 300


async def asked_twice(service: Service) -> int:
    """Ask to stop, ask again, and return the exit code."""
    service.signal(signal.SIGTERM)
    service.signal(signal.SIGTERM)
    return await service.exit_code(seconds_max=DRAIN_SECONDS + 3)


async def test_an_api_asked_to_stop_under_load_burns_no_attempt_and_strands_no_turn(
    rig: Rig, admin: "Admin", receiver: Receiver, jitter: random.Random
) -> None:
    api, _ = await rig.serve_all({"api": "api", "rest": "deliver,sweep"})
    provider = Provider([api])
    for number in range(3):
        await rig.agent(f"agent {number}", api, lease_seconds=LEASE_SECONDS, messages=1)
    told = events(160, conversations=60)
    async with asyncio.TaskGroup() as group:
        group.create_task(provider.storm(told, workers=16, jitter=jitter))
        for count in (40, 100):
            await provider.wait_for(count)
            assert await asked_twice(api) == 0
            await api.restart()
    await all_replied(admin, turns=160)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    assert received_twice(receiver) == {}
    # What was claimed and could not be told was given back free.
    ends = await admin.fetch("select distinct ended from sink.attempt")
    assert {row[0] for row in ends} <= {"sealed", "released"}
    assert await admin.fetchval("select max(attempts_used) from sink.turn") == 1


async def test_a_claim_and_a_watch_that_wait_are_answered_at_once_when_the_api_stops(
    rig: Rig,
) -> None:
    api = await rig.serve("api", roles="api")
    accepted = await api.post(
        "/v1/inbound", {"queue": "support", "payload": 1}, idempotency_key="k"
    )
    turn = accepted.json["turn"]
    loop = asyncio.get_running_loop()
    wish = {"queue": "default", "agent": "a", "wait_seconds": 20}
    async with asyncio.TaskGroup() as group:
        claim = group.create_task(api.post("/v1/turns/claim", wish))
        watch = group.create_task(api.get(f"/v1/turns/{turn}?wait=replied&timeout_seconds=20"))
        # Answered after those two were read: a process takes its requests as they come.
        for _ in range(10):
            assert (await api.get(f"/v1/turns/{turn}")).status == 200
        began = loop.time()
        code = await asked_twice(api)
    assert loop.time() - began < DRAIN_SECONDS
    assert code == 0
    assert claim.result().json == {"turns": []}
    assert watch.result().json["state"] == "queued"


async def test_a_worker_asked_to_stop_lets_its_attempts_end_and_repeats_none(
    rig: Rig, admin: "Admin", receiver: Receiver, jitter: random.Random
) -> None:
    async def slowly(_request: Request) -> web.StreamResponse:
        await asyncio.sleep(0.2)
        return web.Response(status=204)

    receiver.answer = slowly
    api, worker = await rig.serve_all({"api": "api,sweep", "worker": "deliver"})
    provider = Provider([api])
    await rig.agent("agent", api, messages=2)
    await provider.storm(events(40, conversations=0), workers=8, jitter=jitter)
    for count in (10, 40):
        await receiver.wait_for(count)
        assert await asked_twice(worker) == 0
        assert await admin.fetchval("select count(*) from sink.outbox where state = 'sending'") == 0
        await worker.restart()
    await all_replied(admin, turns=40)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    assert received_twice(receiver) == {}
    assert await admin.fetchval("select max(attempts_used) from sink.outbox") == 1


async def test_attempts_that_outlast_the_grace_are_cut_and_kept_as_unknown(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    rig.configure(configuration(receiver.url, drain_seconds=0.5, timeout_seconds=30))
    go_on = asyncio.Event()

    async def held(_request: Request) -> web.StreamResponse:
        await go_on.wait()
        return web.Response(status=204)

    receiver.answer = held
    api, worker = await rig.serve_all({"api": "api,sweep", "worker": "deliver"})
    provider = Provider([api])
    await rig.agent("agent", api, messages=1)
    for event in events(3, conversations=3):
        await provider.send(event)
    await receiver.wait_for(3)
    assert await asked_twice(worker) == 0
    rows = await admin.fetch("select state, may_have_arrived, reason from sink.outbox")
    assert [tuple(row) for row in rows] == [("pending", True, "worker_stopped")] * 3
    go_on.set()
    await worker.restart()
    await all_replied(admin, turns=3)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    assert set(received_twice(receiver).values()) == {2}


async def test_a_sweeper_stops_at_once_and_another_sweeps_what_is_left(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    api, sweeper = await rig.serve_all({"api": "api,deliver", "sweeper": "sweep"})
    provider = Provider([api])
    killed = await rig.agent("killed", api, lease_seconds=1, stop=True)
    for event in events(2, conversations=2):
        await provider.send(event)
    await killed.hear("claimed")
    await killed.kill()
    assert await asked_twice(sweeper) == 0
    await rig.agent("other", api, messages=1)
    await sweeper.restart()
    await all_replied(admin, turns=2)
    assert await faults(admin, provider=provider, receiver=receiver) == []


async def test_readiness_is_red_while_accepts_still_succeed_before_the_listener_closes(
    rig: Rig, receiver: Receiver
) -> None:
    text = configuration(receiver.url).replace("[server]", "[server]\ndrain_delay_seconds = 1.5")
    rig.configure(text)
    api = await rig.serve("api", roles="api")
    api.signal(signal.SIGTERM)
    async with asyncio.timeout(1):
        while await api.is_ready():
            await asyncio.sleep(0.02)
    accepted = await api.post("/v1/inbound", {"payload": 1}, idempotency_key="late")
    assert accepted.status == 202
    assert await api.exit_code(seconds_max=DRAIN_SECONDS + 3) == 0
