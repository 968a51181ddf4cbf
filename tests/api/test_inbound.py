import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.conftest import Service

if TYPE_CHECKING:
    from tests.database import Admin

ROUND_TRIPS = [
    b'{"b":1,"a":2,"b":3}',
    b'{ "spaced" :  [ 1 , 2 ]  }',
    b"[653247040368672768,9223372036854775807,12345678901234567890123]",
    '"\\ud83c\\udf78 and \U0001f378"'.encode(),
    b'"nul \\u0000 inside"',
    b"-0.0",
    b'""',
    b"true",
]
# JSON that not every reader takes: it must spoil no answer.
UNREADABLE = [b'"lone \\ud83d half"', b"[" * 100 + b"]" * 100, b"1" * 400]


async def test_a_new_inbound_is_202_with_its_handle_and_a_location(service: Service) -> None:
    answer = await service.accept("k1")
    assert answer.status == 202
    handle = answer.json
    assert handle["id"].startswith("in_")
    assert handle["turn"].startswith("turn_")
    assert handle["state"] == "queued"
    assert handle["duplicate"] is False
    assert handle["key_expires_at"].endswith("Z")
    assert answer.headers["Location"] == f"/v1/inbound/{handle['id']}"
    assert "Idempotency-Replayed" not in answer.headers
    assert answer.headers["Cache-Control"] == "no-store"


async def test_the_same_key_and_body_is_200_with_the_same_ids_and_the_current_state(
    service: Service,
) -> None:
    first = (await service.accept("k1")).json
    await service.claim()
    again = await service.accept("k1")
    assert again.status == 200
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Location"] == f"/v1/inbound/{first['id']}"
    assert again.json == {**first, "duplicate": True, "state": "processing"}


async def test_the_same_key_with_another_body_is_422_with_the_ids_of_the_first(
    service: Service,
) -> None:
    first = (await service.accept("k1")).json
    other = await service.accept("k1", payload={"n": 2})
    assert other.status == 422
    assert other.code == "idempotency_key_reused"
    assert (other.json["id"], other.json["turn"]) == (first["id"], first["turn"])


@pytest.mark.parametrize(
    "change",
    [
        {"payload": {"n": 2}},
        {"conversation": "c2"},
        {"priority": 1},
        {"delay_seconds": 0},
        {"not_before": "2020-01-01T00:00:00Z"},
        {"metadata": {"a": 2}},
        {"content_type": "application/x+json"},
    ],
)
async def test_everything_that_a_key_stands_for_makes_another_body(
    service: Service, change: dict[str, Any]
) -> None:
    base: dict[str, Any] = {"conversation": "c1", "metadata": {"a": 1, "b": 2}}
    assert (await service.accept("k1", **base)).status == 202
    assert (await service.accept("k1", **base)).status == 200
    assert (await service.accept("k1", **{**base, **change})).code == "idempotency_key_reused"


async def test_spacing_of_the_envelope_and_order_of_metadata_make_the_same_body(
    service: Service,
) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = b'{"payload":[1, 2],"metadata":{"a":1,"b":{"c":1,"d":2}}}'
    again = b' { "metadata" : {"b":{"d":2,"c":1}, "a":1}, "queue": null, "payload" : [1, 2] } '
    other = b'{"payload":[1,2],"metadata":{"a":1,"b":{"c":1,"d":2}}}'
    statuses = [
        (await service.call("POST", "/v1/inbound", body=body, headers=headers)).status
        for body in (first, again, other)
    ]
    assert statuses == [202, 200, 422]


async def test_a_key_belongs_to_its_queue(service: Service) -> None:
    first = await service.accept("k1")
    other = await service.accept("k1", queue="support")
    assert (first.status, other.status) == (202, 202)
    assert first.json["id"] != other.json["id"]


async def test_parallel_twins_get_one_inbound(service: Service) -> None:
    async with asyncio.TaskGroup() as group:
        twins = [group.create_task(service.accept("k1")) for _ in range(20)]
    answers = [twin.result() for twin in twins]
    assert sorted(answer.status for answer in answers) == [200] * 19 + [202]
    assert len({answer.json["id"] for answer in answers}) == 1


async def test_without_a_key_it_is_400(service: Service) -> None:
    answer = await service.post("/v1/inbound", {"payload": 1})
    assert (answer.status, answer.code) == (400, "idempotency_key_missing")


@pytest.mark.parametrize("key", ["", " ", "a b", "ü", "k" * 256, "a\tb"])
async def test_a_key_that_is_none_is_422(service: Service, key: str) -> None:
    answer = await service.accept(key)
    assert (answer.status, answer.code) == (422, "idempotency_key_invalid")


async def test_a_key_sent_twice_is_422(service: Service) -> None:
    body = b'{"payload":1}'
    head = (
        f"POST /v1/inbound HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.keys['admin']}\r\n"
        f"Idempotency-Key: a\r\nIdempotency-Key: a\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(head.encode() + body)
    assert b" 422 " in await reader.readline()
    writer.close()


async def test_visible_characters_of_every_kind_make_a_key(service: Service) -> None:
    key = "".join(chr(n) for n in range(33, 127))
    assert (await service.accept(key)).status == 202
    assert (await service.accept("k" * 255)).status == 202


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"payload": None}, "/payload", "payload_missing"),
        ({"payload": 1, "payload_base64": "YQ=="}, "/payload", "payload_ambiguous"),
        ({"payload": None, "payload_base64": "YQ=="}, "/content_type", "content_type_missing"),
        (
            {"payload": None, "payload_base64": "Y", "content_type": "a/b"},
            "/payload_base64",
            "base64_invalid",
        ),
        (
            {"payload": None, "payload_base64": "Y\u00e9==", "content_type": "a/b"},
            "/payload_base64",
            "base64_invalid",
        ),
        (
            {"payload": None, "payload_base64": 5, "content_type": "a/b"},
            "/payload_base64",
            "wrong_type",
        ),
        ({"content_type": "text/plain"}, "/content_type", "content_type_invalid"),
        ({"content_type": "application/json\r\nX: y"}, "/content_type", "content_type_invalid"),
        ({"content_type": "json"}, "/content_type", "content_type_invalid"),
        ({"queue": "nope"}, "/queue", "queue_unknown"),
        ({"queue": "\u0000"}, "/queue", "queue_unknown"),
        ({"queue": "\ud800"}, "/queue", "queue_unknown"),
        ({"queue": 5}, "/queue", "wrong_type"),
        ({"conversation": ""}, "/conversation", "conversation_invalid"),
        ({"conversation": "a\u0000"}, "/conversation", "conversation_invalid"),
        ({"conversation": "a\n"}, "/conversation", "conversation_invalid"),
        ({"conversation": "\ud83d"}, "/conversation", "conversation_invalid"),
        ({"conversation": "é" * 128}, "/conversation", "conversation_invalid"),
        ({"conversation": []}, "/conversation", "wrong_type"),
        ({"priority": True}, "/priority", "wrong_type"),
        ({"priority": 1.0}, "/priority", "wrong_type"),
        ({"priority": 101}, "/priority", "out_of_range"),
        ({"priority": -101}, "/priority", "out_of_range"),
        ({"delay_seconds": -1}, "/delay_seconds", "out_of_range"),
        ({"delay_seconds": 31_536_001}, "/delay_seconds", "out_of_range"),
        ({"delay_seconds": True}, "/delay_seconds", "wrong_type"),
        ({"delay_seconds": "1"}, "/delay_seconds", "wrong_type"),
        (
            {"delay_seconds": 1, "not_before": "2030-01-01T00:00:00Z"},
            "/not_before",
            "delay_ambiguous",
        ),
        ({"not_before": "2030-01-01T00:00:00"}, "/not_before", "time_zone_missing"),
        ({"not_before": "2030-02-30T00:00:00Z"}, "/not_before", "time_invalid"),
        ({"not_before": "tomorrow"}, "/not_before", "time_invalid"),
        ({"not_before": "9999-12-31T23:59:59-14:00"}, "/not_before", "time_invalid"),
        ({"not_before": 5}, "/not_before", "wrong_type"),
        ({"metadata": []}, "/metadata", "wrong_type"),
        ({"metadata": {"a": "x" * 256}}, "/metadata", "metadata_too_large"),
        ({"metadata": {"a": "\ud83d"}}, "/metadata", "metadata_invalid"),
        ({"holdd": 1}, "/holdd", "unknown_field"),
        ({"a/b~c": 1}, "/a~1b~0c", "unknown_field"),
    ],
)
async def test_what_is_wrong_is_named_with_its_place(
    service: Service, fields: dict[str, Any], pointer: str, code: str
) -> None:
    answer = await service.accept("k1", **fields)
    assert answer.status == 422
    assert answer.code == code
    assert [(one["pointer"], one["code"]) for one in answer.json["errors"]] == [(pointer, code)]
    assert (await service.claim()).json == {"turns": []}


async def test_several_problems_are_told_at_once(service: Service) -> None:
    answer = await service.accept("k1", queue="nope", priority=1000, payload=None)
    assert answer.code == "invalid_content"
    assert {one["code"] for one in answer.json["errors"]} == {
        "queue_unknown",
        "out_of_range",
        "payload_missing",
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"payload":1,"priority":NaN}', "json_invalid"),
        (b'{"payload":1,"priority":' + b"9" * 5000 + b"}", "number_too_large"),
        (b'{"payload":1,"delay_seconds":1e400}', "number_too_large"),
        (b'{"payload":1,"payload":2}', "unknown_field"),
        (b'{"payload":1,"metadata":{"a":1,"a":2}}', "unknown_field"),
    ],
)
async def test_numbers_and_names_that_nobody_agrees_on_are_422(
    service: Service, text: bytes, code: str
) -> None:
    headers = {"Idempotency-Key": "k1"}
    answer = await service.call("POST", "/v1/inbound", body=text, headers=headers)
    assert (answer.status, answer.code) == (422, code)


async def test_a_negative_zero_is_zero(service: Service) -> None:
    headers = {"Idempotency-Key": "k1"}
    body = b'{"payload":1,"priority":-0,"delay_seconds":-0.0}'
    answer = await service.call("POST", "/v1/inbound", body=body, headers=headers)
    assert (answer.status, answer.json["state"]) == (202, "queued")


async def test_what_is_not_due_is_scheduled_and_what_has_its_lane_taken_waits(
    service: Service, admin: "Admin"
) -> None:
    tomorrow = await admin.fetchval("select sink.now() + interval '1 day'")
    later = await service.accept("k1", not_before=tomorrow.isoformat())
    soon = await service.accept("k2", delay_seconds=60)
    head = await service.accept("k3", conversation="c")
    behind = await service.accept("k4", conversation="c")
    states = [answer.json["state"] for answer in (later, soon, head, behind)]
    assert states == ["scheduled", "scheduled", "queued", "waiting"]


@pytest.mark.parametrize("payload", [*ROUND_TRIPS, *UNREADABLE])
async def test_a_payload_comes_back_byte_for_byte(service: Service, payload: bytes) -> None:
    body = b'{"metadata": {"z": 1,  "a": 2}, "payload":  %b  }' % payload
    headers = {"Idempotency-Key": "k1"}
    accepted = (await service.call("POST", "/v1/inbound", body=body, headers=headers)).json
    claim = await service.claim()
    (inbound,) = claim.json["turns"][0]["inbound"]
    shown = await service.get(f"/v1/inbound/{accepted['id']}")
    for answer, one in ((claim, inbound), (shown, shown.json)):
        assert ("payload" in one) == (payload in ROUND_TRIPS)
        if "payload" in one:
            assert b'"payload":' + payload in answer.body
        else:
            assert base64.b64decode(one["payload_base64"]) == payload
        assert b'"metadata":{"z": 1,  "a": 2}' in answer.body
    raw = await service.get(f"/v1/inbound/{accepted['id']}/payload")
    assert raw.body == payload


async def test_bytes_that_are_no_json_come_back_in_base64_and_raw(service: Service) -> None:
    sent = bytes(range(256))
    encoded = base64.b64encode(sent).decode()
    fields: dict[str, Any] = {
        "payload": None,
        "payload_base64": encoded,
        "content_type": "image/x; a=b",
    }
    accepted = (await service.accept("k1", **fields)).json
    shown = (await service.get(f"/v1/inbound/{accepted['id']}")).json
    assert (shown["payload_base64"], shown["content_type"]) == (encoded, "image/x; a=b")
    raw = await service.get(f"/v1/inbound/{accepted['id']}/payload")
    assert raw.body == sent
    assert raw.headers["Content-Type"] == "image/x; a=b"
    assert raw.headers["Content-Disposition"].startswith("attachment")
    assert raw.headers["X-Content-Type-Options"] == "nosniff"


async def test_text_that_could_be_json_stays_text(service: Service) -> None:
    encoded = base64.b64encode(b"123").decode()
    fields: dict[str, Any] = {
        "payload": None,
        "payload_base64": encoded,
        "content_type": "text/plain",
    }
    accepted = (await service.accept("k1", **fields)).json
    assert (await service.get(f"/v1/inbound/{accepted['id']}")).json["payload_base64"] == encoded


async def test_an_inbound_shows_itself_and_its_turn(service: Service) -> None:
    accepted = (await service.accept("k1", conversation="c", metadata={"m": 1})).json
    shown = (await service.get(f"/v1/inbound/{accepted['id']}")).json
    assert set(shown) == {
        "id", "turn", "source", "received_at", "content_type", "headers", "metadata", "view", "payload",
        "queue", "conversation", "state", "reason", "attempt", "created_at", "due_at", "hold",
        "wait", "payload_hash", "about", "root", "depth", "messages", "follow_ups", "seals",
    }  # fmt: skip
    assert (shown["id"], shown["turn"]) == (accepted["id"], accepted["turn"])
    assert (shown["source"], shown["queue"], shown["conversation"]) == ("api", "default", "c")
    assert json.dumps(shown["metadata"]) == '{"m": 1}'


@pytest.mark.parametrize("path", ["in_x", "in_" + "0" * 26, "turn_" + "0" * 26, "%00", "in_%ff"])
async def test_an_id_that_is_none_is_404(service: Service, path: str) -> None:
    for under in ("inbound", "turns", "outbox"):
        answer = await service.get(f"/v1/{under}/{path}")
        assert (answer.status, answer.code) == (404, "not_found")
