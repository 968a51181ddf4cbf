"""Answers over TLS, on both event loops that the service may run on."""

import asyncio
import ssl
from pathlib import Path

from app.wire.client import GuardedClient
from app.wire.exchange import Answered
from tests.wire.loops import Run
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, OK, Server, Talk, answering, listening, post

ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nok"


def test_an_answer_over_tls_may_end_with_the_connection(
    run: Run, certificate: tuple[Path, Path]
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)

    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(ENDLESS)
            await writer.drain()

        return talk

    async def main() -> None:
        roots = certificate[0].read_text()
        async with (
            listening(behave, host="127.0.0.1", tls=tls) as server,
            GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"]), extra_roots=roots) as client,
        ):
            for count in (1, 2):
                exchange = await post(client, server.port, host="crm.example", scheme="https")
                assert exchange == Answered(200, {}, b"ok", complete=True)
                assert server.connections == count

    run(main())


def test_a_connection_over_tls_is_used_again(run: Run, certificate: tuple[Path, Path]) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)

    async def main() -> None:
        roots = certificate[0].read_text()
        async with (
            listening(answering(OK), host="127.0.0.1", tls=tls) as server,
            GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"]), extra_roots=roots) as client,
        ):
            for body in (b"{}", b"x" * 3_000_000, b"{}"):
                exchange = await post(
                    client, server.port, host="crm.example", scheme="https", body=body
                )
                assert isinstance(exchange, Answered)
                assert server.requests[-1].endswith(body)
            assert server.connections == 1

    run(main())
