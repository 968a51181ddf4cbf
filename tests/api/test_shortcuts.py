"""The calls that come most pass the framework by, and nobody can tell from what is answered."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from app.api.routes import CALLS
from app.api.shortcuts import FREQUENT
from app.core import Draining
from tests.api.conftest import Answer, Service, serving

TURN = "turn_" + "0" * 26
PATHS = (
    *(path.replace("{id}", TURN) for path in FREQUENT),
    "/v1/turns/nothing/seal",
    "/v1/turns//seal",
    f"/v1/turns/{TURN}/seal/",
    f"/v1/turns/{TURN}/nothing",
    f"/v1/turns/{TURN}/{TURN}/seal",
    "/v1/turns/claim/",
    "/v1//inbound",
    "//v1/inbound",
    "/v1/inbound/",
    "/v1/turns/claim/seal",
)
BODIES = (b"", b"{", b'{"unknown": 1}', b'{"queue": "default", "agent": "a"}', b'{"payload": 1}')


@pytest.fixture
async def long(service: Service) -> AsyncIterator[Service]:
    """The same service behind a server that knows no short ways."""
    async with serving(replace(service.core, draining=Draining()), short=False) as other:
        other.keys = service.keys
        yield other


def _seen(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return answer.status, headers | {"date": ""}, answer.body


@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
async def test_a_frequent_call_is_answered_as_the_framework_answers_it(
    service: Service, long: Service, method: str
) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    for path in PATHS:
        for scope in (None, "read", "admin"):
            # The last two are taken, each once: the second answer is another one.
            for body in BODIES if scope != "admin" else BODIES[:-2]:
                answers = [
                    await one.call(method, path, scope=scope, body=body, headers=headers)
                    for one in (service, long)
                ]
                assert _seen(answers[0]) == _seen(answers[1]), (path, scope, body)


async def test_what_a_frequent_call_does_is_done_the_long_way_too(
    service: Service, long: Service
) -> None:
    seen: list[object] = []
    for one in (service, long):
        accepted = await one.accept(f"k-{one.port}")
        claimed = await one.claim()
        (turn,) = claimed.json["turns"]
        renewed = await one.post(
            f"/v1/turns/{turn['id']}/renew", {"lease_token": turn["lease_token"]}
        )
        sealed = await one.seal(turn, [{"destination": "loopback", "payload": 1}])
        answers = (accepted, claimed, renewed, sealed)
        seen.append([(a.status, [(n, type(v)) for n, v in a.json.items()]) for a in answers])
        seen.append([sorted(name.lower() for name in a.headers) for a in answers])
    assert seen[:2] == seen[2:]


async def test_every_frequent_call_is_one_and_is_counted_by_its_route(service: Service) -> None:
    assert set(FREQUENT) <= {call.path for call in CALLS if call.method == "POST"}
    turn = await service.claimed()
    await service.post(f"/v1/turns/{turn['id']}/renew", {"lease_token": turn["lease_token"]})
    await service.seal(turn, [])
    await service.post("/v1/sources/nobody", {})
    text = (await service.get("/metrics", scope=None)).body.decode()
    for path in FREQUENT:
        # The source is nobody's here.
        status = "404" if path == "/v1/sources/{source}" else "20"
        assert f'sinksweep_http_requests_total{{route="{path}",status="{status}' in text, path
    assert json.loads((await service.get("/openapi.json", scope=None)).body)["paths"].keys() >= set(
        FREQUENT
    )
