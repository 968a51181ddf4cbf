"""What the guarded client knows of a request, against servers that cut and lie."""

import asyncio
from typing import Any

import pytest

from app.wire.client import GuardedClient
from app.wire.exchange import Answered, Cut, NotSent
from app.wire.headers import InvalidHeader
from app.wire.target import Target
from tests.wire.servers import OK, Serve, answering, closing, post, resetting


async def test_the_request_arrives_byte_for_byte(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(OK))
    body = bytes(range(256))
    exchange = await post(
        client,
        server.port,
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
    assert isinstance(await post(client, server.port, body=b""), Answered)
    assert b"Content-Length: 0\r\n" in server.requests[0]


@pytest.mark.parametrize("headers", [{"Host": "x"}, {"content-length": "9"}, {"A": "b\r\nC: d"}])
async def test_a_header_that_breaks_the_framing_raises_before_anything_happens(
    serve: Serve, client: GuardedClient, headers: dict[str, str]
) -> None:
    server = await serve(answering(OK))
    with pytest.raises(InvalidHeader):
        await post(client, server.port, headers=headers)
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


@pytest.mark.parametrize("behave", [answering(close=True), resetting])
async def test_a_cut_before_any_answer_is_a_cut(
    serve: Serve, client: GuardedClient, behave: Any
) -> None:
    server = await serve(behave)
    assert await post(client, server.port) == Cut("connection_cut")
    assert server.connections == 1


async def test_a_server_that_hangs_up_at_once_is_sent_nothing_or_cuts(
    serve: Serve, client: GuardedClient
) -> None:
    server = await serve(closing)
    # As the loop hears of it before the request is written, or behind it.
    ends = (NotSent("connection_cut_before_send"), Cut("connection_cut"))
    assert await post(client, server.port) in ends
    assert server.connections == 1


async def test_a_cut_within_the_headers_is_a_cut(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(b"HTTP/1.1 200 OK\r\nContent-Le", close=True))
    assert await post(client, server.port) == Cut("connection_cut")


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
    exchange = await post(client, server.port)
    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.complete) == (200, False)


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
    assert await post(client, server.port) == Cut("malformed_answer")


@pytest.mark.parametrize(
    "early", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hi\r\nA: b\r\n\r\n"]
)
async def test_informational_answers_are_passed_over(
    serve: Serve, client: GuardedClient, early: bytes
) -> None:
    server = await serve(answering(early, early, OK))
    exchange = await post(client, server.port)
    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.excerpt) == (200, b"ok")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_never_followed(
    serve: Serve, client: GuardedClient, status: int
) -> None:
    inside = await serve(answering(OK))
    location = f"Location: http://127.0.0.1:{inside.port}/\r\nContent-Length: 0\r\n\r\n"
    server = await serve(answering(f"HTTP/1.1 {status} Moved\r\n{location}".encode()))
    exchange = await post(client, server.port)
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
    exchange = await post(client, server.port)
    assert isinstance(exchange, Answered)
    assert exchange.headers["retry-after"] == ("1", "9")


async def test_cookies_are_not_kept(serve: Serve, client: GuardedClient) -> None:
    server = await serve(
        answering(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
    )
    for _ in range(2):
        await post(client, server.port)
    assert b"ookie" not in server.requests[1]


async def test_the_environment_names_no_proxy(
    serve: Serve, client: GuardedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await serve(answering(OK))
    server = await serve(answering(OK))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    assert isinstance(await post(client, server.port), Answered)
    assert proxy.connections == 0


async def test_a_closed_client_sends_nothing(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(OK))
    await client.__aexit__(None, None, None)
    assert await post(client, server.port) == NotSent("client_closed")
    assert server.connections == 0
