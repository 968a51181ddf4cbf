import asyncio
import time
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.api.application import build_application
from app.engine.loopback import store
from tests.api.conftest import Service

if TYPE_CHECKING:
    from tests.conftest import Freeze


async def test_what_does_not_exist_is_404(service: Service) -> None:
    for path in (
        "/",
        "/v1",
        "/v1/",
        "/v1/nope",
        "/v1/inbound/",
        "/docs",
        "/redoc",
    ):
        for method in ("GET", "POST", "DELETE"):
            answer = await service.call(method, path)
            assert (answer.status, answer.code) == (404, "not_found"), (method, path)
            assert answer.headers["Content-Type"] == "application/problem+json"
    for method in ("GET", "POST"):
        answer = await service.call(method, "/v1/sources/nobody", scope=None)
        assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/inbound", "POST"),
        ("DELETE", "/v1/inbound/in_" + "0" * 26, "GET, HEAD"),
        ("PUT", "/v1/turns/claim", "POST"),
        ("OPTIONS", "/v1/inbound", "POST"),
        ("TRACE", "/livez", "GET, HEAD"),
    ],
)
async def test_another_method_is_405_with_what_is_allowed(
    service: Service, method: str, path: str, allowed: str
) -> None:
    answer = await service.call(method, path)
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == allowed


async def test_head_is_get_without_its_body(service: Service) -> None:
    accepted = (await service.accept("k1")).json
    path = f"/v1/inbound/{accepted['id']}"
    full, head = await service.get(path), await service.call("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == full.headers["Content-Length"]


async def test_a_foreign_page_is_given_nothing_to_work_with(service: Service) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("OPTIONS", "POST"):
        answer = await service.call(method, "/v1/inbound", scope=None, headers=headers)
        assert answer.status in (401, 405)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_answers_are_neither_kept_nor_guessed_at(service: Service) -> None:
    for path in ("/v1/loopback", "/v1/nope", "/v1/turns/x"):
        answer = await service.get(path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
    assert (await service.get("/livez")).headers["X-Content-Type-Options"] == "nosniff"


async def test_readiness_names_the_loop_that_stands(service: Service) -> None:
    passes = service.core.passes
    passes["sweep"] = (time.monotonic(), 5.0)
    try:
        assert (await service.get("/readyz")).json["checks"]["loops"] == {"sweep": True}
        passes["deliver"] = (time.monotonic() - 10, 5.0)
        answer = await service.get("/readyz")
        assert answer.status == 503
        assert answer.json["checks"]["loops"] == {"sweep": True, "deliver": False}
    finally:
        passes.clear()
    assert (await service.get("/readyz")).json == {
        "ready": True,
        "checks": {
            "database": True,
            "loops": {},
            "draining": False,
            "sources": {},
            "unconfigured": {},
        },
    }


async def test_metrics_count_by_route_and_never_by_path(service: Service) -> None:
    accepted = (await service.accept("k1")).json
    await service.get(f"/v1/turns/{accepted['turn']}")
    await service.get("/nope/secret-path")
    await service.claim()
    text = (await service.get("/metrics")).body.decode()
    assert 'sinksweep_http_requests_total{route="/v1/turns/{id}",status="200"}' in text
    assert 'sinksweep_http_requests_total{route="unknown",status="404"}' in text
    assert 'sinksweep_accepts_total{queue="default",result="new"}' in text
    assert 'sinksweep_turns_claimed_total{queue="default"}' in text
    assert 'sinksweep_pool_connections{state="idle"}' in text
    assert accepted["turn"] not in text
    assert "secret-path" not in text


async def test_what_the_loopback_channel_received_is_shown_newest_first(service: Service) -> None:
    bodies = (b'{"n": 1}', b"\x00", b"x" * 200_000)
    for n, body in enumerate(bodies):
        await store(
            service.core.pool,
            key=f"key-{n}",
            queue="support" if n else "default",
            conversation="c",
            destination="loopback",
            content_type="application/json",
            headers={"x-tag": "t"},
            body=body,
        )
    first = (await service.get("/v1/loopback?limit=1")).json["items"]
    assert [one["idempotency_key"] for one in first] == ["key-2"]
    # The largest fills the answer by itself; what fits is shown, and at least one.
    assert len((await service.get("/v1/loopback")).json["items"]) == 1
    await store(
        service.core.pool,
        key="key-0",
        queue="default",
        conversation="c",
        destination="loopback",
        content_type="application/json",
        headers={"x-tag": "t"},
        body=bodies[0],
    )
    shown = await service.get("/v1/loopback?limit=1")
    assert b'"payload":{"n": 1}' in shown.body
    assert shown.json["items"][0]["times"] == 2
    mine = (await service.get("/v1/loopback", scope="support")).json["items"]
    assert {one["queue"] for one in mine} == {"support"}


@pytest.mark.parametrize("scope", ["admin", "support"])
async def test_a_list_of_what_was_received_can_be_followed_to_its_end(
    service: Service, freeze: "Freeze", scope: str
) -> None:
    # All at the same moment: the key tells them apart.
    await freeze()
    for n in range(7):
        await store(
            service.core.pool,
            key=f"key.{n}",
            queue="support" if n % 2 else "default",
            conversation=None,
            destination="loopback",
            content_type="application/json",
            headers={},
            body=b"1",
        )
    seen: list[str] = []
    path = "/v1/loopback?limit=2"
    for _ in range(5):
        page = (await service.get(path, scope=scope)).json
        seen += [one["idempotency_key"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        path = f"/v1/loopback?limit=2&cursor={page['next_cursor']}"
    mine = [n for n in range(7) if n % 2 or scope == "admin"]
    assert seen == [f"key.{n}" for n in reversed(mine)]


@pytest.mark.parametrize("cursor", ["", "7", ".key", "x.key", "9" * 18 + ".key", "1.\u00e4"])
async def test_a_cursor_that_was_never_given_is_422(service: Service, cursor: str) -> None:
    answer = await service.get(f"/v1/loopback?cursor={cursor}")
    assert (answer.status, answer.json["errors"][0]["pointer"]) == (422, "/cursor")


async def test_a_page_that_is_full_leads_to_the_rest(service: Service) -> None:
    for n in range(3):
        await store(
            service.core.pool,
            key=f"key-{n}",
            queue="default",
            conversation=None,
            destination="loopback",
            content_type="a/b",
            headers={},
            body=b"x" * 60_000,
        )
    first = (await service.get("/v1/loopback")).json
    rest = (await service.get(f"/v1/loopback?cursor={first['next_cursor']}")).json
    assert [len(page["items"]) for page in (first, rest)] == [1, 1]
    last = (await service.get(f"/v1/loopback?cursor={rest['next_cursor']}")).json
    assert (len(last["items"]), last["next_cursor"]) == (1, None)


async def test_a_process_without_the_api_answers_only_for_itself(service: Service) -> None:
    tasks = asyncio.TaskGroup()
    routes = build_application(service.core, tasks=tasks, api=False).routes
    assert {getattr(route, "path", "") for route in routes} == {"/livez", "/readyz", "/metrics"}


async def test_what_is_unexpected_is_500_and_says_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_pool: object, _turn: UUID) -> None:
        message = "a secret in an error"
        raise RuntimeError(message)

    monkeypatch.setattr("app.api.places.find_place", broken)
    answer = await service.get("/v1/turns/turn_" + "0" * 26)
    assert (answer.status, answer.code) == (500, "internal_error")
    assert b"secret" not in answer.body
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.records[0].getMessage() == "request failed"


async def test_times_have_their_zone_and_can_be_read_by_everybody(service: Service) -> None:
    shown = (await service.get((await service.accept("k1")).headers["Location"])).json
    assert shown["received_at"].endswith("Z")
    assert len(shown["received_at"]) == len("2026-01-01T00:00:00.000000Z")
