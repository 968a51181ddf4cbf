"""What an operator asks of running processes: each role answers for itself, and the doctor looks while they work."""

import asyncio
import json
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.receiver import Receiver
from tests.system.conftest import configuration
from tests.system.processes import POLL_SECONDS, Service
from tests.system.rig import Rig
from tests.system.verdict import faults

if TYPE_CHECKING:
    from tests.database import Admin

PATH = "canaryPATHd81k"
HOST = "canary-host-77.invalid"
SIGNING = "whsec_Y2FuYXJ5LXNpZ25pbmctc2VjcmV0LTEyMzQ1Njc4"
SOME_PASSES = 3
SAID = "canary-said-9z2"


async def _metrics(service: Service) -> dict[str, float]:
    """Samples by name alone, summed over their labels."""
    text = (await service.get("/metrics")).body.decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def _passes(service: Service, loop: str) -> float:
    """How often one of its loops has done what it does."""
    text = (await service.get("/metrics")).body.decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "sinksweep_loop_passes_total" and sample.labels["loop"] == loop
    )


async def test_every_role_answers_for_itself_on_a_port_of_its_own(
    rig: Rig, receiver: Receiver, admin: "Admin"
) -> None:
    (rig.folder / "secret").write_text(SIGNING)
    more = f"""
[destinations.away]
kind = "webhook"
url = "https://{HOST}/{PATH}?key={PATH}"
secrets = ["file:{rig.folder}/secret"]
"""
    rig.configure(configuration(receiver.url, more=more))
    services = await rig.serve_all({"api": "api", "deliver": "deliver", "sweep": "sweep"})
    api, deliver, sweep = services
    paths = ("/livez", "/readyz", "/metrics", "/v1/queues")
    for service in services:
        answers = [(await service.get(path)).status for path in paths]
        assert answers == [200, 200, 200, 200 if service is api else 404], service.name
    agent = await rig.agent("agent", api, stop=True)
    body = {"queue": "support", "payload": {"t": SAID}}
    accepted = await api.post("/v1/inbound", body, idempotency_key="key-1")
    assert accepted.status == 202
    claimed = (await agent.hear("claimed"))["answer"]
    messages = [{"destination": name, "payload": {"t": SAID}} for name in ("crm", "away")]
    sealed = await api.post(
        f"/v1/turns/{claimed['id']}/seal",
        {"lease_token": claimed["lease_token"], "messages": messages},
    )
    assert sealed.status == 200, sealed.body
    await agent.kill()
    async with asyncio.timeout(20):
        while not (await _metrics(sweep)).get("sinksweep_turns") or len(receiver.got) < 1:
            await asyncio.sleep(POLL_SECONDS)
    examined = await rig.run("doctor", "--json", "--replicas", "3")
    shown = [examined.out, examined.err]
    for service in services:
        shown += [(await service.get("/metrics")).body.decode(), service.log.read_text()]
    report = {check["code"]: check for check in json.loads(examined.out)["checks"]}
    assert examined.code == 1
    assert report["destinations"]["level"] == "wrong"
    codes = ("connection", "migrations", "indexes", "privileges", "sweep", "notifications")
    assert {report[code]["level"] for code in codes} == {"good"}, report
    for canary in (PATH, HOST, SIGNING, SIGNING.removeprefix("whsec_"), SAID, rig.key):
        assert not [text for text in shown if canary in text], canary
    for name in ("sinksweep_accepts_total", "sinksweep_turns_claimed_total"):
        assert (await _metrics(api))[name] == 1
        assert name not in await _metrics(deliver)
    assert (await _metrics(deliver))["sinksweep_delivery_attempts_total"] >= 2
    assert (await _metrics(sweep))["sinksweep_messages"] >= 1
    for service in services:
        assert (await _metrics(service))["sinksweep_wakeups_listening"] == 1
        assert (await _metrics(service))["process_open_fds"] > 0
    assert await faults(admin, receiver=receiver) == []


async def test_a_restored_database_sends_nothing_until_somebody_has_looked(
    rig: Rig, receiver: Receiver, admin: "Admin"
) -> None:
    rig.configure(configuration(receiver.url, poll_seconds=0.05))
    before = await rig.serve("before", roles="api")
    accepted = await before.post(
        "/v1/inbound", {"queue": "support", "payload": 1}, idempotency_key="key-1"
    )
    claim = {"queue": "support", "agent": "a"}
    (turn,) = (await before.post("/v1/turns/claim", claim)).json["turns"]
    messages = [{"destination": "crm", "payload": "sealed before the backup"}]
    sealed = {"lease_token": turn["lease_token"], "messages": messages}
    assert (await before.post(f"/v1/turns/{turn['id']}/seal", sealed)).status == 200
    await before.kill()

    restored = await rig.serve("restored", "--deliver-paused")
    other = await rig.serve("other")
    await other.post("/v1/inbound", {"queue": "support", "payload": 2}, idempotency_key="key-2")
    assert (await other.post("/v1/turns/claim", claim)).json["turns"] == []
    for service in (restored, other):
        async with asyncio.timeout(10):
            # Its deliverer has tried, and what would wake it has looked again and again.
            while await _passes(service, "deliver") < 1:
                await asyncio.sleep(POLL_SECONDS)
            while await _passes(service, "sweep") < SOME_PASSES:
                await asyncio.sleep(POLL_SECONDS)
    assert await admin.fetchval("select count(*) from sink.outbox where attempts > 0") == 0
    assert receiver.got == []
    assert (await restored.post("/v1/resume", {})).status == 200
    path = f"/v1/turns/{accepted.json['turn']}?wait=replied&timeout_seconds=20"
    assert (await other.get(path)).json["state"] == "replied"
    assert len(receiver.got) == 1
