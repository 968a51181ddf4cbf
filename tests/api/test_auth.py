import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest

from app.api.auth import KNOWN_MAX, KNOWN_SECONDS, UNKNOWN_MAX, Authenticator, may
from app.api.calls import CallRoute
from app.api.problems import Refusal
from app.console import PAGES
from app.domain.scopes import SCOPES
from app.engine.keys import Principal, create_key, key_id_of, revoke_key
from tests.api.conftest import STRANGER, Service

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from tests.database import Admin


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


async def test_a_key_bound_to_a_queue_finds_nothing_of_another(service: Service) -> None:
    mine = (await service.accept("k1", queue="support", scope="support")).json
    other = (await service.accept("k2")).json
    turn = await service.claimed("k3")
    sealed = (await service.seal(turn, [{"destination": "loopback", "payload": 1}])).json
    nothing = await service.get("/v1/turns/turn_" + "0" * 26, scope="support")
    for path in (
        f"/v1/inbound/{other['id']}",
        f"/v1/inbound/{other['id']}/payload",
        f"/v1/turns/{other['turn']}",
        f"/v1/turns/{other['turn']}/events",
        f"/v1/outbox/{sealed['messages'][0]['id']}",
    ):
        answer = await service.get(path, scope="support")
        assert (answer.status, answer.body) == (404, nothing.body)
    assert (await service.get(f"/v1/turns/{mine['turn']}", scope="support")).status == 200
    verbs: dict[str, dict[str, Any]] = {
        "renew": {},
        "release": {"reason": "r"},
        "seal": {"messages": []},
    }
    for verb, own in verbs.items():
        body = {"lease_token": turn["lease_token"], **own}
        answer = await service.post(f"/v1/turns/{turn['id']}/{verb}", body, scope="support")
        assert (answer.status, answer.body) == (404, nothing.body)


async def test_a_foreign_queue_is_the_same_as_an_unknown_one(service: Service) -> None:
    bodies = set()
    for queue in ("open", "nope", None):
        accepted = await service.accept("k1", queue=queue, scope="support")
        assert (accepted.status, accepted.code) == (422, "queue_unknown")
        bodies.add(accepted.body)
    for queue in ("open", "nope"):
        claimed = await service.claim(queue=queue, scope="support")
        assert (claimed.status, claimed.code) == (422, "queue_unknown")
        bodies.add(claimed.body)
    assert len(bodies) == 1


async def test_a_key_that_only_accepts_sees_no_messages(service: Service) -> None:
    turn = await service.claimed()
    await service.seal(turn, [{"destination": "loopback", "payload": 1}])
    inbound = turn["inbound"][0]["id"]
    for path in (f"/v1/turns/{turn['id']}", f"/v1/inbound/{inbound}"):
        assert {"messages", "follow_ups", "seals"}.isdisjoint(
            (await service.get(path, scope="accept")).json
        )
        for scope in ("agent", "approve", "read", "admin"):
            assert len((await service.get(path, scope=scope)).json["messages"]) == 1
    path = f"/v1/turns/{turn['id']}/events"
    seen = (await service.get(path, scope="accept")).json["items"]
    assert {one["message"] for one in seen} == {None}
    assert len((await service.get(path, scope="agent")).json["items"]) == len(seen) + 1


async def test_a_revoked_key_is_dead_within_a_second(service: Service) -> None:
    pool = service.core.pool
    key = await create_key(pool, name="short", scopes=["read"], queues=None)
    assert (await service.get("/v1/loopback", scope=key)).status == 200
    await revoke_key(pool, key_id_of(key) or "")
    revoked = time.monotonic()
    async with asyncio.timeout(5):
        while (await service.get("/v1/loopback", scope=key)).status != 401:
            await asyncio.sleep(0.02)
    assert time.monotonic() - revoked < 1.0


async def test_concurrent_requests_share_one_look_up_and_a_key_is_remembered_for_a_moment() -> None:
    asked: list[str] = []
    held = asyncio.Event()
    known = Principal("id", frozenset({"read"}), None)

    async def find(key: str) -> Principal | None:
        asked.append(key)
        await held.wait()
        return known if key != STRANGER else None

    key = "sks_0123456789abcdef_" + "y" * 43
    authenticator = Authenticator(find)
    headers = [(b"authorization", f"Bearer {key}".encode())]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(authenticator.principal(headers)) for _ in range(50)]
        while not asked:
            await asyncio.sleep(0)
        held.set()
    assert {task.result() for task in tasks} == {known}
    await authenticator.principal(headers)
    assert asked == [key]
    for _ in range(2):
        with pytest.raises(Refusal):
            await authenticator.principal([(b"authorization", f"Bearer {STRANGER}".encode())])
    assert asked == [key, STRANGER]


async def test_a_key_is_asked_for_once_however_it_is_spelled() -> None:
    asked: list[str] = []
    known = Principal("id", frozenset({"read"}), None)

    async def find(key: str) -> Principal | None:
        asked.append(key)
        return known

    key = "sks_0123456789abcdef_" + "y" * 43
    authenticator = Authenticator(find)
    for spelled in (f"bearer {key}", f"Bearer {key}", f"BEARER   {key} ", f"Bearer {key}"):
        headers = [(b"authorization", spelled.encode())]
        assert await authenticator.principal(headers) is known
    assert asked == [key]
    await asyncio.sleep(KNOWN_SECONDS)
    await authenticator.principal([(b"authorization", f"Bearer {key}".encode())])
    assert asked == [key, key]


async def test_keys_that_are_nobodys_do_not_push_out_those_of_somebody() -> None:
    asked: list[str] = []
    known = Principal("id", frozenset({"read"}), None)
    key = "sks_0123456789abcdef_" + "y" * 43

    async def find(wanted: str) -> Principal | None:
        asked.append(wanted)
        return known if wanted == key else None

    authenticator = Authenticator(find)

    async def ask(wanted: str) -> Principal:
        return await authenticator.principal([(b"authorization", f"Bearer {wanted}".encode())])

    await ask(key)
    for n in range(KNOWN_MAX + 1):
        with pytest.raises(Refusal):
            await ask(f"sks_0123456789abcdef_{n:043}")
    kept = authenticator._known._kept, authenticator._unknown._kept  # noqa: SLF001 - what is kept
    assert [len(one) for one in kept] == [1, UNKNOWN_MAX]


async def test_a_look_up_that_fails_fails_for_all_who_wait_and_is_not_remembered() -> None:
    asked = 0

    async def find(_key: str) -> Principal | None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        raise ConnectionError

    headers = [(b"authorization", f"Bearer {STRANGER}".encode())]
    authenticator = Authenticator(find)

    async def attempt() -> bool:
        try:
            await authenticator.principal(headers)
        except ConnectionError:
            return False
        return True

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(attempt()) for _ in range(20)]
    assert not any(task.result() for task in tasks)
    assert asked == 1
    assert not await attempt()
    assert asked == 2


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


async def test_a_key_that_is_revoked_while_its_claim_waits_is_given_nothing(
    service: Service, admin: "Admin"
) -> None:
    key = await create_key(service.core.pool, name="r", scopes=["agent"], queues=None)
    async with asyncio.TaskGroup() as group:
        claim = group.create_task(service.claim(scope=key, wait_seconds=10))
        waiting = service.core.wakes._waiting  # noqa: SLF001 - nothing else tells who waits
        async with asyncio.timeout(5):
            while not waiting.get("queue/default"):
                await asyncio.sleep(0.01)
        await revoke_key(service.core.pool, key_id_of(key) or "")
        await asyncio.sleep(KNOWN_SECONDS)
        await service.accept("k1")
    assert (claim.result().status, claim.result().code) == (401, "unauthorized")
    row = await admin.fetchrow("select state, attempts_used, releases from sink.turn")
    assert row is not None
    assert tuple(row) == ("queued", 0, 0)


async def test_a_key_that_is_revoked_while_it_watches_is_told_nothing(service: Service) -> None:
    key = await create_key(service.core.pool, name="r", scopes=["read"], queues=None)
    turn = (await service.accept("k1")).json["turn"]
    async with asyncio.TaskGroup() as group:
        path = f"/v1/turns/{turn}?wait=processing&timeout_seconds=10"
        watch = group.create_task(service.get(path, scope=key))
        await asyncio.sleep(2 * KNOWN_SECONDS)
        await revoke_key(service.core.pool, key_id_of(key) or "")
        await asyncio.sleep(KNOWN_SECONDS)
        await service.claim()
    assert watch.result().status == 401
