"""Answers over TLS, on both event loops that the service may run on."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.wire.client import GuardedClient
from app.wire.connections import Connection
from app.wire.deadlines import Deadlines
from app.wire.exchange import Answered
from tests.wire.loops import Run
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, OK, Behaviour, Server, Talk, answering, listening, post

ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nok"


@asynccontextmanager
async def over_tls(
    behave: Behaviour, certificate: tuple[Path, Path]
) -> AsyncIterator[tuple[Server, GuardedClient]]:
    """A server with this certificate, and a client that trusts it."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    roots = certificate[0].read_text()
    async with (
        listening(behave, host="127.0.0.1", tls=tls) as server,
        GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"]), extra_roots=roots) as client,
    ):
        yield server, client


def test_an_answer_over_tls_may_end_with_the_connection(
    run: Run, certificate: tuple[Path, Path]
) -> None:
    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(ENDLESS)
            await writer.drain()

        return talk

    async def main() -> None:
        async with over_tls(behave, certificate) as (server, client):
            for count in (1, 2):
                exchange = await post(client, server.port, host="crm.example", scheme="https")
                assert exchange == Answered(200, {}, b"ok", complete=True)
                assert server.connections == count

    run(main())


def test_a_connection_over_tls_is_used_again(run: Run, certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        async with over_tls(answering(OK), certificate) as (server, client):
            for body in (b"{}", b"x" * 3_000_000, b"{}"):
                exchange = await post(
                    client, server.port, host="crm.example", scheme="https", body=body
                )
                assert isinstance(exchange, Answered)
                assert server.requests[-1].endswith(body)
            assert server.connections == 1

    run(main())


def test_a_connection_with_a_request_half_sent_is_not_used_again_over_tls(
    run: Run, certificate: tuple[Path, Path]
) -> None:
    def behave(server: Server) -> Talk:
        del server

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
            # The rest of the request is never read.
            await asyncio.sleep(0.5)

        return talk

    async def main() -> None:
        async with over_tls(behave, certificate) as (server, client):
            for count in (1, 2):
                exchange = await post(
                    client, server.port, host="crm.example", scheme="https", body=b"x" * 24_000_000
                )
                assert isinstance(exchange, Answered)
                assert server.connections == count

    run(main())


def test_what_is_said_before_tls_is_no_answer(run: Run) -> None:
    async def main() -> None:
        connection = Connection(Deadlines())
        connection.data_received(OK)
        with pytest.raises(ConnectionAbortedError):
            await connection.secure(ssl.create_default_context(), host="crm.example")

    run(main())
