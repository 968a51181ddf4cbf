"""Nothing is sent to somebody whose certificate is not for the name."""

import asyncio
import ssl
import warnings
from pathlib import Path
from typing import Any

from app.wire.client import GuardedClient
from app.wire.exchange import Answered, NotSent
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, OK, Serve, answering, post


def server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def test_a_certificate_that_nobody_signed_is_not_sent_to(
    serve: Serve, certificate: tuple[Path, Path]
) -> None:
    server = await serve(answering(OK), tls=server_tls(certificate))
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        assert await post(client, server.port, host="crm.example", scheme="https") == NotSent(
            "tls_failed"
        )
    assert server.requests == []


async def test_a_trusted_certificate_must_be_for_the_name_and_not_the_address(
    serve: Serve, certificate: tuple[Path, Path]
) -> None:
    server = await serve(answering(OK), tls=server_tls(certificate))
    roots = certificate[0].read_text()
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"]), extra_roots=roots) as client:
        assert isinstance(
            await post(client, server.port, host="crm.example", scheme="https"), Answered
        )
        other = await post(client, server.port, scheme="https", host="other.example")
        assert other == NotSent("tls_failed")


async def test_old_tls_is_refused(serve: Serve, certificate: tuple[Path, Path]) -> None:
    old = server_tls(certificate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    server = await serve(answering(OK), tls=old)
    roots = certificate[0].read_text()
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"]), extra_roots=roots) as client:
        # The server may say why or just hang up.
        exchange = await post(client, server.port, host="crm.example", scheme="https")
    assert exchange in (NotSent("tls_failed"), NotSent("connection_failed"))
    assert server.requests == []


async def test_a_server_that_speaks_no_tls_is_not_sent_to(serve: Serve) -> None:
    def behave(_server: Any) -> Any:
        async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)

        return talk

    server = await serve(behave)
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        assert await post(client, server.port, host="crm.example", scheme="https") == NotSent(
            "tls_failed"
        )


async def test_a_stalled_handshake_ends_by_the_deadline(serve: Serve) -> None:
    def behave(_server: Any) -> Any:
        async def talk(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(60)

        return talk

    server = await serve(behave)
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        exchange = await post(
            client, server.port, host="crm.example", scheme="https", timeout_seconds=0.3
        )
    assert exchange == NotSent("timeout_before_send")
    assert server.connections == 1
