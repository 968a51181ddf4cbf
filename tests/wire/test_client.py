"""What the guarded client knows of a request, against servers that lie, stall and cut."""

import asyncio
import gzip
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from typing import Any

import pytest

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.exchange import Answered, Cut, Exchange, NotSent
from app.wire.headers import InvalidHeader
from app.wire.target import Target

Serve = Callable[..., Awaitable[Any]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def post(
    client: GuardedClient,
    server: Any,
    *,
    path: str = "/hook",
    body: bytes = b"{}",
    timeout_seconds: float = 5.0,
    answer_bytes_max: int = 1000,
    group: str = "crm",
    headers: dict[str, str] | None = None,
) -> Exchange:
    return await client.post(
        Target("http", server.host, server.port, path),
        headers=headers or {},
        body=body,
        timeout_seconds=timeout_seconds,
        answer_bytes_max=answer_bytes_max,
        connection_group=group,
    )


def answering(*pieces: bytes, close: bool = False) -> Callable[[Any], Any]:
    """Reads each request whole and answers it with `pieces`."""

    def behave(server: Any) -> Any:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await server.read(reader)
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                if close:
                    return

        return talk

    return behave


def dripping(head: bytes, *, drop: bytes) -> Callable[[Any], Any]:
    """Reads a request, answers `head`, and goes on with a little for as long as it is listened to."""

    def behave(server: Any) -> Any:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(head)
            while True:
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(0.02)

        return talk

    return behave


def silent(_server: Any) -> Any:
    async def talk(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    return talk


def closing(_server: Any) -> Any:
    async def talk(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        return

    return talk


def resetting(server: Any) -> Any:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.transport.abort()

    return talk


async def test_the_request_arrives_byte_for_byte(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(OK))
    body = bytes(range(256))
    exchange = await post(
        client,
        server,
        path="/a%2Fb/../c?x=%20&y=1",
        body=body,
        headers={"Content-Type": "x/y", "user-agent": "me", "X-A": "1"},
    )
    assert exchange == Answered(200, {"content-length": ("2",)}, b"ok", complete=True)
    head, _, sent = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert sent == body
    assert lines[0] == "POST /a%2Fb/../c?x=%20&y=1 HTTP/1.1"
    assert sorted(lines[1:], key=str.lower) == [
        "Accept-Encoding: identity",
        "Accept: */*",
        "Content-Length: 256",
        "Content-Type: x/y",
        f"Host: 127.0.0.1:{server.port}",
        "user-agent: me",
        "X-A: 1",
    ]


async def test_an_empty_body_is_sent_as_one(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(OK))
    assert isinstance(await post(client, server, body=b""), Answered)
    assert b"Content-Length: 0\r\n" in server.requests[0]


@pytest.mark.parametrize("headers", [{"Host": "x"}, {"content-length": "9"}, {"A": "b\r\nC: d"}])
async def test_a_header_that_breaks_the_framing_raises_before_anything_happens(
    serve: Serve, client: GuardedClient, headers: dict[str, str]
) -> None:
    server = await serve(answering(OK))
    with pytest.raises(InvalidHeader):
        await post(client, server, headers=headers)
    assert server.connections == 0


async def test_a_refused_connection_was_not_sent(client: GuardedClient) -> None:
    listener = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    exchange = await client.post(
        Target("http", "127.0.0.1", port, "/"),
        headers={},
        body=b"",
        timeout_seconds=5,
        answer_bytes_max=10,
        connection_group="g",
    )
    assert exchange == NotSent("connection_refused")


@pytest.mark.parametrize("behave", [closing, resetting])
async def test_a_cut_before_any_answer_is_a_cut(
    serve: Serve, client: GuardedClient, behave: Any
) -> None:
    server = await serve(behave)
    assert await post(client, server) == Cut("connection_cut")
    assert server.connections == 1


async def test_a_cut_within_the_headers_is_a_cut(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(b"HTTP/1.1 200 OK\r\nContent-Le", close=True))
    assert await post(client, server) == Cut("connection_cut")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
)
async def test_a_cut_within_the_body_leaves_the_status_known(
    serve: Serve, client: GuardedClient, answer: bytes
) -> None:
    server = await serve(answering(answer, close=True))
    exchange = await post(client, server)
    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.complete) == (200, False)


@pytest.mark.parametrize("split", [0, 1, 2, 3, 4, 10])
@pytest.mark.parametrize("early", [b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
async def test_a_broken_body_leaves_the_status_known_however_the_bytes_come(
    serve: Serve, client: GuardedClient, split: int, early: bytes
) -> None:
    head = early + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = head + b"3\r\nabc\r\nzz\r\n"

    def behave(server: Any) -> Any:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(answer[: len(head) - split])
            # The pieces are far enough apart to be read one by one, and right either way.
            await asyncio.sleep(0.02)
            writer.write(answer[len(head) - split :])
            await reader.read()

        return talk

    server = await serve(behave)
    begun = time.monotonic()
    exchange = await post(client, server)
    assert time.monotonic() - begun < 2
    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.complete) == (200, False)


async def test_rubbish_behind_a_complete_answer_changes_nothing(
    serve: Serve, client: GuardedClient
) -> None:
    server = await serve(answering(OK + b"\0\0rubbish\r\n\r\n"))
    for attempt in (1, 2):
        exchange = await post(client, server)
        assert isinstance(exchange, Answered)
        assert (exchange.status, exchange.excerpt) == (200, b"ok")
        assert server.connections == attempt


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 5000 + b"\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
async def test_an_answer_that_is_no_answer_is_malformed(
    serve: Serve, client: GuardedClient, answer: bytes
) -> None:
    server = await serve(answering(answer))
    assert await post(client, server) == Cut("malformed_answer")


@pytest.mark.parametrize(
    "early", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hi\r\nA: b\r\n\r\n"]
)
async def test_informational_answers_are_passed_over(
    serve: Serve, client: GuardedClient, early: bytes
) -> None:
    server = await serve(answering(early, early, OK))
    exchange = await post(client, server)
    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.excerpt) == (200, b"ok")


@pytest.mark.parametrize(
    ("behave", "expected"),
    [
        (silent, Cut("timeout")),
        (dripping(b"HTTP/1.1 200 OK\r\n", drop=b"X: y\r\n"), Cut("timeout")),
        (dripping(b"", drop=b"HTTP/1.1 103 Early Hints\r\n\r\n"), Cut("timeout")),
    ],
)
async def test_the_deadline_ends_every_stall_before_the_answer(
    serve: Serve, client: GuardedClient, behave: Any, expected: Exchange
) -> None:
    server = await serve(behave)
    begun = time.monotonic()
    assert await post(client, server, timeout_seconds=0.4) == expected
    assert 0.3 < time.monotonic() - begun < 1.5


async def test_the_deadline_ends_a_dripping_body_and_keeps_the_status(
    serve: Serve, client: GuardedClient
) -> None:
    server = await serve(dripping(b"HTTP/1.1 202 OK\r\n\r\n", drop=b"a"))
    begun = time.monotonic()
    exchange = await post(client, server, timeout_seconds=0.4)
    assert time.monotonic() - begun < 1.5
    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.complete) == (202, False)
    assert exchange.excerpt.startswith(b"aa")


async def test_the_deadline_ends_a_request_that_nobody_reads(
    serve: Serve, client: GuardedClient
) -> None:
    server = await serve(silent)
    begun = time.monotonic()
    exchange = await post(client, server, body=b"x" * 30_000_000, timeout_seconds=0.4)
    assert exchange == Cut("timeout")
    assert time.monotonic() - begun < 1.5


async def test_an_answer_before_the_request_was_read_ends_by_the_deadline_and_is_not_reused(
    serve: Serve, client: GuardedClient
) -> None:
    def behave(_server: Any) -> Any:
        async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)
            await asyncio.sleep(60)

        return talk

    server = await serve(behave)
    begun = time.monotonic()
    for attempt in (1, 2):
        exchange = await post(client, server, body=b"x" * 30_000_000, timeout_seconds=0.5)
        assert isinstance(exchange, Answered)
        assert server.connections == attempt
    assert time.monotonic() - begun < 2.5


async def test_waiting_for_a_free_connection_counts_to_the_deadline(serve: Serve) -> None:
    server = await serve(silent)
    policy = AddressPolicy((ip_network("127.0.0.0/8"),))
    async with GuardedClient(policy, connections_max=1) as narrow, asyncio.TaskGroup() as group:
        first = group.create_task(post(narrow, server, timeout_seconds=0.8))
        while server.connections == 0:
            await asyncio.sleep(0)
        assert await post(narrow, server, timeout_seconds=0.2) == NotSent("timeout_before_send")
    assert first.result() == Cut("timeout")
    assert server.connections == 1


async def test_an_endless_body_is_read_to_its_limit_only(
    serve: Serve, client: GuardedClient
) -> None:
    def behave(server: Any) -> Any:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"z" * 65536)
                await writer.drain()

        return talk

    server = await serve(behave)
    begun = time.monotonic()
    exchange = await post(client, server, answer_bytes_max=100, timeout_seconds=5)
    assert exchange == Answered(200, {}, b"z" * 100, complete=False)
    assert time.monotonic() - begun < 2


async def test_an_answer_of_just_the_limit_is_complete(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(OK))
    exchange = await post(client, server, answer_bytes_max=2)
    assert exchange == Answered(200, {"content-length": ("2",)}, b"ok", complete=True)


async def test_a_compressed_answer_is_never_expanded(serve: Serve, client: GuardedClient) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    server = await serve(answering(head + bomb))
    exchange = await post(client, server, answer_bytes_max=100_000)
    assert isinstance(exchange, Answered)
    assert (exchange.excerpt, exchange.complete) == (bomb, True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_never_followed(
    serve: Serve, client: GuardedClient, status: int
) -> None:
    inside = await serve(answering(OK))
    location = f"Location: http://127.0.0.1:{inside.port}/\r\nContent-Length: 0\r\n\r\n"
    server = await serve(answering(f"HTTP/1.1 {status} Moved\r\n{location}".encode()))
    exchange = await post(client, server)
    assert isinstance(exchange, Answered)
    assert exchange.status == status
    assert (server.connections, inside.connections) == (1, 0)


async def test_every_value_of_a_repeated_header_is_kept(
    serve: Serve, client: GuardedClient
) -> None:
    server = await serve(
        answering(
            b"HTTP/1.1 429 No\r\nRetry-After: 1\r\nretry-after: 9\r\nContent-Length: 0\r\n\r\n"
        )
    )
    exchange = await post(client, server)
    assert isinstance(exchange, Answered)
    assert exchange.headers["retry-after"] == ("1", "9")


async def test_cookies_are_not_kept(serve: Serve, client: GuardedClient) -> None:
    server = await serve(
        answering(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
    )
    for _ in range(2):
        await post(client, server)
    assert b"ookie" not in server.requests[1]


async def test_the_environment_names_no_proxy(
    serve: Serve, client: GuardedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await serve(answering(OK))
    server = await serve(answering(OK))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    assert isinstance(await post(client, server), Answered)
    assert proxy.connections == 0


async def test_a_closed_client_sends_nothing(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(OK))
    await client.__aexit__(None, None, None)
    assert await post(client, server) == NotSent("client_closed")
    assert server.connections == 0


async def test_a_cancelled_request_ends_at_once_and_leaves_the_client_usable(
    serve: Serve, client: GuardedClient
) -> None:
    stalled = await serve(silent)
    server = await serve(answering(OK))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(post(client, stalled, timeout_seconds=30))
        while stalled.connections == 0:
            await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert isinstance(await post(client, server), Answered)
