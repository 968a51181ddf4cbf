"""No log, no metric and no table shows what is secret, whichever way a request or a delivery went."""

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from app.engine.keys import create_key
from tests.receiver import Receiver, Request
from tests.system.conftest import configuration
from tests.system.processes import POLL_SECONDS, Service
from tests.system.rig import Rig
from tests.system.searching import places
from tests.system.verdict import faults

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

PATH = "canaryPATHq8f3"
QUERY = "canaryQUERYz71k"
SIGNING = "whsec_Y2FuYXJ5LXNpZ25pbmctc2VjcmV0LTEyMzQ1Njc4"
ASKED = "canary-asked-b52m"
SAID = "canary-said-w90x"
METADATA = "canary-metadata-t44"

# Where each may stand: the input and the sealed payloads are what the tables are for.
ALLOWED = {
    ASKED: {"inbound.body"},
    METADATA: {"inbound.metadata"},
    SAID: {"outbox_payload.body"},
}
# A token is what a running lease is fenced with, and an ended one is recognized by.
TOKEN_COLUMNS = {"turn.token", "attempt.token"}


async def _wrong_requests(service: Service, *, token: str, turn: str) -> None:
    seal = {"lease_token": token, "messages": [{"payload": SAID}]}
    half = b'{"lease_token": "%b", ' % token.encode()
    for path, body in (
        (f"/v1/turns/{turn}/seal", seal),
        (f"/v1/turns/{turn}/seal", half),
        (f"/v1/turns/{turn}/renew?token={token}", {"lease_token": token, ASKED: ASKED}),
        (f"/v1/turns/{token}/renew", {"lease_token": token}),
        ("/v1/inbound", b'{"payload": "%b' % ASKED.encode()),
        ("/v1/inbound", {"payload": ASKED, "queue": ASKED}),
    ):
        answer = await service.post(path, body, idempotency_key="wrong")
        assert answer.status in (404, 422)
    guessed = await service.post("/v1/inbound", {"payload": ASKED}, key=service.key[:-1] + "~")
    assert guessed.status == 401


async def test_secrets_show_in_no_log_no_metric_and_no_column_that_is_not_theirs(
    rig: Rig, pool: "Pool", admin: "Admin", receiver: Receiver
) -> None:
    (rig.folder / "secret").write_text(SIGNING)
    url = f"{receiver.url}/{PATH}?key={QUERY}"
    more = f"""
[destinations.signed]
kind = "webhook"
url = "{url}"
secrets = ["file:{rig.folder}/secret"]
backoff_seconds = 0.1
backoff_seconds_max = 0.2

[destinations.away]
kind = "webhook"
url = "http://127.0.0.1:1/{PATH}?key={QUERY}"
secrets = ["file:{rig.folder}/secret"]
attempts_max = 1
"""
    rig.configure(configuration(receiver.url, more=more))
    answers = [503, 500, 404, 302, 204]

    async def tells_all(request: Request) -> web.StreamResponse:
        status = answers.pop(0) if answers else 204
        shown = f"{url} {PATH} {QUERY} {SIGNING} {request.headers}"
        return web.Response(status=status, text=shown, headers={"Location": url})

    receiver.answer = tells_all
    key = rig.key = await create_key(pool, name="a", scopes=["agent", "accept"], queues=None)
    service = await rig.serve("all")
    tokens = []
    for number, destination in enumerate(("signed", "signed", "away")):
        agent = await rig.agent("agent", service, stop=True, lease_seconds=1)
        accepted = await service.post(
            "/v1/inbound",
            {"queue": "support", "payload": {"t": ASKED}, "metadata": {"m": METADATA}},
            key=key,
            idempotency_key=f"key-{number}",
        )
        assert accepted.status == 202
        claimed = (await agent.hear("claimed"))["answer"]
        tokens.append(claimed["lease_token"])
        await _wrong_requests(service, token=claimed["lease_token"], turn=claimed["id"])
        message = {"destination": destination, "payload": {"t": SAID}}
        body = {"lease_token": claimed["lease_token"], "messages": [message]}
        sealed = await service.post(f"/v1/turns/{claimed['id']}/seal", body, key=key)
        assert sealed.status == 200, sealed.body
        await agent.kill()
    async with asyncio.timeout(20):
        done = "select count(*) from sink.outbox where state in ('delivered', 'dead', 'unknown')"
        while await admin.fetchval(done) < 3:
            await asyncio.sleep(POLL_SECONDS)
    assert len(receiver.got) >= 5
    metrics = (await service.get("/metrics")).body.decode()
    assert await service.stop() == 0
    shown = metrics + service.log.read_text()
    secrets = [PATH, QUERY, SIGNING, SIGNING.removeprefix("whsec_"), key, key.rpartition("_")[2]]
    for canary in [*secrets, *tokens, *ALLOWED]:
        assert canary not in shown
        allowed = TOKEN_COLUMNS if canary in tokens else ALLOWED.get(canary, set())
        assert await places(admin, canary) <= allowed, canary
    # The search would have found them.
    for canary, columns in ALLOWED.items():
        assert await places(admin, canary) == columns
    assert await places(admin, tokens[0]) == {"attempt.token"}
    assert await faults(admin, receiver=receiver) == []
