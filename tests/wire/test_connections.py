"""When a connection may be used again."""

import asyncio
from collections.abc import Callable
from typing import Any

from app.wire.client import GuardedClient
from app.wire.exchange import Answered, Cut
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, OK, Serve, post


def answering(*answers: bytes, unasked: bytes = b"", close: bool = False) -> Callable[[Any], Any]:
    """Answers the requests of a connection in turn, each followed by `unasked`, the last one for
    ever.
    """

    def behave(server: Any) -> Any:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            turn = 0
            while True:
                await server.read(reader)
                writer.write(answers[min(turn, len(answers) - 1)])
                await writer.drain()
                if unasked:
                    await asyncio.sleep(0.05)
                    writer.write(unasked)
                if close:
                    return
                turn += 1

        return talk

    return behave


async def test_a_connection_is_used_again_within_its_group_only(serve: Serve) -> None:
    server = await serve(answering(OK))
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        for group, connections in [("a", 1), ("a", 1), ("b", 2), ("a", 2)]:
            assert isinstance(
                await post(client, server.port, host="crm.example", group=group), Answered
            )
            assert server.connections == connections


async def test_a_connection_that_dies_under_a_request_is_a_cut_and_nothing_is_repeated(
    serve: Serve,
) -> None:
    def behave(server: Any) -> Any:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(OK)
            await server.read(reader)

        return talk

    server = await serve(behave)
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        assert isinstance(await post(client, server.port, host="crm.example"), Answered)
        assert await post(client, server.port, host="crm.example") == Cut("connection_cut")
    assert (server.connections, len(server.requests)) == (1, 2)


async def test_a_connection_closed_while_idle_is_replaced(serve: Serve) -> None:
    server = await serve(answering(OK, close=True))
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        for connections in (1, 2, 3):
            assert isinstance(await post(client, server.port, host="crm.example"), Answered)
            assert server.connections == connections
            await asyncio.sleep(0.05)


async def test_an_answer_that_nobody_asked_for_confirms_nothing(serve: Serve) -> None:
    server = await serve(
        answering(
            OK,
            unasked=b"HTTP/1.1 299 Forged\r\nContent-Length: 0\r\n\r\n",
        )
    )
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        for connections in (1, 2):
            exchange = await post(client, server.port, host="crm.example")
            assert isinstance(exchange, Answered)
            assert exchange.status == 200
            assert server.connections == connections
            await asyncio.sleep(0.15)


async def test_when_several_idle_connections_were_spoiled_none_of_them_is_used(
    serve: Serve,
) -> None:
    all_here = asyncio.Barrier(3)

    def behave(server: Any) -> Any:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            first = server.connections <= 3
            while True:
                await server.read(reader)
                if first:
                    # Three requests at once need three connections.
                    await all_here.wait()
                writer.write(OK)
                await writer.drain()
                if first:
                    await asyncio.sleep(0.05)
                    writer.write(b"HTTP/1.1 299 Forged\r\nContent-Length: 0\r\n\r\n")

        return talk

    server = await serve(behave)
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(post(client, server.port, host="crm.example"))
        assert server.connections == 3
        await asyncio.sleep(0.15)
        for _ in range(2):
            exchange = await post(client, server.port, host="crm.example")
            assert isinstance(exchange, Answered)
            assert exchange.status == 200
            assert server.connections == 4
