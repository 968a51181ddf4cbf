"""Where names and addresses lead, and where they never lead."""

from ipaddress import ip_network
from typing import Any

import pytest

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.exchange import Answered, NotSent
from app.wire.target import InvalidTarget, parse_target
from tests.wire.names import Names, StalledNames
from tests.wire.servers import LOOPBACK, OK, Serve, answering, post

ONE_ADDRESS = AddressPolicy((ip_network("127.0.0.1/32"),))
ODD_HOSTS = [
    "127.0.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "0",
    "0.0.0.0",
    "localhost",
    "localhost.",
    "::1",
    "::",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "①②⑦.0.0.1",
    "127\uff0e0\uff0e0\uff0e1",
    "127\u30020\u30020\u30021",
    "\uff11\uff12\uff17.0.0.1",
    "017700000001",
    "00000177.0.0.1",
    "0x7f.0x0.0x0.0x1",
    "0X7F000001",
    "127.0.1",
    "127.0.0.01",
    "127.000.000.001",
    "127.0.0.1.",
    "127.255.255.254",
    "LOCALHOST",
    "0000:0000:0000:0000:0000:0000:0000:0001",
    "0:0:0:0:0:ffff:127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b:1::7f00:1",
    "fe80::1",
    "::1%lo",
    "",
]


async def test_a_name_leads_to_its_vetted_address_and_stays_in_the_request(serve: Serve) -> None:
    server = await serve(answering(OK))
    names = Names(["127.0.0.1"])
    async with GuardedClient(LOOPBACK, resolver=names) as client:
        assert isinstance(await post(client, server.port, host="crm.example"), Answered)
    assert names.asked == ["crm.example"]
    assert f"Host: crm.example:{server.port}\r\n".encode() in server.requests[0]


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.2"],
        ["127.0.0.1", "127.0.0.2"],
        ["127.0.0.2", "127.0.0.1"],
        ["127.0.0.1", "::1"],
        ["::ffff:127.0.0.2"],
        ["64:ff9b::7f00:2"],
        ["2002:7f00:2::"],
        ["0.0.0.0"],
        ["169.254.169.254"],
    ],
)
async def test_one_denied_address_among_the_answers_denies_them_all(
    serve: Serve, answer: list[str]
) -> None:
    server = await serve(answering(OK), host="127.0.0.2")
    open_one = await serve(answering(OK), host="127.0.0.1")
    async with GuardedClient(ONE_ADDRESS, resolver=Names(answer)) as client:
        for port in (server.port, open_one.port):
            assert await post(client, port, host="crm.example") == NotSent("address_denied")
    assert (server.connections, open_one.connections) == (0, 0)


@pytest.mark.parametrize("answer", [[], OSError("no"), TimeoutError()])
async def test_a_name_without_an_address_is_not_sent_to(answer: Any) -> None:
    async with GuardedClient(LOOPBACK, resolver=Names(answer)) as client:
        assert await post(client, 80, host="crm.example") == NotSent("dns_failed")


async def test_a_name_that_turns_inside_is_judged_at_each_new_connection(serve: Serve) -> None:
    outside = await serve(answering(OK, close=True), host="127.0.0.1")
    inside = await serve(answering(OK), host="127.0.0.2")
    async with GuardedClient(ONE_ADDRESS, resolver=Names(["127.0.0.1"], ["127.0.0.2"])) as client:
        assert isinstance(await post(client, outside.port, host="crm.example"), Answered)
        for _ in range(20):
            assert await post(client, inside.port, host="crm.example") == NotSent("address_denied")
    assert inside.connections == 0


async def test_a_stalled_look_up_ends_by_the_deadline() -> None:
    async with GuardedClient(LOOPBACK, resolver=StalledNames()) as client:
        assert await post(client, 80, host="crm.example", timeout_seconds=0.2) == NotSent(
            "timeout_before_send"
        )


async def test_a_stalled_look_up_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.wire.resolution.RESOLUTION_SECONDS_MAX", 0.1)
    async with GuardedClient(LOOPBACK, resolver=StalledNames()) as client:
        assert await post(client, 80, host="crm.example", timeout_seconds=30) == NotSent(
            "dns_failed"
        )


async def test_the_second_address_is_tried_when_the_first_refuses(serve: Serve) -> None:
    server = await serve(answering(OK), host="127.0.0.3")
    names = Names(["127.0.0.2", "127.0.0.3"])
    async with GuardedClient(LOOPBACK, resolver=names) as client:
        assert isinstance(await post(client, server.port, host="crm.example"), Answered)


@pytest.mark.parametrize("host", ODD_HOSTS)
async def test_no_spelling_of_a_private_address_makes_a_connection(
    serve: Serve, strict_client: GuardedClient, host: str
) -> None:
    server = await serve(answering(OK))
    assert isinstance(await post(strict_client, server.port, host=host), NotSent)
    url = f"http://[{host}]:{server.port}/" if ":" in host else f"http://{host}:{server.port}/"
    try:
        target = parse_target(url)
    except InvalidTarget:
        pass
    else:
        assert await post(strict_client, server.port, host=target.host) == NotSent("address_denied")
    assert server.connections == 0


async def test_a_denied_address_is_the_same_whether_or_not_somebody_listens(
    serve: Serve, strict_client: GuardedClient
) -> None:
    server = await serve(answering(OK))
    answers = [
        await post(strict_client, port, host="127.0.0.1") for port in (server.port, 1, 65535)
    ]
    assert answers == [NotSent("address_denied")] * 3


async def test_a_literal_of_the_sixth_version_can_be_reached_when_allowed(serve: Serve) -> None:
    try:
        server = await serve(answering(OK), host="::1")
    except OSError:
        pytest.skip("no IPv6 here")
    async with GuardedClient(LOOPBACK) as client:
        assert isinstance(await post(client, server.port, host="::1"), Answered)
