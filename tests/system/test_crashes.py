"""The main job, with its processes killed at the worst moments: nothing is lost, and nothing is said twice."""

import asyncio
import random
import signal
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.receiver import Receiver, Request
from tests.system.conftest import configuration
from tests.system.provider import Event, Provider, events
from tests.system.rig import Rig
from tests.system.verdict import all_replied, faults, received_twice

if TYPE_CHECKING:
    from tests.database import Admin

ONE = Event("event-1", b'{"text": "a waffle maker, please"}', "ada")


async def test_what_is_accepted_is_claimed_sealed_and_delivered_once_and_in_order(
    rig: Rig, admin: "Admin", receiver: Receiver, jitter: random.Random
) -> None:
    api = rig.service("api", roles="api")
    others = [rig.service("deliver", roles="deliver"), rig.service("sweep", roles="sweep")]
    for service in (api, *others):
        await service.start()
    for service in (api, *others):
        await service.ready()
    provider = Provider([api])
    for number in range(3):
        await rig.agent(f"agent {number}", api, messages=3)
    told = [*events(60, conversations=7), *events(20, conversations=0, name="alone")]
    await provider.storm(told, workers=8, jitter=jitter)
    await all_replied(admin, turns=80)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    assert len(receiver.got) == 80 * 3
    assert received_twice(receiver) == {}
    assert await admin.fetchval("select max(attempts_used) from sink.turn") == 1


async def test_an_api_killed_in_a_storm_loses_nothing_that_it_acknowledged(
    rig: Rig, admin: "Admin", receiver: Receiver, jitter: random.Random
) -> None:
    api = await rig.serve("api", roles="api")
    provider = Provider([api])
    await rig.agent("agent", api, messages=1)
    told = events(400, conversations=40)
    async with asyncio.TaskGroup() as group:
        storm = group.create_task(provider.storm(told, workers=32, jitter=jitter))
        for count in (80, 240):
            await provider.wait_for(count)
            await api.kill()
            await api.restart()
        assert not storm.done()
    assert len(provider.handles) == 400
    assert await admin.fetchval("select count(*) from sink.turn") == 400
    assert await faults(admin, provider=provider, receiver=receiver) == []


async def test_a_turn_whose_agent_was_killed_is_run_again_and_heard_once(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    service = await rig.serve("all")
    provider = Provider([service])
    killed = await rig.agent("killed", service, lease_seconds=1, stop=True)
    await provider.send(ONE)
    claimed = await killed.hear("claimed")
    await killed.kill()
    other = await rig.agent("other", service, stop=True)
    again = await other.hear("claimed")
    assert again["answer"]["id"] == claimed["answer"]["id"]
    assert again["answer"]["attempt"] == 2
    assert [one["ended"] for one in again["answer"]["history"]] == ["swept"]
    sealed = await other.order("seal", "sealed")
    assert sealed["status"] == 200
    await all_replied(admin, turns=1)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    assert [r.key for r in receiver.got] == [
        m["idempotency_key"] for m in sealed["answer"]["messages"]
    ]


async def test_an_agent_frozen_past_its_lease_can_neither_renew_nor_seal_nor_release(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    service = await rig.serve("all")
    provider = Provider([service])
    zombie = await rig.agent("zombie", service, lease_seconds=1, stop=True)
    await provider.send(ONE)
    await zombie.hear("claimed")
    zombie.process.send_signal(signal.SIGSTOP)
    other = await rig.agent("other", service, stop=True)
    await other.hear("claimed")
    before = await admin.fetch("select * from sink.turn")
    events_before = await admin.fetchval("select max(id) from sink.event")
    zombie.process.send_signal(signal.SIGCONT)
    for word, told in (("renew", "renewed"), ("seal", "sealed"), ("release", "released")):
        answer = await zombie.order(word, told)
        assert (answer["status"], answer["answer"]["code"]) == (409, "lease_lost")
        assert answer["answer"]["reason"] == "swept"
        assert answer["answer"]["turn_state"] == "processing"
    assert await admin.fetch("select * from sink.turn") == before
    assert await admin.fetchval("select max(id) from sink.event") == events_before
    assert await admin.fetchval("select count(*) from sink.outbox") == 0
    sealed = await other.order("seal", "sealed")
    assert sealed["status"] == 200
    await all_replied(admin, turns=1)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    assert len(receiver.got) == 2


async def test_a_seal_stands_when_its_agent_is_killed_or_its_answer_is_lost(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    api = await rig.serve("api", roles="api")
    provider = Provider([api])
    agent = await rig.agent("agent", api, lease_seconds=1, stop=True)
    await provider.send(ONE)
    claimed = await agent.hear("claimed")
    await agent.order("cut", "cut")
    path = f"/v1/turns/{claimed['answer']['id']}?wait=sealed&timeout_seconds=20"
    seen = await api.get(path)
    assert seen.json["state"] == "sealed"
    await api.kill()
    await api.restart()
    answers = [await agent.order("seal", "sealed") for _ in range(2)]
    assert answers[0] == answers[1]
    answer = answers[0]["answer"]
    assert answers[0]["status"] == 200
    assert [m["id"] for m in answer["messages"]] == [m["id"] for m in seen.json["messages"]]
    assert answer["payload_hash"] == seen.json["payload_hash"]
    await agent.kill()
    await rig.serve("rest", roles="deliver,sweep")
    await all_replied(admin, turns=1)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    assert [r.key for r in receiver.got] == [m["idempotency_key"] for m in answer["messages"]]
    assert await admin.fetchval("select attempt from sink.turn") == 1


async def test_what_was_on_the_wire_when_the_worker_was_killed_is_sent_again_the_same(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    rig.configure(configuration(receiver.url, timeout_seconds=1.0))
    service = await rig.serve("api and sweep", roles="api,sweep")
    worker = await rig.serve("worker", roles="deliver")
    provider = Provider([service])
    go_on = asyncio.Event()

    async def held(_request: Request) -> web.StreamResponse:
        await go_on.wait()
        return web.Response(status=204)

    receiver.answer = held
    await rig.agent("agent", service, messages=2)
    for event in events(4, conversations=4):
        await provider.send(event)
    # The first of each set; the second waits for it.
    await receiver.wait_for(4)
    await worker.kill()
    on_the_wire = {request.key for request in receiver.got}
    go_on.set()
    await worker.restart()
    await all_replied(admin, turns=4)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    twice = received_twice(receiver)
    assert twice.keys() == on_the_wire
    assert set(twice.values()) == {2}
    assert len({request.key for request in receiver.got}) == 8
    swept = await admin.fetch(
        "select from_state, to_state from sink.event where verb = 'sweep' and message is not null"
    )
    assert [tuple(row) for row in swept] == [("sending", "pending")] * 4


@pytest.mark.parametrize("victim", ["one", "two"])
async def test_with_two_replicas_of_everything_one_may_be_killed_and_the_other_goes_on(
    rig: Rig, admin: "Admin", receiver: Receiver, jitter: random.Random, victim: str
) -> None:
    rig.configure(configuration(receiver.url, timeout_seconds=1.0))
    one, two = rig.service("one"), rig.service("two")
    for replica in (one, two):
        await replica.start()
    for replica in (one, two):
        await replica.ready()
    provider = Provider([one, two])
    # One agent for each replica, which turns to the other when its own is away.
    await rig.agent("first", one, two, lease_seconds=2)
    await rig.agent("second", two, one, lease_seconds=2)
    told = events(150, conversations=20)
    shares = []
    async with asyncio.TaskGroup() as group:
        group.create_task(provider.storm(told[:75], workers=8, jitter=jitter))
        await receiver.wait_for(60)
    for replica in (one, two):
        metrics = (await replica.get("/metrics")).body.decode().splitlines()
        shares.append({line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
                       for line in metrics if not line.startswith("#")})
    async with asyncio.TaskGroup() as group:
        group.create_task(provider.storm(told[75:], workers=8, jitter=jitter))
        await provider.wait_for(100)
        await (one if victim == "one" else two).kill()
    await all_replied(admin, turns=150)
    assert await faults(admin, provider=provider, receiver=receiver) == []
    for share in shares:
        assert share['sinksweep_accepts_total{queue="support",result="new"}'] > 0
        assert share['sinksweep_turns_claimed_total{queue="support"}'] > 0
        delivered = 'sinksweep_delivery_attempts_total{destination="crm",outcome="delivered"}'
        assert share[delivered] > 0
