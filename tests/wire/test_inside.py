"""No name, spelling, alias, answer or redirect of anybody else leads a request inside: listeners there see nobody.

The name server is a test's own, asked over UDP; the service's resolver, threads and guard are the real ones.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_network

import pytest

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.exchange import Answered, NotSent
from tests.wire.name_server import AAAA, A, NameServer, Says, naming, to
from tests.wire.servers import OK, Serve, answering, post
from tests.wire.test_addresses import DENIED

# What stands for the world outside: everything else on loopback is inside.
OUTSIDE = "127.0.0.1"
POLICY = AddressPolicy((ip_network(f"{OUTSIDE}/32"),))
NAME = "crm.example"
METADATA = "169.254.169.254"

Naming = Callable[[Mapping[str, Sequence[Says]]], Awaitable[NameServer]]


@pytest.fixture
async def named(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Naming]:
    """`await named(zone)`: the system asks a name server with these names."""
    async with AsyncExitStack() as stack:

        async def start(zone: Mapping[str, Sequence[Says]]) -> NameServer:
            server = await stack.enter_async_context(naming(zone))
            monkeypatch.setattr("app.wire.resolution.socket.getaddrinfo", server.getaddrinfo)
            return server

        yield start


@pytest.fixture
async def guarded() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(POLICY) as client:
        yield client


STEERED: Mapping[str, Mapping[str, Sequence[Says]]] = {
    "plain": {NAME: [to("127.0.0.2")]},
    "of the sixth version": {NAME: [to("::1")]},
    "unspecified": {NAME: [to("0.0.0.0")]},
    "unspecified of the sixth version": {NAME: [to("::")]},
    "outside first, then inside": {NAME: [to(OUTSIDE, "127.0.0.2")]},
    "inside first, then outside": {NAME: [to("127.0.0.2", OUTSIDE)]},
    "outside in one family, inside in the other": {NAME: [to(OUTSIDE, "::1")]},
    "one inside among many": {NAME: [to(*[OUTSIDE] * 9, "127.0.0.2")]},
    "mapped alone": {NAME: [to("::ffff:127.0.0.2")]},
    "mapped metadata alone": {NAME: [to(f"::ffff:{METADATA}")]},
    "compatible": {NAME: [to("::127.0.0.2")]},
    "translated metadata": {NAME: [to("64:ff9b::a9fe:a9fe")]},
    "translated locally": {NAME: [to("64:ff9b:1::a9fe:a9fe")]},
    "tunnelled metadata": {NAME: [to("2002:a9fe:a9fe::1")]},
    "metadata": {NAME: [to(METADATA)]},
    "metadata of the sixth version": {NAME: [to("fd00:ec2::254")]},
    "the platform of a cloud": {NAME: [to("168.63.129.16")]},
    "an alias of metadata": {
        NAME: [Says([("CNAME", "metadata.internal", 60)])],
        "metadata.internal": [to(METADATA)],
    },
    "an alias of an alias of loopback": {
        NAME: [Says([("CNAME", "a.example", 0)])],
        "a.example": [Says([("CNAME", "b.example", 0)])],
        "b.example": [to("127.0.0.2", "::1")],
    },
    "nothing kept": {NAME: [to("127.0.0.2", ttl=0)]},
    "kept for ever": {NAME: [to("127.0.0.2", ttl=2**31 - 1)]},
}


@pytest.mark.parametrize("how", STEERED)
async def test_no_answer_of_a_name_server_leads_inside(
    serve: Serve, named: Naming, guarded: GuardedClient, how: str
) -> None:
    inside = await serve(answering(OK), host="127.0.0.2")
    await named(STEERED[how])
    assert await post(guarded, inside.port, host=NAME) == NotSent("address_denied")
    assert inside.connections == 0


async def test_no_special_network_is_reached_by_a_name(serve: Serve, named: Naming) -> None:
    ends = [
        str(end) for network in DENIED for end in (ip_network(network)[0], ip_network(network)[-1])
    ]
    inside = await serve(answering(OK), host="127.0.0.2")
    await named({f"n{n}.example": [to(end)] for n, end in enumerate(ends)})
    async with GuardedClient(AddressPolicy()) as strict:
        for n, end in enumerate(ends):
            exchange = await post(strict, inside.port, host=f"n{n}.example")
            assert exchange == NotSent("address_denied"), end
    assert inside.connections == 0


@pytest.mark.parametrize("ttl", [0, 86_400])
async def test_a_name_that_turns_inside_is_asked_for_and_judged_at_each_connection(
    serve: Serve, named: Naming, guarded: GuardedClient, ttl: int
) -> None:
    outside = await serve(answering(OK, close=True), host=OUTSIDE)
    inside = await serve(answering(OK), host="127.0.0.2")
    names = await named({NAME: [to(OUTSIDE, ttl=ttl), to("127.0.0.2", ttl=ttl)]})
    assert isinstance(await post(guarded, outside.port, host=NAME), Answered)
    # One look-up decided, and the connection went where it had led.
    assert (names.asked[NAME, A], names.asked[NAME, AAAA]) == (1, 1)
    for _ in range(5):
        for port in (outside.port, inside.port):
            assert await post(guarded, port, host=NAME) == NotSent("address_denied")
    assert (outside.connections, inside.connections) == (1, 0)


async def test_a_name_that_turns_back_and_forth_reaches_only_what_is_outside(
    serve: Serve, named: Naming, guarded: GuardedClient
) -> None:
    outside = await serve(answering(OK, close=True), host=OUTSIDE)
    inside = await serve(answering(OK), host="127.0.0.2")
    turns = [to(OUTSIDE, ttl=0), to("127.0.0.2", ttl=0)] * 5
    await named({NAME: turns})
    exchanges = [await post(guarded, outside.port, host=NAME) for _ in turns]
    assert [isinstance(one, Answered) for one in exchanges] == [True, False] * 5
    assert (outside.connections, inside.connections) == (5, 0)


FAILING: Mapping[str, Mapping[str, Sequence[Says]]] = {
    "no such name": {},
    "no address": {NAME: [Says()]},
    "a failure": {NAME: [Says(failed=True)]},
    "an alias of nothing": {NAME: [Says([("CNAME", "nothing.example", 60)])]},
    "an alias of itself, which ends somewhere": {
        NAME: [Says([("CNAME", "loop.example", 60)])],
        "loop.example": [Says()],
    },
}


@pytest.mark.parametrize("how", FAILING)
async def test_a_name_that_leads_nowhere_is_tried_again_later_and_never_allowed(
    serve: Serve, named: Naming, guarded: GuardedClient, how: str
) -> None:
    server = await serve(answering(OK), host=OUTSIDE)
    await named(FAILING[how])
    assert await post(guarded, server.port, host=NAME) == NotSent("dns_failed")
    assert server.connections == 0


@pytest.mark.parametrize("says", [Says(after_seconds=3.0), Says(silent=True)])
async def test_a_slow_name_server_costs_its_own_destination_its_deadline_and_nobody_else_anything(
    serve: Serve,
    named: Naming,
    guarded: GuardedClient,
    monkeypatch: pytest.MonkeyPatch,
    says: Says,
) -> None:
    monkeypatch.setattr("tests.wire.name_server.ANSWER_SECONDS_MAX", 4.0)
    server = await serve(answering(OK), host=OUTSIDE)
    await named({"slow.example": [says], NAME: [to(OUTSIDE)]})
    began = time.monotonic()
    slow = await post(guarded, server.port, host="slow.example", timeout_seconds=0.3)
    assert slow == NotSent("timeout_before_send")
    assert isinstance(await post(guarded, server.port, host=NAME), Answered)
    assert time.monotonic() - began < 2


LOCATIONS = (
    "http://127.0.0.2:{port}/",
    "http://[::ffff:7f00:2]:{port}/",
    "http://inside.example:{port}/",
    "//127.0.0.2:{port}/",
    "http://127.1.0.2:{port}@127.0.0.2:{port}/",
    "http://2130706434:{port}/",
    "gopher://127.0.0.2:{port}/_POST",
    "file:///etc/passwd",
)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
async def test_no_redirect_leads_inside(
    serve: Serve, named: Naming, guarded: GuardedClient, status: int
) -> None:
    inside = await serve(answering(OK), host="127.0.0.2")
    await named({NAME: [to(OUTSIDE)], "inside.example": [to("127.0.0.2")]})
    for location in LOCATIONS:
        said = location.format(port=inside.port)
        lines = f"HTTP/1.1 {status} No\r\nLocation: {said}\r\nRefresh: 0; url={said}\r\n"
        outside = await serve(answering(f"{lines}Content-Length: 0\r\n\r\n".encode()), host=OUTSIDE)
        exchange = await post(guarded, outside.port, host=NAME, group=location)
        assert isinstance(exchange, Answered)
        assert exchange.status == status
        assert outside.connections == 1
    assert inside.connections == 0
