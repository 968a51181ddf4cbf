"""One deadline over everything, and no more of an answer than was asked for."""

import asyncio
import gzip
import time
from ipaddress import ip_network
from typing import Any

import pytest

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.exchange import Answered, Cut, Exchange, NotSent
from tests.wire.servers import OK, Serve, answering, dripping, post, silent


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
    exchange = await post(client, server.port)
    assert time.monotonic() - begun < 2
    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.complete) == (200, False)


async def test_rubbish_behind_a_complete_answer_changes_nothing(
    serve: Serve, client: GuardedClient
) -> None:
    server = await serve(answering(OK + b"\0\0rubbish\r\n\r\n"))
    for attempt in (1, 2):
        exchange = await post(client, server.port)
        assert isinstance(exchange, Answered)
        assert (exchange.status, exchange.excerpt) == (200, b"ok")
        assert server.connections == attempt


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
    assert await post(client, server.port, timeout_seconds=0.4) == expected
    assert 0.3 < time.monotonic() - begun < 1.5


async def test_the_deadline_ends_a_dripping_body_and_keeps_the_status(
    serve: Serve, client: GuardedClient
) -> None:
    server = await serve(dripping(b"HTTP/1.1 202 OK\r\n\r\n", drop=b"a"))
    begun = time.monotonic()
    exchange = await post(client, server.port, timeout_seconds=0.4)
    assert time.monotonic() - begun < 1.5
    assert isinstance(exchange, Answered)
    assert (exchange.status, exchange.complete) == (202, False)
    assert exchange.excerpt.startswith(b"aa")


async def test_the_deadline_ends_a_request_that_nobody_reads(
    serve: Serve, client: GuardedClient
) -> None:
    server = await serve(silent)
    begun = time.monotonic()
    exchange = await post(client, server.port, body=b"x" * 30_000_000, timeout_seconds=0.4)
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
        exchange = await post(client, server.port, body=b"x" * 30_000_000, timeout_seconds=0.5)
        assert isinstance(exchange, Answered)
        assert server.connections == attempt
    assert time.monotonic() - begun < 2.5


async def test_waiting_for_a_free_connection_counts_to_the_deadline(serve: Serve) -> None:
    server = await serve(silent)
    policy = AddressPolicy((ip_network("127.0.0.0/8"),))
    async with GuardedClient(policy, connections_max=1) as narrow, asyncio.TaskGroup() as group:
        first = group.create_task(post(narrow, server.port, timeout_seconds=0.8))
        while server.connections == 0:
            await asyncio.sleep(0)
        assert await post(narrow, server.port, timeout_seconds=0.2) == NotSent(
            "timeout_before_send"
        )
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
    exchange = await post(client, server.port, answer_bytes_max=100, timeout_seconds=5)
    assert exchange == Answered(200, {}, b"z" * 100, complete=False)
    assert time.monotonic() - begun < 2


async def test_an_answer_of_just_the_limit_is_complete(serve: Serve, client: GuardedClient) -> None:
    server = await serve(answering(OK))
    exchange = await post(client, server.port, answer_bytes_max=2)
    assert exchange == Answered(200, {"content-length": ("2",)}, b"ok", complete=True)


async def test_a_compressed_answer_is_never_expanded(serve: Serve, client: GuardedClient) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    server = await serve(answering(head + bomb))
    exchange = await post(client, server.port, answer_bytes_max=100_000)
    assert isinstance(exchange, Answered)
    assert (exchange.excerpt, exchange.complete) == (bomb, True)


async def test_a_cancelled_request_ends_at_once_and_leaves_the_client_usable(
    serve: Serve, client: GuardedClient
) -> None:
    stalled = await serve(silent)
    server = await serve(answering(OK))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(post(client, stalled.port, timeout_seconds=30))
        while stalled.connections == 0:
            await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert isinstance(await post(client, server.port), Answered)
