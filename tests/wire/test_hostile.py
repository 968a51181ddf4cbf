"""Servers that cut, flood and answer out of turn, on both event loops that the service may run on."""

import asyncio
import socket
import struct

import pytest

from app.wire.connections import Connection
from app.wire.exchange import Answered, Cut
from tests.wire.loops import Ask, Run, after_request, against
from tests.wire.servers import OK, Server, Talk, answering

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nok"


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, whatever was written."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("answer", [OK, CHUNKED])
def test_an_answer_in_single_bytes_is_that_answer(run: Run, answer: bytes) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        for at in range(len(answer)):
            writer.write(answer[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)

    async def told(server: Server, ask: Ask) -> None:
        for _ in range(3):
            exchange = await ask()
            assert isinstance(exchange, Answered)
            assert (exchange.status, exchange.excerpt, exchange.complete) == (200, b"ok", True)
        assert server.connections == 1

    against(run, after_request(drip), told)


@pytest.mark.parametrize("answer", [OK, CHUNKED, ENDLESS])
def test_a_reset_at_any_byte_leaves_what_was_known_then(run: Run, answer: bytes) -> None:
    length = 0

    async def part(writer: asyncio.StreamWriter) -> None:
        writer.write(answer[:length])
        await writer.drain()
        # The other side takes in what came before the reset, which would throw it away.
        await asyncio.sleep(0.005)
        reset(writer)

    async def told(_server: Server, ask: Ask) -> None:
        nonlocal length
        head = answer.index(b"\r\n\r\n") + 4
        for length in range(len(answer) + 1):
            exchange = await ask()
            if length < head:
                assert exchange == Cut("connection_cut"), length
            else:
                assert isinstance(exchange, Answered), length
                is_whole = answer is not ENDLESS and length == len(answer)
                assert exchange.complete == is_whole, length

    against(run, after_request(part), told)


@pytest.mark.parametrize("body", [b"{}", b"x" * 10_000_000])
def test_an_answer_before_the_request_was_taken_counts_and_its_connection_is_not_used_again(
    run: Run, body: bytes
) -> None:
    def behave(_server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(1)
            writer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            await writer.drain()
            await asyncio.sleep(0.01)
            reset(writer)

        return talk

    async def told(server: Server, ask: Ask) -> None:
        for count in (1, 2, 3):
            exchange = await ask(body=body)
            assert isinstance(exchange, Answered)
            assert exchange.status == 200
            assert server.connections == count

    against(run, behave, told)


def test_who_speaks_first_is_still_sent_the_request(run: Run) -> None:
    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)
            await server.read(reader)

        return talk

    async def told(server: Server, ask: Ask) -> None:
        assert isinstance(await ask(), Answered)
        async with asyncio.timeout(5):
            while not server.requests:
                await asyncio.sleep(0.005)

    against(run, behave, told)


@pytest.mark.parametrize("more", [b"x", b"\r\n", OK])
def test_what_comes_after_an_answer_ends_its_connection(run: Run, more: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(more)

    async def told(server: Server, ask: Ask) -> None:
        for count in (1, 2, 3):
            exchange = await ask()
            assert isinstance(exchange, Answered)
            assert (exchange.excerpt, server.connections) == (b"ok", count)
            await asyncio.sleep(0.05)

    against(run, after_request(answer), told)


def test_a_flood_of_what_is_no_answer_is_cut_off_long_before_the_deadline(run: Run) -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            await writer.drain()

    async def told(server: Server, ask: Ask) -> None:
        async with asyncio.timeout(10):
            assert await ask(timeout_seconds=60) == Cut("malformed_answer")
        assert server.connections == 1

    against(run, after_request(flood), told)


def test_small_packets_are_not_held_back(run: Run) -> None:
    seen: list[int] = []
    made = Connection.connection_made

    class Watched(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made(self, transport)
            connection = transport.get_extra_info("socket")
            seen.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def told(_server: Server, ask: Ask) -> None:
        assert isinstance(await ask(), Answered)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.wire.pool.Connection", Watched)
        against(run, answering(OK), told)
    assert seen == [1]
