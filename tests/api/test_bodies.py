import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import AsyncIterator
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.conftest import Service

# Bodies that have broken readers of JSON, or the databases behind them.
HOSTILE: Final = {
    "empty": b"",
    "space": b" \n ",
    "no json": b"hello",
    "cut": b'{"payload": [1, 2',
    "text behind": b'{"payload":1} x',
    "two values": b'{"payload":1}{"payload":1}',
    "a list": b"[]",
    "a string": b'"x"',
    "null": b"null",
    "a number": b"1",
    "invalid utf-8": b'{"payload":"\xff\xfe"}',
    "surrogates as utf-8": b'{"payload":"\xed\xa0\xbd"}',
    "utf-16": '{"payload":1}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "raw nul": b'{"payload":"\x00"}',
    "brackets": b"[" * 30_000,
    "nested": b'{"payload":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "nested objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "digits": b'{"messages":' + b"9" * 5000 + b"}",
    "digits everywhere": b'{"lease_token":' + b"9" * 5000 + b"}",
    "exponent": b'{"delay_seconds":1e999999}',
    "nan": b'{"delay_seconds":NaN}',
    "infinity": b'{"wait_seconds":-Infinity}',
    "twice": b'{"queue":"a","queue":"b"}',
    "unknown": b'{"":1}',
    "odd name": b'{"\\ud800":1,"\\u0000":2,"~/":3}',
    "wrong types": b'{"queue":{},"agent":[],"lease_token":{},"messages":"x","reason":1.5}',
    "deep messages": b'{"lease_token":"x","messages":[[[[[[{}]]]]]]}',
    "many messages": b'{"lease_token":"x","messages":[' + b"{}," * 5000 + b"{}]}",
    "null fields": b'{"queue":null,"agent":null,"lease_token":null,"messages":null,"reason":null}',
}


def json_calls() -> list[str]:
    turn = "turn_" + "0" * 26
    paths = ["/v1/inbound", "/v1/turns/claim"]
    return paths + [f"/v1/turns/{turn}/{verb}" for verb in ("renew", "release", "seal")]


async def post(service: Service, path: str, body: bytes, **headers: str) -> tuple[int, str]:
    sent = {"Idempotency-Key": "k"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    answer = await service.call("POST", path, body=body, headers=sent)
    return answer.status, answer.json.get("code", "")


@pytest.mark.parametrize("path", json_calls())
async def test_hostile_bodies_are_refused_with_a_code(
    service: Service, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name, body in HOSTILE.items():
        status, code = await post(service, path, body)
        assert 400 <= status < 500, (path, name, status, code)
        assert code, (path, name)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x"])
async def test_encoded_bodies_are_415_before_they_are_read(service: Service, encoding: str) -> None:
    bombs = {"gzip": gzip.compress(b" " * 1_000_000), "deflate": zlib.compress(b" " * 1_000_000)}
    body = bombs.get(encoding, b"\x28\xb5\x2f\xfd")
    for path in json_calls():
        answer = await post(service, path, body, Content_Encoding=encoding)
        assert answer == (415, "content_encoding_unsupported")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 202),
        ("application/json; charset=utf-8", 202),
        ('application/json; charset="UTF-8"', 202),
        ("application/cloudevents+json", 202),
        ("application/json; charset=utf-16", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/x+json", 415),
        ("", 415),
    ],
)
async def test_a_body_says_that_it_is_json(
    service: Service, content_type: str, status: int
) -> None:
    body = b'{"payload":1}'
    assert (await post(service, "/v1/inbound", body, Content_Type=content_type))[0] == status


async def test_identity_is_no_encoding_and_no_type_is_taken_for_json(service: Service) -> None:
    body = b'{"payload":1}'
    assert (await post(service, "/v1/inbound", body, Content_Encoding="identity"))[0] == 202
    head = (
        f"POST /v1/inbound HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.keys['admin']}\r\n"
        f"Idempotency-Key: k2\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    assert b" 202 " in await status_line(service, head.encode() + body)


async def status_line(service: Service, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        writer.write(sent)
        async with asyncio.timeout(10):
            return await reader.readline()
    finally:
        writer.close()


def head_of(service: Service, path: str, *lines: str) -> bytes:
    head = [
        f"POST {path} HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {service.keys['admin']}",
        "Idempotency-Key: k",
        "Content-Type: application/json",
        *lines,
    ]
    return "\r\n".join([*head, "", ""]).encode()


async def test_a_length_over_the_limit_is_413_before_a_byte_is_read(service: Service) -> None:
    for length in ("65537", "10" * 8, "9" * 18):
        head = head_of(service, "/v1/inbound", f"Content-Length: {length}")
        assert b" 413 " in await status_line(service, head)


async def test_a_body_over_the_limit_is_413_however_it_is_sent(service: Service) -> None:
    big = b'{"payload":"' + b"x" * 300_000 + b'"}'
    assert await post(service, "/v1/inbound", big) == (413, "body_too_large")

    async def chunks() -> AsyncIterator[bytes]:
        for n in range(0, len(big), 10_000):
            yield big[n : n + 10_000]

    headers = {**service.bearer("admin"), "Idempotency-Key": "k"}
    url = service.url + "/v1/inbound"
    async with service.http.post(url, data=chunks(), headers=headers) as answer:
        assert answer.status in (413, 415)
    headers["Content-Type"] = "application/json"
    async with service.http.post(url, data=chunks(), headers=headers) as answer:
        assert answer.status == 413
        assert (await answer.json(content_type=None))["code"] == "body_too_large"
        assert answer.headers["Connection"] == "close"
    assert (await service.accept("k")).status == 202


async def test_a_body_of_exactly_the_limit_is_taken(service: Service) -> None:
    frame = b'{"payload":""}'
    body = b'{"payload":"' + b"x" * ((64 << 10) - len(frame)) + b'"}'
    assert (await post(service, "/v1/inbound", body))[0] == 202
    assert (await post(service, "/v1/inbound", body + b" "))[0] == 413


async def test_a_body_that_drips_is_408(service: Service) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(head_of(service, "/v1/inbound", "Content-Length: 1000"))
    line = b""
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        reading = group.create_task(reader.readline())
        while not reading.done():
            writer.write(b" ")
            await asyncio.sleep(0.1)
        line = reading.result()
    assert b" 408 " in line
    writer.close()


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    for path in json_calls():
        _, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(head_of(service, path, "Content-Length: 100") + b'{"payload":')
        await writer.drain()
        writer.transport.abort()
    async with asyncio.timeout(5):
        while b'status="499"' not in (await service.get("/metrics")).body:
            await asyncio.sleep(0.01)
    assert (await service.claim()).json == {"turns": []}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_both_framings_at_once_are_refused(service: Service) -> None:
    head = head_of(service, "/v1/inbound", "Content-Length: 13", "Transfer-Encoding: chunked")
    assert b" 400 " in await status_line(service, head + b"0\r\n\r\n")


TEXTS = st.text(st.characters(codec=None), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    [
        "queue", "conversation", "payload", "payload_base64", "content_type", "delay_seconds",
        "not_before", "priority", "metadata", "lease_token", "messages", "hold", "order",
        "follow_ups", "reason", "failed", "final", "usage", "agent", "max_turns",
        "lease_seconds", "request_id", "code_version", "destination", "to", "headers",
    ]
)  # fmt: skip
OBJECTS = st.dictionaries(NAMES | TEXTS, VALUES, max_size=6)
MESSAGES = st.lists(OBJECTS | VALUES, max_size=3)


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    path=st.sampled_from([*json_calls(), "seal"]),
    fields=OBJECTS,
    messages=MESSAGES,
)
async def test_no_json_whatever_makes_a_500(
    service: Service, path: str, fields: dict[str, object], messages: list[object]
) -> None:
    if path == "seal":
        turns = (await service.claim()).json["turns"]
        if not turns:
            await service.accept("k" + str(id(fields)))
            turns = (await service.claim()).json["turns"]
        path = f"/v1/turns/{turns[0]['id']}/seal" if turns else "/v1/inbound"
        token = turns[0]["lease_token"] if turns else ""
        fields = {**fields, "lease_token": token, "messages": messages}
    status, code = await post(service, path, json.dumps(fields).encode())
    assert status < 500, code
    assert status < 400 or code
