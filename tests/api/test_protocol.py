"""What the server takes from a socket before there is a request, and what becomes of everything else."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from app.core import Draining
from app.service.listening import allow_files
from app.settings import Server
from tests.api.conftest import Service, serving

if TYPE_CHECKING:
    from tests.database import Admin

REQUEST: Final = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
ALIVE: Final = b"alive\n"
LEFT_SECONDS_MAX: Final = 10.0
FILES: Final = 2000


@contextlib.asynccontextmanager
async def connected(
    service: Service,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    # Small, so that what was sent is about what was read.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    try:
        async with asyncio.timeout(LEFT_SECONDS_MAX):
            yield reader, writer
    finally:
        writer.transport.abort()


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """Everything until the connection ends; that it was reset is an end as well."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65536):
            received += chunk
    return received


async def exchange(service: Service, *sent: bytes) -> bytes:
    """Send the parts, and read until the server closes."""
    async with connected(service) as (reader, writer), asyncio.TaskGroup() as group:
        reading = group.create_task(all_of(reader))
        with contextlib.suppress(ConnectionError):
            for part in sent:
                writer.write(part)
                await writer.drain()
        return await reading


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Send as long as anybody takes it; returns what was answered."""
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(all_of(reader))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 4 << 20:
                writer.write(b"x" * 16_384)
                await writer.drain()
                sent += 16_384
                await asyncio.sleep(0.001)
    # Besides what the server reads, the buffers of the sockets take some.
    assert sent < 1 << 20
    return reading.result()


def problem_of(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), str(json.loads(body)["code"])


async def test_headers_without_an_end_are_431_and_the_connection_is_closed(
    service: Service,
) -> None:
    for start in (b"GET /", b"GET /livez HTTP/1.1\r\nX-Big: ", b"GET /livez HTTP/1.1\r\nX"):
        async with connected(service) as (reader, writer):
            writer.write(start)
            assert problem_of(await flood(reader, writer)) == (431, "headers_too_large")


async def test_headers_that_are_too_many_or_too_long_together_are_431(service: Service) -> None:
    start = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
    many = b"X:1\r\n" * 20_000
    assert problem_of(await exchange(service, start + many + b"\r\n")) == (431, "headers_too_large")
    for count, length, taken in ((99, 1, True), (100, 1, False), (9, 7000, True), (9, 7500, False)):
        lines = b"".join(b"X-%d: %b\r\n" % (n, b"x" * length) for n in range(count))
        answer = await exchange(service, start[:-9] + b"Connection: close\r\n" + lines + b"\r\n")
        assert (ALIVE in answer) is taken, (count, length)


async def test_a_target_over_the_limit_is_431(service: Service) -> None:
    target = b"/livez?" + b"x" * (70 << 10)
    request = b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    assert problem_of(await exchange(service, request)) == (431, "headers_too_large")


async def test_trailers_without_an_end_are_cut_off(service: Service) -> None:
    head = (
        f"POST /v1/inbound HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.keys['admin']}\r\n"
        "Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    async with connected(service) as (reader, writer):
        writer.write(head.encode() + b"0\r\nX-Big: ")
        assert problem_of(await flood(reader, writer)) == (431, "headers_too_large")


async def test_a_trailer_is_no_header(service: Service) -> None:
    body = b'{"payload":1}'
    head = (
        f"POST /v1/inbound HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.keys['admin']}\r\n"
        "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    sent = b"%x\r\n%b\r\n0\r\nIdempotency-Key: k\r\n\r\n" % (len(body), body)
    assert b"idempotency_key_missing" in await exchange(service, head.encode() + sent)


@pytest.mark.parametrize("sent", [b"G", b"GET /livez HTTP/1.1\r\n", REQUEST[:-2]])
async def test_a_request_that_is_sent_by_half_is_408(service: Service, sent: bytes) -> None:
    began = time.monotonic()
    answer = await exchange(service, sent)
    assert 0.9 < time.monotonic() - began < 4
    assert problem_of(answer) == (408, "request_timeout")


async def test_who_says_nothing_is_left(service: Service) -> None:
    assert await exchange(service) == b""


async def test_headers_that_drip_are_408(service: Service) -> None:
    for first in (b"", REQUEST):
        async with connected(service) as (reader, writer):
            writer.write(first + b"GET /livez HTTP/1.1\r\nX-Slow: ")
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(all_of(reader))
                while not reading.done():
                    with contextlib.suppress(ConnectionError):
                        writer.write(b"x")
                    await asyncio.sleep(0.05)
            answer = reading.result()
            assert answer.startswith(b"HTTP/1.1 200") is bool(first)
            assert problem_of(answer[answer.rindex(b"HTTP/1.1") :]) == (408, "request_timeout")


async def test_line_ends_do_not_keep_a_connection(service: Service) -> None:
    async with connected(service) as (reader, writer):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(all_of(reader))
            while not reading.done():
                with contextlib.suppress(ConnectionError):
                    writer.write(b"\r\n")
                await asyncio.sleep(0.05)
        assert reading.result() == b""


async def test_an_idle_connection_is_kept_between_requests(service: Service) -> None:
    async with connected(service) as (reader, writer):
        for _ in range(2):
            writer.write(REQUEST)
            assert ALIVE in await reader.readuntil(ALIVE)
            # Longer than headers may take.
            await asyncio.sleep(1.3)


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"X-Bare: 1\nContent-Length: 5\r\n",
        b"X-Folded: 1\r\n 2\r\nContent-Length: 5\r\n",
        b"X-Nul: \x00\r\nContent-Length: 5\r\n",
    ],
)
async def test_framing_that_others_may_read_otherwise_is_400_and_closes(
    service: Service, lines: bytes
) -> None:
    head = b"POST /v1/inbound HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n"
    answer = await exchange(service, head + b"0\r\n\r\n" + REQUEST)
    assert problem_of(answer) == (400, "bad_request")
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_two_requests_at_once_are_both_answered(service: Service) -> None:
    async with connected(service) as (reader, writer):
        writer.write(REQUEST * 2)
        for _ in range(2):
            assert (await reader.readuntil(ALIVE)).startswith(b"HTTP/1.1 200")


async def test_nonsense_behind_a_request_does_not_spoil_its_answer(service: Service) -> None:
    waiting = json.dumps({"queue": "default", "agent": "a", "wait_seconds": 2}).encode()
    head = (
        f"POST /v1/turns/claim HTTP/1.1\r\nHost: x\r\nContent-Length: {len(waiting)}\r\n"
        f"Authorization: Bearer {service.keys['admin']}\r\n\r\n"
    )
    for nonsense in (b"\x00\x00\r\n\r\n", b"GET /" + b"x" * (70 << 10)):
        answer = await exchange(service, head.encode() + waiting, nonsense)
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b'{"turns":[]}')
        assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_long_request_outlives_a_part_of_the_next(service: Service) -> None:
    waiting = json.dumps({"queue": "default", "agent": "a", "wait_seconds": 2.5}).encode()
    head = (
        f"POST /v1/turns/claim HTTP/1.1\r\nHost: x\r\nContent-Length: {len(waiting)}\r\n"
        f"Authorization: Bearer {service.keys['admin']}\r\n\r\n"
    )
    answer = await exchange(service, head.encode() + waiting, b"GET /")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b" 408 " in answer[answer.rindex(b"HTTP/1.1") :]


async def test_idle_sockets_do_not_stop_a_request(service: Service) -> None:
    # Both ends of each socket are files of this process, and an ordinary account begins with 1,024.
    allow_files(FILES)
    async with contextlib.AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(connected(service)) for _ in range(500)]
        for _, writer in idle[::2]:
            writer.write(b"GET /livez HTTP/1.1\r\nX-Slow: ")
        began = time.monotonic()
        assert (await service.get("/livez")).status == 200
        assert time.monotonic() - began < 1
        for reader, _ in idle:
            await all_of(reader)


async def test_too_many_connections_are_503_before_any_work(service: Service) -> None:
    settings = service.core.settings.model_copy(update={"server": Server(connections_max=5)})
    async with serving(replace(service.core, settings=settings, draining=Draining())) as small:
        small.keys = service.keys
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(5):
                await stack.enter_async_context(connected(small))
            for scope in ("admin", None):
                answer = await small.accept("k", scope=scope or "sks_nobody")
                assert (answer.status, answer.code) == (503, "overloaded")
                assert answer.headers["Retry-After"] == "1"
                assert answer.headers["Connection"] == "close"
            assert (await small.get("/livez", scope=None)).status == 200
            metrics = (await small.get("/metrics", scope=None)).body
            assert b'route="unknown",status="503"} 2.0' in metrics
        async with asyncio.timeout(5):
            while (await small.accept("k")).status != 202:
                await asyncio.sleep(0.01)


INBOUND: Final = b'{"payload": "GET /livez HTTP/1.1"}'


def upgrading(service: Service, body: bytes, *, chunked: bool = False) -> tuple[bytes, bytes]:
    """A POST that offers another protocol, as clients do by themselves: its head and its body."""
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    head = (
        b"POST /v1/inbound HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %b\r\nIdempotency-Key: k1\r\n%b\r\n\r\n"
    ) % (service.keys["accept"].encode(), framing)
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    return head, sent


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
async def test_an_offer_to_upgrade_is_ignored_and_its_body_is_a_body(
    service: Service, chunked: bool, at_once: bool
) -> None:
    head, body = upgrading(service, INBOUND, chunked=chunked)
    last = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    parts = [head + body + last] if at_once else [head, body, last]
    answer = await exchange(service, *parts)
    assert answer.startswith(b"HTTP/1.1 202")
    assert answer.count(b"HTTP/1.1 ") == 2
    assert answer.endswith(ALIVE)


async def test_a_request_in_the_body_of_an_offer_to_upgrade_is_never_one(service: Service) -> None:
    smuggled = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    head, _ = upgrading(service, smuggled)
    answer = await exchange(
        service, head, smuggled + REQUEST.replace(b"Host", b"Connection: close\r\nHost")
    )
    assert answer.count(ALIVE) == 1
    assert answer.startswith(b"HTTP/1.1 422")


@pytest.mark.parametrize("target", [b"/v1/inbound", b"example.com:443"])
async def test_an_offer_of_a_tunnel_is_answered_with_a_refusal(
    service: Service, target: bytes
) -> None:
    sent = b"CONNECT %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    status, _ = problem_of(await exchange(service, sent % target))
    assert status in (400, 404, 405)


async def test_requests_behind_requests_are_bounded(service: Service) -> None:
    waiting = b"GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = await exchange(service, waiting * 5000)
    assert answer.count(b"HTTP/1.1 ") <= 17


async def test_a_request_behind_a_waiting_claim_does_not_hide_that_its_client_has_left(
    service: Service, admin: "Admin"
) -> None:
    body = b'{"queue": "default", "agent": "a", "wait_seconds": 20}'
    claim = (
        b"POST /v1/turns/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
    ) % (service.keys["agent"].encode(), len(body), body)
    waiting = service.core.wakes._waiting  # noqa: SLF001 - nothing else tells who waits
    with socket.create_connection(("127.0.0.1", service.port)) as client:
        client.sendall(claim + REQUEST)
        async with asyncio.timeout(5):
            while not waiting.get("queue/default"):
                await asyncio.sleep(0.01)
    async with asyncio.timeout(5):
        while waiting.get("queue/default"):
            await asyncio.sleep(0.01)
    await service.accept("k1")
    assert await admin.fetchval("select count(*) from sink.attempt") == 0
