"""Every call asks for a key with one of its scopes, and refuses in words that tell nothing."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest

from app.api.auth import may
from app.api.calls import CallRoute
from app.console import PAGES
from app.domain.scopes import SCOPES
from app.engine.keys import Principal, create_key, key_id_of, revoke_key
from tests.api.conftest import STRANGER, Service

if TYPE_CHECKING:
    from starlette.routing import BaseRoute


# Every call with the scopes that may make it. A call that is missing here fails the matrix.
ALLOWED: Final = {
    ("POST", "/v1/inbound"): {"accept", "admin"},
    ("GET", "/v1/inbound/{id}"): {"accept", "agent", "approve", "read", "admin"},
    ("GET", "/v1/inbound/{id}/payload"): {"accept", "agent", "approve", "read", "admin"},
    ("POST", "/v1/turns/claim"): {"agent", "admin"},
    ("GET", "/v1/turns/{id}"): {"accept", "agent", "approve", "read", "admin"},
    ("GET", "/v1/turns/{id}/set"): {"agent", "approve", "read", "admin"},
    ("GET", "/v1/turns/{id}/events"): {"accept", "agent", "approve", "read", "admin"},
    ("POST", "/v1/turns/{id}/renew"): {"agent", "admin"},
    ("POST", "/v1/turns/{id}/release"): {"agent", "admin"},
    ("POST", "/v1/turns/{id}/park"): {"agent", "admin"},
    ("POST", "/v1/turns/{id}/signals/{name}"): {"accept", "agent", "approve", "admin"},
    ("POST", "/v1/turns/{id}/seal"): {"agent", "admin"},
    ("POST", "/v1/turns/{id}/decision"): {"approve"},
    ("POST", "/v1/turns/{id}/cancel"): {"admin"},
    ("POST", "/v1/turns/{id}/redrive"): {"admin"},
    ("GET", "/v1/outbox/{id}"): {"approve", "read", "admin"},
    ("POST", "/v1/outbox/{id}/cancel"): {"admin"},
    ("POST", "/v1/outbox/{id}/redrive"): {"admin"},
    ("POST", "/v1/outbox/{id}/resolve"): {"admin"},
    ("POST", "/v1/outbox/{id}/resend"): {"admin"},
    ("POST", "/v1/conversations/erase"): {"admin"},
    ("GET", "/v1/loopback"): {"read", "admin"},
    ("GET", "/v1/turns"): {"accept", "agent", "approve", "read", "admin"},
    ("GET", "/v1/outbox"): {"approve", "read", "admin"},
    ("POST", "/v1/inbound/batch"): {"accept", "admin"},
    ("POST", "/v1/turns/bulk"): {"admin"},
    ("POST", "/v1/outbox/bulk"): {"admin"},
    ("GET", "/v1/operations"): {"read", "admin"},
    ("GET", "/v1/operations/{id}"): {"read", "admin"},
    ("POST", "/v1/operations/{id}/cancel"): {"admin"},
    ("GET", "/v1/queues"): {"read", "admin"},
    ("GET", "/v1/sources"): {"read", "admin"},
    ("GET", "/v1/destinations"): {"read", "admin"},
    ("POST", "/v1/queues/{name}/pause"): {"admin"},
    ("POST", "/v1/queues/{name}/resume"): {"admin"},
    ("POST", "/v1/sources/{name}/pause"): {"admin"},
    ("POST", "/v1/sources/{name}/resume"): {"admin"},
    ("POST", "/v1/destinations/{name}/pause"): {"admin"},
    ("POST", "/v1/destinations/{name}/resume"): {"admin"},
    ("POST", "/v1/pause"): {"admin"},
    ("POST", "/v1/resume"): {"admin"},
}
PUBLIC: Final = {"/livez", "/readyz", "/metrics", "/openapi.json", *PAGES}
# A provider has no key of ours: what it sends is signed.
SIGNED: Final = {"/v1/sources/{source}"}


def calls(service: Service) -> dict[tuple[str, str], CallRoute]:
    routes: list[BaseRoute] = service.application.routes
    assert all(isinstance(route, CallRoute) for route in routes)
    return {
        (route.call.method, route.path): route for route in routes if isinstance(route, CallRoute)
    }


async def test_every_call_has_its_scopes_and_no_other_path_answers(service: Service) -> None:
    found = calls(service)
    private = {call for call in found if call[1] not in PUBLIC | SIGNED}
    assert private == set(ALLOWED)
    assert {path for _, path in set(found) - private} == PUBLIC | SIGNED
    for call, route in found.items():
        assert bool(route.call.scopes) == (call in private)


@pytest.mark.parametrize("scope", [None, STRANGER, "nonsense", *SCOPES])
async def test_the_matrix_of_calls_and_scopes(service: Service, scope: str | None) -> None:
    for (method, path), allowed in ALLOWED.items():
        for id_ in ("turn_" + "0" * 26, "nonsense"):
            answer = await service.call(method, path.replace("{id}", id_), scope=scope)
            if scope in allowed:
                assert answer.status not in (401, 403), (method, path, scope)
            elif scope in SCOPES:
                assert (answer.status, answer.code) == (403, "scope_missing"), (method, path)
            else:
                assert (answer.status, answer.code) == (401, "unauthorized"), (method, path)
                assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_the_public_calls_need_no_key(service: Service) -> None:
    for path in PUBLIC:
        assert (await service.get(path, scope=None)).status == 200


async def test_all_refusals_of_a_key_are_the_same(service: Service) -> None:
    revoked = await create_key(service.core.pool, name="r", scopes=["admin"], queues=None)
    await revoke_key(service.core.pool, key_id_of(revoked) or "")
    good = service.keys["admin"]
    bodies = set()
    for header in (
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {STRANGER}",
        f"Bearer {revoked}",
        f"Basic {good}",
        f"Bearer {good}x",
        f"Bearer {good} {good}",
        good,
    ):
        headers = {} if header is None else {"Authorization": header}
        answer = await service.call("GET", "/v1/loopback", scope=None, headers=headers)
        assert answer.status == 401
        bodies.add(answer.body)
    assert len(bodies) == 1


async def test_the_scheme_is_read_in_any_case_and_a_key_in_the_query_never(
    service: Service,
) -> None:
    key = service.keys["read"]
    headers = {"Authorization": f"bEARER {key}"}
    assert (await service.call("GET", "/v1/loopback", scope=None, headers=headers)).status == 200
    for name in ("key", "access_token", "authorization"):
        answer = await service.get(f"/v1/loopback?{name}={key}", scope=None)
        assert answer.status == 401


async def test_two_authorization_headers_are_none(service: Service) -> None:
    key = service.keys["read"]
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    head = "GET /v1/loopback HTTP/1.1\r\nHost: x\r\n" + f"Authorization: Bearer {key}\r\n" * 2
    writer.write(head.encode() + b"\r\n")
    assert b" 401 " in await reader.readline()
    writer.close()


def test_admin_stands_for_every_scope_but_approve() -> None:
    admin = Principal("id", frozenset({"admin"}), None)
    assert all(may(admin, frozenset({scope})) for scope in ("accept", "agent", "read"))
    assert not may(admin, frozenset({"approve"}))


async def test_neither_keys_nor_tokens_appear_in_logs_or_answers(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    turn = await service.claimed()
    token, lost = turn["lease_token"], str(uuid4())
    answers = [
        await service.get("/v1/loopback", scope=STRANGER),
        await service.get(f"/v1/loopback?key={STRANGER}", scope=None),
        await service.get("/v1/loopback", scope="approve"),
        await service.post(f"/v1/turns/{turn['id']}/renew", {"lease_token": lost}),
        await service.post(f"/v1/turns/{turn['id']}/renew", {"lease_token": token}),
        await service.seal(turn, [{"destination": "loopback", "payload": 1}]),
        await service.seal(turn, []),
        await service.get(f"/v1/turns/{turn['id']}"),
        await service.get(f"/v1/turns/{turn['id']}/events"),
        await service.get("/metrics"),
    ]
    written = caplog.text + "".join(answer.body.decode() for answer in answers)
    own = [record for record in caplog.records if not record.name.startswith("aiohttp")]
    assert not [record for record in own if record.levelno >= logging.WARNING]
    for secret in (STRANGER, token, lost, *service.keys.values()):
        assert secret not in written
