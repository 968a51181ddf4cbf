"""The calls that come most pass the framework by, and nobody can tell from what is answered."""

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.api.application import Application
from app.api.routes import CALLS
from app.api.shortcuts import FREQUENT
from tests.api.conftest import Service

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

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


async def _answer(
    app: "ASGIApp", method: str, path: str, *, key: str | None, body: bytes
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """What an application answers, without a server in between."""
    headers = [(b"content-type", b"application/json"), (b"idempotency-key", b"k")]
    if key is not None:
        headers.append((b"authorization", f"Bearer {key}".encode()))
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    sent: list[Message] = []

    async def receive() -> "Message":
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: "Message") -> None:
        sent.append(message)

    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], sent[0]["headers"], content


@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
@pytest.mark.parametrize("path", PATHS)
async def test_a_frequent_call_is_answered_as_the_framework_answers_it(
    service: Service, method: str, path: str
) -> None:
    application = cast("Application", service.application)
    for scope in (None, "read", "admin"):
        key = None if scope is None else service.keys[scope]
        # The last two are taken, each once: the second answer is another one.
        for body in BODIES if scope != "admin" else BODIES[:-2]:
            status, headers, content = await _answer(application, method, path, key=key, body=body)
            other = await _answer(application.framework, method, path, key=key, body=body)
            assert (status, content) == (other[0], other[2])
            # What surrounds every request adds to both.
            assert [one for one in headers if one in other[1]] == other[1]


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
