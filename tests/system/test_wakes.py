"""What one process commits, the others hear of long before they would have looked."""

import asyncio
from typing import TYPE_CHECKING

from tests.receiver import Receiver
from tests.system.conftest import configuration
from tests.system.processes import POLL_SECONDS, Service
from tests.system.provider import Provider, events
from tests.system.rig import Rig
from tests.system.verdict import all_replied, faults

if TYPE_CHECKING:
    from tests.database import Admin

ROUNDS = 6


async def _hears_others(service: Service) -> None:
    async with asyncio.timeout(10):
        while b"sinksweep_wakeups_listening 1.0" not in (await service.get("/metrics")).body:
            await asyncio.sleep(POLL_SECONDS)


async def test_a_claim_that_waits_at_one_replica_gets_at_once_what_another_accepted(
    rig: Rig, admin: "Admin"
) -> None:
    here, there = await rig.serve_all({"here": "api", "there": "api"})
    for replica in (here, there):
        await _hears_others(replica)
    provider = Provider([here])
    wish = {"queue": "support", "agent": "waits", "wait_seconds": 20}
    waited: list[float] = []
    for event in events(ROUNDS, conversations=0):
        async with asyncio.TaskGroup() as group:
            claim = group.create_task(there.post("/v1/turns/claim", wish))
            # Answered after the claim was read, so that it waits by now.
            for _ in range(5):
                assert (await there.get("/v1/turns/turn_none")).status == 404
            await provider.send(event)
            began = asyncio.get_running_loop().time()
            answer = await claim
        waited.append(asyncio.get_running_loop().time() - began)
        assert len(answer.json["turns"]) == 1
    # Who only polls each second would wait for about half of one each time.
    assert max(waited) < 0.8
    assert sum(waited) < ROUNDS * 0.2
    assert await faults(admin, provider=provider) == []


async def test_a_worker_that_polls_twice_a_minute_delivers_at_once_what_is_sealed_elsewhere(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    rig.configure(configuration(receiver.url, poll_seconds=30))
    api, worker = await rig.serve_all({"api": "api", "worker": "deliver"})
    for process in (api, worker):
        await _hears_others(process)
    provider = Provider([api])
    await rig.agent("agent", api, messages=2)
    for event in events(5, conversations=2):
        await provider.send(event)
    await all_replied(admin, turns=5, seconds_max=10)
    assert await faults(admin, provider=provider, receiver=receiver) == []
