"""A batch of inbound: each item is judged as a call of its own would be, and its order is the order of its lanes."""

import base64
from typing import TYPE_CHECKING, Any

import pytest

from app.settings import Queue
from tests.api.conftest import Answer, Service, opened
from tests.database import Server

if TYPE_CHECKING:
    from tests.database import Admin

PATH = "/v1/inbound/batch"


def item(key: str, **fields: Any) -> dict[str, Any]:
    return {"idempotency_key": key, "payload": {"n": key}, **fields}


async def batch(service: Service, *items: object, scope: str = "accept") -> list[dict[str, Any]]:
    answer = await service.post(PATH, {"items": items}, scope=scope)
    assert answer.status == 200
    results: list[dict[str, Any]] = answer.json["results"]
    assert len(results) == len(items)
    return results


async def alone(service: Service, key: str | None, **fields: Any) -> Answer:
    """The same as a call of its own."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return await service.call("POST", "/v1/inbound", json_body=fields, headers=headers)


async def test_each_item_gets_the_answer_that_it_would_get_alone(service: Service) -> None:
    results = await batch(service, item("a"), item("b"))
    for result in results:
        assert result["status"] == 202
        assert (result["state"], result["duplicate"]) == ("queued", False)
    again = await batch(service, item("b"), item("c"))
    assert (again[0]["status"], again[0]["duplicate"]) == (200, True)
    assert again[0]["turn"] == results[1]["turn"]
    assert again[1]["status"] == 202
    single = await alone(service, "a", payload={"n": "a"})
    assert {"status": 200, **single.json} == {**results[0], "status": 200, "duplicate": True}


async def test_the_order_of_the_array_is_the_order_of_the_lane(service: Service) -> None:
    results = await batch(service, *(item(f"k{n}", conversation="c") for n in range(10)))
    assert [one["state"] for one in results] == ["queued", *["waiting"] * 9]
    for result in results:
        (turn,) = (await service.claim()).json["turns"]
        assert turn["id"] == result["turn"]
        await service.seal(turn, [])


async def test_the_same_key_twice_is_a_duplicate_of_the_first(service: Service) -> None:
    first, second, third = await batch(
        service, item("a"), item("a"), item("a", payload={"n": "other"})
    )
    assert (first["status"], second["status"], third["status"]) == (202, 200, 422)
    assert second["turn"] == first["turn"]
    assert (third["code"], third["id"]) == ("idempotency_key_reused", first["id"])


async def test_payloads_are_kept_byte_for_byte(service: Service) -> None:
    spelled = b'{"b": 1.0,\n "a": [1e2,  "\\u00e9"]}'
    body = (
        b'{ "items" : [ {"payload": %b , "idempotency_key":"a"}, {"idempotency_key": "b",' % spelled
    )
    body += b'"payload_base64":"/w==","content_type":"image/png"}]}'
    answer = await service.call("POST", PATH, body=body)
    assert [one["status"] for one in answer.json["results"]] == [202, 202]
    kept = await service.get(f"/v1/inbound/{answer.json['results'][0]['id']}/payload")
    assert kept.body == spelled
    kept = await service.get(f"/v1/inbound/{answer.json['results'][1]['id']}/payload")
    assert (kept.body, kept.headers["Content-Type"]) == (b"\xff", "image/png")
    again = await alone(service, "a", payload=None)
    assert again.status == 422
    same = b'{"payload": %b}' % spelled
    again = await service.call("POST", "/v1/inbound", body=same, headers={"Idempotency-Key": "a"})
    assert (again.status, again.json["duplicate"]) == (200, True)


FAR = "2999-01-01T00:00:00Z"
WRONG: list[tuple[str | None, dict[str, Any]]] = [
    (None, {"payload": 1}),
    ("a b", {"payload": 1}),
    ("ok", {}),
    ("ok", {"payload": 1, "hold": True}),
    ("ok", {"payload": 1, "queue": "no-such-queue"}),
    ("ok", {"payload": 1, "priority": 101, "conversation": ""}),
    ("ok", {"payload": 1, "not_before": FAR}),
    ("ok", {"payload": 1, "delay_seconds": -1}),
    ("ok", {"payload": 1, "metadata": {"m": "x" * 300}}),
    ("ok", {"payload_base64": "!", "content_type": "image/png"}),
]


@pytest.mark.parametrize(("key", "fields"), WRONG, ids=[str(n) for n in range(len(WRONG))])
async def test_what_is_wrong_with_one_is_told_of_it_alone_and_in_the_same_words(
    service: Service, key: str | None, fields: dict[str, Any]
) -> None:
    wrong = {**({} if key is None else {"idempotency_key": key}), **fields}
    first, refused, last = await batch(
        service, item("first", conversation="c"), wrong, item("last", conversation="c")
    )
    assert (first["status"], first["state"]) == (202, "queued")
    assert (last["status"], last["state"]) == (202, "waiting")
    single = await alone(service, key, **fields)
    assert refused["status"] == single.status
    assert refused["code"] == single.code
    told = {(one["pointer"], one["code"]) for one in single.json.get("errors", ())}
    # Where the header was wrong alone, the item's own field is here.
    told = {(pointer or "/idempotency_key", code) for pointer, code in told}
    assert {(one["pointer"], one["code"]) for one in refused.get("errors", ())} == {
        (f"/items/1{pointer}", code) for pointer, code in told
    }


@pytest.mark.parametrize("key", ["", "ü", "\x00", "\ud800", "?\udfff", "x" * 256, 5, ["k"]])
async def test_an_item_whose_key_no_header_could_hold_fails_alone(
    service: Service, key: object
) -> None:
    first, refused = await batch(service, item("a"), {"idempotency_key": key, "payload": 1})
    assert first["status"] == 202
    assert (refused["status"], refused["code"]) == (422, "idempotency_key_invalid")


@pytest.mark.parametrize("other", [1, None, [], "x"])
async def test_an_item_that_is_no_object_fails_alone(service: Service, other: object) -> None:
    first, refused = await batch(service, item("a"), other)
    assert first["status"] == 202
    assert (refused["status"], refused["code"]) == (422, "wrong_type")


async def test_a_payload_over_the_limit_of_one_fails_alone(service: Service) -> None:
    limit = service.core.settings.limits.body_bytes_max
    large = {"payload_base64": base64.b64encode(b"x" * limit).decode(), "content_type": "a/b"}
    first, refused, last = await batch(
        service,
        item("a"),
        {"idempotency_key": "b", **large},
        item("c", payload="x" * (limit - 10)),
    )
    assert (first["status"], last["status"]) == (202, 202)
    assert (refused["status"], refused["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{}", 422, "required"),
        (b'{"items": null}', 422, "required"),
        (b'{"items": {}}', 422, "wrong_type"),
        (b'{"items": [], "dry_run": true}', 422, "unknown_field"),
        (b'{"items": [', 422, "json_invalid"),
        (b"[]", 422, "wrong_type"),
        (b'{"items": [%b]}' % b",".join([b"{}"] * 101), 422, "too_many"),
    ],
)
async def test_a_request_that_is_no_batch_is_refused_as_a_whole(
    service: Service, body: bytes, status: int, code: str
) -> None:
    answer = await service.call("POST", PATH, body=body)
    assert (answer.status, answer.code) == (status, code)


async def test_a_batch_of_nothing_has_no_results(service: Service) -> None:
    assert await batch(service) == []


async def test_a_batch_is_bounded_as_a_whole(service: Service) -> None:
    limit = service.core.settings.limits.batch_bytes_max
    answer = await service.call("POST", PATH, body=b" " * (limit + 1))
    assert (answer.status, answer.code) == (413, "body_too_large")


async def test_only_who_may_accept_sends_batches_and_only_to_its_queues(service: Service) -> None:
    for scope in ("agent", "read", "approve"):
        answer = await service.post(PATH, {"items": [item("a")]}, scope=scope)
        assert (answer.status, answer.code) == (403, "scope_missing")
    foreign, own = await batch(service, item("a"), item("a", queue="support"), scope="support")
    assert (foreign["status"], foreign["code"]) == (422, "queue_unknown")
    assert own["status"] == 202


async def test_short_messages_join_and_keep_their_order_beside_others(service: Service) -> None:
    results = await batch(
        service,
        item("a", queue="chatty", conversation="c"),
        item("b", queue="default"),
        item("c", queue="chatty", conversation="c"),
    )
    assert [one["status"] for one in results] == [202, 202, 202]
    assert results[0]["turn"] == results[2]["turn"]
    inbound = (await service.get("/v1/turns?queue=chatty&conversation=c")).json["items"]
    assert len(inbound) == 1


async def test_a_full_queue_takes_what_it_has_room_for_and_answers_what_it_knows(
    postgres: Server,
) -> None:
    async with (
        postgres.database() as url,
        opened(url, queues={"default": Queue(length_max=3), "support": Queue()}) as service,
    ):
        await service.accept("known")
        results = await batch(
            service,
            *(item(f"k{n}") for n in range(3)),
            item("known", payload={"n": 1}),
            item("other", queue="support"),
        )
    assert [one["status"] for one in results] == [202, 202, 503, 200, 202]
    assert results[2]["code"] == "queue_full"
    assert results[2]["retry_after_seconds"] >= 1


async def test_what_comes_twice_takes_room_once(postgres: Server) -> None:
    async with (
        postgres.database() as url,
        opened(url, queues={"default": Queue(length_max=2)}) as service,
    ):
        keys = ("a", "a", "b", "a", "c", "c")
        results = await batch(service, *map(item, keys))
    assert [one["status"] for one in results] == [202, 200, 202, 200, 503, 503]


async def test_what_somebody_holds_is_told_of_those_who_need_it(
    service: Service, admin: "Admin", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.batches.LOCK_WAIT_MS", 50)
    monkeypatch.setattr("app.engine.transaction.RETRY_SECONDS_MAX", 0.0)
    await service.accept("a", conversation="held")
    async with admin.transaction():
        await admin.execute("select from sink.lane where conversation = 'held' for no key update")
        free, held, later = await batch(
            service, item("b", conversation="free"), item("c", conversation="held"), item("d")
        )
    assert (free["status"], later["status"]) == (202, 202)
    assert (held["status"], held["code"]) == (503, "database_unavailable")
    assert held["retry_after_seconds"] >= 1
    (again,) = await batch(service, item("c", conversation="held"))
    assert (again["status"], again["duplicate"]) == (202, False)
