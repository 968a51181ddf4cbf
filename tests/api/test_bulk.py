"""Operations over many by HTTP: counted, begun, watched and stopped, each key within its own queues."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.ids import OPERATION_PREFIX, parse_id
from app.domain.model import Settlement, Slots, Verdict
from app.engine.keys import create_key
from app.engine.operation_batch import work_on
from app.engine.resend import take_resends
from app.engine.settle import settle
from app.engine.take import take
from app.workers.operations import work_on_operations
from tests.api.conftest import Answer, Service

if TYPE_CHECKING:
    from tests.database import Admin

ALL = {"all": True}
NOBODYS = f"/v1/operations/{OPERATION_PREFIX}{'0' * 26}"


async def failed(service: Service, key: str, **fields: Any) -> str:
    turn = await service.claimed(key, **fields)
    body = {"lease_token": turn["lease_token"], "reason": "no", "final": True}
    await service.post(f"/v1/turns/{turn['id']}/release", body)
    return str(turn["id"])


async def state(service: Service, turn: str) -> str:
    return str((await service.get(f"/v1/turns/{turn}")).json["state"])


async def bulk(service: Service, verb: str, chosen: object, **fields: Any) -> Answer:
    scope = fields.pop("scope", "admin")
    path = fields.pop("path", "/v1/turns/bulk")
    return await service.post(path, {"verb": verb, "filter": chosen, **fields}, scope=scope)


async def test_an_operation_is_counted_begun_and_watched_to_its_end(service: Service) -> None:
    turns = [await failed(service, f"k{n}") for n in range(3)]
    chosen = {"state": "failed", "queue": "default"}
    counted = await bulk(service, "redrive", chosen, dry_run=True)
    assert (counted.status, counted.json) == (200, {"dry_run": True, "found": 3, "more": False})
    assert {await state(service, turn) for turn in turns} == {"failed"}
    begun = await bulk(service, "redrive", chosen, reason="the model is back")
    assert begun.status == 202
    path = begun.headers["Location"]
    assert path == f"/v1/operations/{begun.json['id']}"
    assert begun.json["created_by"] in service.keys["admin"]
    named = {"kind": "turn", "verb": "redrive", "outcome": None, "state": "running"}
    assert begun.json.items() >= {**named, "reason": "the model is back", "ended_at": None}.items()
    assert begun.json["filter"] == chosen
    assert (await service.get(path)).json == begun.json
    await work_on_operations(service.core)
    done = (await service.get(path)).json
    assert (done["state"], done["found"], done["changed"]) == ("done", 3, 3)
    assert done["ended_at"] is not None
    assert {await state(service, turn) for turn in turns} == {"queued"}


async def test_messages_are_resolved_by_what_somebody_found(service: Service) -> None:
    turn = await service.claimed("k1")
    await service.seal(turn, [{"destination": "loopback", "payload": 1}])
    (taken,) = (await take(service.core.pool, [Slots("loopback", 1, 30.0)])).messages
    lost = Verdict("unknown", reason="timeout", may_have_arrived=True)
    await settle(service.core.pool, [Settlement(taken.message, taken.attempt_id, lost)])
    answer = await bulk(
        service,
        "resolve",
        {"state": ["unknown"], "destination": "loopback", "reason": "timeout"},
        path="/v1/outbox/bulk",
        outcome="delivered",
    )
    assert (answer.status, answer.json["outcome"]) == (202, "delivered")
    await work_on_operations(service.core)
    assert (await service.get(answer.headers["Location"])).json["changed"] == 1
    assert await state(service, turn["id"]) == "replied"


async def test_what_a_receiver_lost_in_some_hours_is_sent_once_more(
    service: Service, admin: "Admin"
) -> None:
    for key in ("early", "lost", "late"):
        turn = await service.claimed(key)
        await service.seal(turn, [{"destination": "loopback", "payload": key}])
        (taken,) = (await take(service.core.pool, [Slots("loopback", 1, 30.0)])).messages
        await settle(
            service.core.pool, [Settlement(taken.message, taken.attempt_id, Verdict("delivered"))]
        )
    times = [
        row["at"].isoformat()
        for row in await admin.fetch(
            "select delivered_at as at from sink.outbox order by delivered_at"
        )
    ]
    chosen = {
        "destination": "loopback", "delivered_after": times[1], "delivered_before": times[2],
    }  # fmt: skip
    counted = await bulk(service, "resend", chosen, path="/v1/outbox/bulk", dry_run=True)
    assert counted.json == {"dry_run": True, "found": 1, "more": False}
    begun = await bulk(service, "resend", chosen, path="/v1/outbox/bulk")
    assert begun.json.items() >= {"verb": "resend", "filter": chosen}.items()
    await work_on_operations(service.core)
    assert (await service.get(begun.headers["Location"])).json["changed"] == 1
    (again,) = await take_resends(service.core.pool, [Slots("loopback", 9, 30.0)])
    assert again.taken.body == b'"lost"'


async def test_who_waits_for_work_is_told_of_what_was_redriven(service: Service) -> None:
    turn = await failed(service, "k1")
    await bulk(service, "redrive", ALL)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.claim(wait_seconds=20))
        while not service.core.wakes._waiting.get("queue/default"):  # noqa: SLF001
            if waiting.done():
                break
            await asyncio.sleep(0.005)
        await work_on_operations(service.core)
    (claimed,) = waiting.result().json["turns"]
    assert claimed["id"] == turn


async def test_a_running_operation_is_stopped_and_one_that_is_done_is_not(
    service: Service,
) -> None:
    turns = [await failed(service, f"k{n}") for n in range(3)]
    begun = (await bulk(service, "redrive", ALL)).json
    operation = parse_id(OPERATION_PREFIX, begun["id"])
    assert operation is not None
    await work_on(service.core.pool, operation, rows_max=1)
    for _ in range(2):
        answer = await service.call("POST", f"/v1/operations/{begun['id']}/cancel")
        assert (answer.status, answer.json["state"]) == (200, "cancelled")
        assert (answer.json["found"], answer.json["changed"]) == (1, 1)
    await work_on_operations(service.core)
    assert [await state(service, turn) for turn in turns] == ["queued", "failed", "failed"]
    begun = (await bulk(service, "cancel", ALL)).json
    await work_on_operations(service.core)
    answer = await service.call("POST", f"/v1/operations/{begun['id']}/cancel")
    assert (answer.status, answer.code) == (409, "not_cancellable")
    assert answer.json["operation_state"] == "done"


async def test_operations_are_listed_newest_first_in_pages(service: Service) -> None:
    ids = [(await bulk(service, "cancel", ALL)).json["id"] for _ in range(3)]
    listed: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = (await service.get(f"/v1/operations?limit=2{cursor}")).json
        listed += [one["id"] for one in answer["items"]]
        cursor = answer["next_cursor"] and f"&cursor={answer['next_cursor']}"
    assert listed == ids[::-1]


@pytest.mark.parametrize(
    ("path", "body", "code", "pointer"),
    [
        ("turns", {"filter": ALL}, "required", "/verb"),
        ("turns", {"verb": "redrive"}, "filter_missing", "/filter"),
        ("turns", {"verb": "redrive", "filter": {}}, "filter_missing", "/filter"),
        ("turns", {"verb": "redrive", "filter": {"all": False}}, "filter_missing", "/filter"),
        ("turns", {"verb": "redrive", "filter": {"state": None}}, "filter_missing", "/filter"),
        ("turns", {"verb": "redrive", "filter": []}, "wrong_type", "/filter"),
        ("turns", {"verb": "redrive", "filter": {"all": 1}}, "wrong_type", "/filter/all"),
        ("turns", {"verb": "resolve", "filter": ALL}, "verb_unknown", "/verb"),
        ("turns", {"verb": 1, "filter": ALL}, "wrong_type", "/verb"),
        ("turns", {"verb": "cancel", "filter": {"stat": "x"}}, "unknown_field", "/filter/stat"),
        ("turns", {"verb": "cancel", "filter": {"destination": "crm"}}, "unknown_field", "/filter/destination"),
        ("turns", {"verb": "cancel", "filter": {"state": "dead"}}, "state_unknown", "/filter/state"),
        ("turns", {"verb": "cancel", "filter": {"state": []}}, "wrong_type", "/filter/state"),
        ("turns", {"verb": "cancel", "filter": {"state": [1]}}, "wrong_type", "/filter/state"),
        ("turns", {"verb": "redrive", "filter": {"state": "queued"}}, "state_not_for_verb", "/filter/state"),
        ("turns", {"verb": "cancel", "filter": {"state": "replied"}}, "state_not_for_verb", "/filter/state"),
        ("turns", {"verb": "cancel", "filter": {"queue": "suport"}}, "queue_unknown", "/filter/queue"),
        ("turns", {"verb": "cancel", "filter": {"queue": ""}}, "name_invalid", "/filter/queue"),
        (
            "turns",
            {"verb": "cancel", "filter": {"conversation": "\x00"}},
            "conversation_invalid",
            "/filter/conversation",
        ),
        ("turns", {"verb": "cancel", "filter": {"reason": ""}}, "text_invalid", "/filter/reason"),
        ("turns", {"verb": "cancel", "filter": {"created_after": "today"}}, "time_invalid", "/filter/created_after"),
        (
            "turns",
            {"verb": "cancel", "filter": {"created_before": "2026-01-01T00:00:00"}},
            "time_zone_missing",
            "/filter/created_before",
        ),
        ("turns", {"verb": "cancel", "filter": ALL, "dry_run": "yes"}, "wrong_type", "/dry_run"),
        ("turns", {"verb": "cancel", "filter": ALL, "reason": ""}, "text_invalid", "/reason"),
        ("turns", {"verb": "cancel", "filter": ALL, "outcome": "delivered"}, "unknown_field", "/outcome"),
        ("turns", {"verb": "cancel", "filter": ALL, "force": True}, "unknown_field", "/force"),
        ("outbox", {"verb": "resolve", "filter": ALL}, "required", "/outcome"),
        ("outbox", {"verb": "resolve", "filter": ALL, "outcome": "dead"}, "state_unknown", "/outcome"),
        ("turns", {"verb": "resend", "filter": ALL}, "verb_unknown", "/verb"),
        ("outbox", {"verb": "resend", "filter": {"state": "dead"}}, "state_not_for_verb", "/filter/state"),
        ("outbox", {"verb": "resend", "filter": {"delivered_after": "no"}}, "time_invalid", "/filter/delivered_after"),
        (
            "outbox",
            {"verb": "redrive", "filter": {"delivered_before": "2026-01-01T00:00:00Z"}},
            "unknown_field",
            "/filter/delivered_before",
        ),
        ("outbox", {"verb": "redrive", "filter": {"conversation": "c"}}, "unknown_field", "/filter/conversation"),
        ("outbox", {"verb": "cancel", "filter": {"state": "delivered"}}, "state_not_for_verb", "/filter/state"),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_an_order_is_said_and_nothing_begins(
    service: Service, path: str, body: dict[str, Any], code: str, pointer: str
) -> None:
    answer = await service.post(f"/v1/{path}/bulk", body)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer
    assert (await service.get("/v1/operations")).json["items"] == []


async def test_a_queue_that_is_configured_no_more_can_still_be_named(
    service: Service, admin: "Admin"
) -> None:
    turn = await failed(service, "k1")
    for table in ("turn", "inbound", "event"):
        if table != "event":
            await admin.execute(f"update sink.{table} set queue = 'gone'")
    await admin.execute("update sink.idempotency_key set scope = 'queue/gone'")
    answer = await bulk(service, "cancel", {"queue": "gone"})
    assert answer.status == 202
    await work_on_operations(service.core)
    assert (await service.get(answer.headers["Location"])).json["changed"] == 1
    assert await state(service, turn) == "cancelled"


async def test_an_admin_of_one_queue_touches_and_sees_nothing_of_another(
    service: Service,
) -> None:
    pool = service.core.pool
    own = await create_key(pool, name="a", scopes=["admin"], queues=["support"])
    both = await create_key(pool, name="b", scopes=["admin"], queues=["support", "default"])
    foreign = await failed(service, "k1")
    mine = await failed(service, "k2", queue="support")
    everything = (await bulk(service, "cancel", {"state": "queued"})).json
    of_the_queue = (await bulk(service, "cancel", {"queue": "support", "state": "queued"})).json
    answer = await bulk(service, "redrive", {"queue": "default"}, scope=own)
    assert (answer.status, answer.code) == (422, "queue_unknown")
    answer = await bulk(service, "redrive", ALL, dry_run=True, scope=own)
    assert answer.json["found"] == 1
    begun = (await bulk(service, "redrive", ALL, scope=own)).json
    by_both = (await bulk(service, "cancel", {"state": "queued"}, scope=both)).json
    for operation in (everything, by_both):
        for method, path in (("GET", ""), ("POST", "/cancel")):
            answer = await service.call(
                method, f"/v1/operations/{operation['id']}{path}", scope=own
            )
            assert (answer.status, answer.code) == (404, "not_found")
    listed = (await service.get("/v1/operations", scope=own)).json["items"]
    assert [one["id"] for one in listed] == [begun["id"], of_the_queue["id"]]
    for operation in (everything, by_both, of_the_queue):
        await service.call("POST", f"/v1/operations/{operation['id']}/cancel")
    await work_on_operations(service.core)
    assert (await service.get(f"/v1/operations/{begun['id']}", scope=own)).json["changed"] == 1
    assert await state(service, mine) == "queued"
    assert await state(service, foreign) == "failed"


async def test_who_may_do_what(service: Service) -> None:
    begun = (await bulk(service, "cancel", ALL)).json
    path = f"/v1/operations/{begun['id']}"
    for scope in ("accept", "agent", "approve", "read"):
        answer = await bulk(service, "cancel", ALL, scope=scope)
        assert (answer.status, answer.code) == (403, "scope_missing")
        answer = await service.call("POST", f"{path}/cancel", scope=scope)
        assert (answer.status, answer.code) == (403, "scope_missing")
        wanted = 200 if scope == "read" else 403
        for get in (path, "/v1/operations"):
            assert (await service.get(get, scope=scope)).status == wanted
    for method, wrong in (("GET", NOBODYS), ("GET", "/v1/operations/x"), ("POST", NOBODYS)):
        answer = await service.call(method, wrong + ("/cancel" if method == "POST" else ""))
        assert (answer.status, answer.code) == (404, "not_found")
