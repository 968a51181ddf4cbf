"""API keys made on the command line: what they may see, and how soon they end."""

import asyncio

from tests.system.processes import POLL_SECONDS
from tests.system.rig import Rig

MORE = """
[queues.sales]
"""


async def test_a_key_is_made_listed_and_revoked_and_a_running_replica_follows_within_a_second(
    rig: Rig,
) -> None:
    configured = (rig.folder / "sinksweep.toml").read_text()
    rig.configure(configured + MORE)
    service = await rig.serve("api", roles="api")
    made = await rig.run(
        *("keys", "create", "--name", "helpdesk", "--scope", "agent", "--scope", "accept"),
        *("--queue", "support"),
    )
    assert made.code == 0
    key = made.out.strip()

    # Its own queue is there for it.
    accepted = await service.post(
        "/v1/inbound", {"queue": "support", "payload": 1}, key=key, idempotency_key="k"
    )
    assert accepted.status == 202
    assert (await service.get(f"/v1/turns/{accepted.json['turn']}", key=key)).status == 200
    # Another is not, under whatever path.
    foreign = {"queue": "sales", "payload": 1}
    other = await service.post("/v1/inbound", foreign, idempotency_key="k")
    assert other.status == 202
    refused = await service.post("/v1/inbound", foreign, key=key, idempotency_key="l")
    assert (refused.status, refused.json["code"]) == (422, "queue_unknown")
    turn, inbound = other.json["turn"], other.json["id"]
    for path in (f"/v1/turns/{turn}", f"/v1/turns/{turn}/events", f"/v1/inbound/{inbound}"):
        assert (await service.get(path, key=key)).status == 404
        assert (await service.get(path)).status == 200
    token = {"lease_token": "00000000-0000-4000-8000-000000000000"}
    for verb, body in (("renew", token), ("seal", {**token, "messages": []})):
        assert (await service.post(f"/v1/turns/{turn}/{verb}", body, key=key)).status == 404
    claim = {"queue": "sales", "agent": "a"}
    assert (await service.post("/v1/turns/claim", claim, key=key)).json["code"] == "queue_unknown"

    listed = await rig.run("keys", "list")
    lines = {line.split()[0]: line for line in listed.out.splitlines()}
    key_id = key.split("_")[1]
    assert lines[key_id].split()[1:] == ["active", "agent,accept", "support", "helpdesk"]
    assert key not in listed.out

    revoked = await rig.run("keys", "revoke", key_id)
    assert (revoked.code, revoked.out) == (0, f"{key_id} is revoked.\n")
    async with asyncio.timeout(1.0):
        while (await service.get(f"/v1/turns/{accepted.json['turn']}", key=key)).status != 401:
            await asyncio.sleep(POLL_SECONDS)
    assert "revoked" in (await rig.run("keys", "list")).out
    unknown = await rig.run("keys", "revoke", "nothing")
    assert (unknown.code, unknown.err) == (1, "sinksweep: there is no key nothing\n")


async def test_a_key_cannot_be_made_for_an_unknown_scope_or_for_no_time(rig: Rig) -> None:
    create = ("keys", "create", "--name", "n", "--scope")
    async with asyncio.TaskGroup() as group:
        runs = [
            group.create_task(rig.run(*create, "everything")),
            group.create_task(rig.run(*create, "agent", "--days", "0")),
            group.create_task(rig.run(*create, "agent", "--days", "-1")),
            group.create_task(rig.run(*create, "agent", "--days", "nan")),
        ]
    for run in runs:
        assert run.result().code == 2
        assert "Traceback" not in run.result().err
    listed = await rig.run("keys", "list")
    assert [line.split()[-1] for line in listed.out.splitlines()] == ["name", "rig"]


async def test_no_key_is_made_that_could_approve_what_it_proposed(rig: Rig) -> None:
    await rig.serve("api", roles="api")
    before = (await rig.run("keys", "list")).out
    for other in ("agent", "admin"):
        made = await rig.run(
            "keys", "create", "--name", "both", "--scope", other, "--scope", "approve"
        )
        assert (made.code, made.out) == (1, "")
        assert "whoever proposes never decides" in made.err
    assert (await rig.run("keys", "list")).out == before
