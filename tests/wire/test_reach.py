"""Whether somebody listens is found out under the rules of deliveries, and without a word."""

import ssl
import time

from app.wire.client import GuardedClient
from app.wire.target import Target
from tests.wire.servers import LOOPBACK, Serve, closing, silent


def _target(port: int, *, scheme: str = "http", host: str = "127.0.0.1") -> Target:
    return Target(scheme, host, port, "/hook")


async def test_who_listens_is_connected_to_and_sent_nothing(
    client: GuardedClient, serve: Serve
) -> None:
    server = await serve(silent)
    assert await client.reach(_target(server.port), timeout_seconds=5) is None
    assert (server.connections, server.requests) == (1, [])


async def test_an_address_that_is_denied_is_not_connected_to(
    strict_client: GuardedClient, serve: Serve
) -> None:
    server = await serve(silent)
    for host in ("127.0.0.1", "localhost"):
        reason = await strict_client.reach(_target(server.port, host=host), timeout_seconds=5)
        assert reason == "address_denied"
    assert server.connections == 0


async def test_nobody_there_and_no_tls_are_told_apart(client: GuardedClient, serve: Serve) -> None:
    server = await serve(closing)
    assert await client.reach(_target(9), timeout_seconds=5) == "connection_refused"
    plain = _target(server.port, scheme="https")
    assert await client.reach(plain, timeout_seconds=5) == "tls_failed"
    unknown = await serve(closing, tls=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
    secure = _target(unknown.port, scheme="https")
    assert await client.reach(secure, timeout_seconds=5) == "tls_failed"


async def test_a_handshake_without_an_end_has_one(client: GuardedClient, serve: Serve) -> None:
    server = await serve(silent)
    began = time.monotonic()
    target = _target(server.port, scheme="https")
    assert await client.reach(target, timeout_seconds=0.3) == "timeout"
    assert time.monotonic() - began < 3


async def test_a_client_that_is_closed_reaches_nobody(serve: Serve) -> None:
    server = await serve(silent)
    async with GuardedClient(LOOPBACK) as client:
        pass
    assert await client.reach(_target(server.port), timeout_seconds=5) == "client_closed"
    assert server.connections == 0
