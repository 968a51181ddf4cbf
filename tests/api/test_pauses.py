"""Pause and resume over HTTP: repeatable, told to who waits, and closed to keys that share it with others."""

import asyncio
from typing import Any

import pytest

from app.engine.keys import create_key
from app.engine.wake import queue_topic
from tests.api.conftest import Service

PLACES = [
    ("/v1/queues/support", {"kind": "queue", "name": "support"}),
    ("/v1/sources/api", {"kind": "source", "name": "api"}),
    ("/v1/destinations/crm", {"kind": "destination", "name": "crm"}),
    ("/v1", {"kind": "all", "name": None}),
]


async def _list(service: Service, what: str, *, scope: str = "read") -> dict[str, Any]:
    answer = (await service.get(f"/v1/{what}", scope=scope)).json
    return {item["name"]: item for item in answer["items"]}


@pytest.mark.parametrize(("path", "named"), PLACES)
async def test_the_first_pause_is_kept_and_both_calls_may_be_repeated(
    service: Service, path: str, named: dict[str, Any]
) -> None:
    first = await service.post(f"{path}/pause", {"reason": "fire"})
    again = await service.call("POST", f"{path}/pause")
    assert first.status == again.status == 200
    assert first.json == again.json
    paused = first.json["paused"]
    assert first.json == {**named, "paused": paused}
    assert (paused["reason"], paused["by"]) == ("fire", service.keys["admin"].split("_")[1])
    for _ in range(2):
        resumed = await service.call("POST", f"{path}/resume")
        assert (resumed.status, resumed.json) == (200, {**named, "paused": None})


@pytest.mark.parametrize(
    "path", ["/v1/queues/nobody", "/v1/sources/nobody", "/v1/destinations/nobody"]
)
async def test_what_is_neither_configured_nor_in_use_is_not_found(
    service: Service, path: str
) -> None:
    for verb in ("pause", "resume"):
        answer = await service.call("POST", f"{path}/{verb}")
        assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"why": "fire"}, "unknown_field"),
        ({"reason": 1}, "wrong_type"),
        ({"reason": ""}, "text_invalid"),
        ({"reason": "a\0b"}, "text_invalid"),
        ({"reason": "x" * 1001}, "text_invalid"),
    ],
)
async def test_a_body_that_cannot_be_a_reason_is_refused(
    service: Service, body: object, code: str
) -> None:
    answer = await service.post("/v1/pause", body)
    assert (answer.status, answer.code) == (422, code)
    assert (await service.get("/v1/queues")).json["everything_paused"] is None


async def test_a_paused_queue_accepts_with_202_and_gives_nothing(service: Service) -> None:
    await service.call("POST", "/v1/queues/support/pause")
    accepted = await service.accept("k1", queue="support")
    assert (accepted.status, accepted.json["state"]) == (202, "queued")
    assert (await service.claim(queue="support")).json == {"turns": []}
    assert (await _list(service, "queues"))["support"]["paused"] is not None
    await service.call("POST", "/v1/queues/support/resume")
    assert len((await service.claim(queue="support")).json["turns"]) == 1


@pytest.mark.parametrize("path", ["/v1/queues/support", "/v1"])
async def test_a_claim_that_waits_over_a_pause_is_served_at_the_resume(
    service: Service, path: str
) -> None:
    await service.call("POST", f"{path}/pause")
    await service.accept("k1", queue="support")
    async with asyncio.TaskGroup() as group:
        claim = group.create_task(service.claim(queue="support", wait_seconds=20))
        waiting = service.core.wakes._waiting  # noqa: SLF001 - nothing else tells that it waits
        async with asyncio.timeout(10):
            while not waiting.get(queue_topic("support")):
                await asyncio.sleep(0.005)
        assert not claim.done()
        await service.call("POST", f"{path}/resume")
    assert len(claim.result().json["turns"]) == 1


async def test_a_paused_source_answers_as_always_and_shows_what_it_holds(service: Service) -> None:
    await service.accept("k0")
    await service.call("POST", "/v1/sources/api/pause")
    accepted = await service.accept("k1")
    assert (accepted.status, accepted.json["state"]) == (202, "scheduled")
    assert (await service.get(f"/v1/turns/{accepted.json['turn']}")).json["due_at"] is None
    again = await service.accept("k0")
    assert (again.status, again.json["state"]) == (200, "queued")
    item = (await _list(service, "sources"))["api"]
    assert (item["configured"], item["held"]) == (True, 1)
    assert item["oldest_held_seconds"] >= 0


async def test_a_key_of_a_queue_stops_its_queue_and_nothing_that_others_share(
    service: Service,
) -> None:
    bound = await create_key(
        service.core.pool, name="b", scopes=["admin", "read"], queues=["support"]
    )
    statuses = {
        path: (await service.call("POST", f"{path}/pause", scope=bound)).status
        for path in (
            "/v1/queues/support",
            "/v1/queues/default",
            "/v1/queues/nobody",
            "/v1/sources/api",
            "/v1/destinations/crm",
            "/v1/destinations/other",
            "/v1/destinations/nobody",
            "/v1",
        )
    }
    assert list(statuses.values()) == [200, 404, 404, *[403] * 5]
    assert set(await _list(service, "queues", scope=bound)) == {"support"}
    assert set(await _list(service, "destinations", scope=bound)) == {"crm", "loopback"}
    for what in ("sources", "destinations"):
        for item in (await _list(service, what, scope=bound)).values():
            assert item.get("messages", item.get("held")) is None


async def test_what_rows_name_and_nobody_has_configured_is_shown_and_can_be_stopped(
    service: Service, admin: Any
) -> None:
    turn = await service.claimed("k1", queue="support")
    await service.seal(turn, [{"destination": "crm", "payload": 1}])
    await service.accept("k2", queue="support")
    await admin.execute("update sink.turn set queue = 'gone'")
    await admin.execute("update sink.lane set queue = 'gone'")
    await admin.execute("update sink.inbound set queue = 'gone'")
    await admin.execute("update sink.outbox set queue = 'gone', destination = 'left'")
    queue = (await _list(service, "queues"))["gone"]
    assert (queue["configured"], queue["policy"]) == (False, None)
    assert (queue["turns"]["queued"], queue["turns"]["sealed"]) == (1, 1)
    destination = (await _list(service, "destinations"))["left"]
    assert (destination["configured"], destination["messages"]["pending"]) == (False, 1)
    for path in ("/v1/queues/gone", "/v1/destinations/left"):
        assert (await service.call("POST", f"{path}/pause")).status == 200
    assert (await _list(service, "queues"))["gone"]["paused"] is not None
    # Its rows may end meanwhile: what is paused can be let go.
    await admin.execute(
        "update sink.turn set state = 'queued', queue = 'support' where queue = 'gone' and seal = 0"
    )
    await admin.execute("update sink.lane set queue = 'support'")
    for path in ("/v1/queues/gone", "/v1/destinations/left"):
        assert (await service.call("POST", f"{path}/resume")).status == 200


async def test_the_lists_show_policy_load_and_health_and_nothing_secret(service: Service) -> None:
    turn = await service.claimed("k1", conversation="c")
    await service.accept("k2", conversation="c")
    await service.accept("k3", delay_seconds=60)
    queues = await _list(service, "queues")
    assert set(queues) == set(service.core.settings.queues)
    turns = queues["default"]["turns"]
    assert {state for state, count in turns.items() if count} == {
        "processing", "waiting", "scheduled",
    }  # fmt: skip
    assert queues["support"]["policy"]["destinations"] == ["crm", "loopback"]
    assert queues["default"]["oldest_queued_seconds"] is None
    await service.seal(turn, [{"destination": "crm", "payload": 1}])
    crm = (await _list(service, "destinations"))["crm"]
    assert crm["breaker"] == {
        "state": "closed", "opened_at": None, "probe_at": None, "reason": None,
    }  # fmt: skip
    assert crm["messages"] == {"pending": 1, "sending": 0, "dead": 0, "unknown": 0}
    assert crm["oldest_pending_seconds"] >= 0
    assert {"concurrency_max", "rate_per_second", "key_ttl_seconds"} <= set(crm["policy"])
    assert not {"url", "secrets", "options"} & set(crm["policy"])


async def test_the_lists_take_no_parameters(service: Service) -> None:
    for what in ("queues", "sources", "destinations"):
        answer = await service.get(f"/v1/{what}?state=queued")
        assert (answer.status, answer.code) == (422, "unknown_field")
