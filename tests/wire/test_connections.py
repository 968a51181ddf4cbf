"""Where connections lead, and when one may be used again."""

import asyncio
import ssl
import subprocess
import warnings
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.exchange import Answered, Cut, Exchange, NotSent
from app.wire.target import InvalidTarget, Target, parse_target

Serve = Callable[..., Awaitable[Any]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LOOPBACK = AddressPolicy((ip_network("127.0.0.0/8"), ip_network("::1/128")))
ONE_ADDRESS = AddressPolicy((ip_network("127.0.0.1/32"),))


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


class Names:
    """A name server under the test's control: each look-up takes the next answer, the last one for
    ever.
    """

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, host: str, *, port: int) -> Sequence[IPv4Address | IPv6Address]:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        assert port > 0
        self.asked.append(host)
        if isinstance(answer, OSError):
            raise answer
        return [ip_address(address) for address in answer]


class StalledNames:
    """A name server that never answers."""

    async def __call__(self, host: str, *, port: int) -> Sequence[IPv4Address]:
        await asyncio.sleep(60)
        raise OSError(host, port)


async def post(
    client: GuardedClient,
    port: int,
    *,
    host: str = "crm.example",
    scheme: str = "http",
    group: str = "crm",
    timeout_seconds: float = 5.0,
) -> Exchange:
    return await client.post(
        Target(scheme, host, port, "/"),
        headers={},
        body=b"{}",
        timeout_seconds=timeout_seconds,
        answer_bytes_max=1000,
        connection_group=group,
    )


async def test_a_name_leads_to_its_vetted_address_and_stays_in_the_request(serve: Serve) -> None:
    server = await serve(answering(OK))
    names = Names(["127.0.0.1"])
    async with GuardedClient(LOOPBACK, resolver=names) as client:
        assert isinstance(await post(client, server.port), Answered)
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
            assert await post(client, port) == NotSent("address_denied")
    assert (server.connections, open_one.connections) == (0, 0)


@pytest.mark.parametrize("answer", [[], OSError("no"), TimeoutError()])
async def test_a_name_without_an_address_is_not_sent_to(answer: Any) -> None:
    async with GuardedClient(LOOPBACK, resolver=Names(answer)) as client:
        assert await post(client, 80) == NotSent("dns_failed")


async def test_a_name_that_turns_inside_is_judged_at_each_new_connection(serve: Serve) -> None:
    outside = await serve(answering(OK, close=True), host="127.0.0.1")
    inside = await serve(answering(OK), host="127.0.0.2")
    async with GuardedClient(ONE_ADDRESS, resolver=Names(["127.0.0.1"], ["127.0.0.2"])) as client:
        assert isinstance(await post(client, outside.port), Answered)
        for _ in range(20):
            assert await post(client, inside.port) == NotSent("address_denied")
    assert inside.connections == 0


async def test_a_stalled_look_up_ends_by_the_deadline() -> None:
    async with GuardedClient(LOOPBACK, resolver=StalledNames()) as client:
        assert await post(client, 80, timeout_seconds=0.2) == NotSent("timeout_before_send")


async def test_a_stalled_look_up_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.wire.resolution.RESOLUTION_SECONDS_MAX", 0.1)
    async with GuardedClient(LOOPBACK, resolver=StalledNames()) as client:
        assert await post(client, 80, timeout_seconds=30) == NotSent("dns_failed")


async def test_the_second_address_is_tried_when_the_first_refuses(serve: Serve) -> None:
    server = await serve(answering(OK), host="127.0.0.3")
    names = Names(["127.0.0.2", "127.0.0.3"])
    async with GuardedClient(LOOPBACK, resolver=names) as client:
        assert isinstance(await post(client, server.port), Answered)


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
]


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


async def test_a_connection_is_used_again_within_its_group_only(serve: Serve) -> None:
    server = await serve(answering(OK))
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        for group, connections in [("a", 1), ("a", 1), ("b", 2), ("a", 2)]:
            assert isinstance(await post(client, server.port, group=group), Answered)
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
        assert isinstance(await post(client, server.port), Answered)
        assert await post(client, server.port) == Cut("connection_cut")
    assert (server.connections, len(server.requests)) == (1, 2)


async def test_a_connection_closed_while_idle_is_replaced(serve: Serve) -> None:
    server = await serve(answering(OK, close=True))
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        for connections in (1, 2, 3):
            assert isinstance(await post(client, server.port), Answered)
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
            exchange = await post(client, server.port)
            assert isinstance(exchange, Answered)
            assert exchange.status == 200
            assert server.connections == connections
            await asyncio.sleep(0.15)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for `crm.example` and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ),
            *("-nodes", "-days", "2", "-subj", "/CN=crm.example"),
            *("-addext", "subjectAltName=DNS:crm.example", "-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def test_a_certificate_that_nobody_signed_is_not_sent_to(
    serve: Serve, certificate: tuple[Path, Path]
) -> None:
    server = await serve(answering(OK), tls=server_tls(certificate))
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        assert await post(client, server.port, scheme="https") == NotSent("tls_failed")
    assert server.requests == []


async def test_a_trusted_certificate_must_be_for_the_name_and_not_the_address(
    serve: Serve, certificate: tuple[Path, Path]
) -> None:
    server = await serve(answering(OK), tls=server_tls(certificate))
    roots = certificate[0].read_text()
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"]), extra_roots=roots) as client:
        assert isinstance(await post(client, server.port, scheme="https"), Answered)
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
        exchange = await post(client, server.port, scheme="https")
    assert exchange in (NotSent("tls_failed"), NotSent("connection_failed"))
    assert server.requests == []


async def test_a_server_that_speaks_no_tls_is_not_sent_to(serve: Serve) -> None:
    def behave(_server: Any) -> Any:
        async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)

        return talk

    server = await serve(behave)
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        assert await post(client, server.port, scheme="https") == NotSent("tls_failed")


async def test_a_stalled_handshake_ends_by_the_deadline(serve: Serve) -> None:
    def behave(_server: Any) -> Any:
        async def talk(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(60)

        return talk

    server = await serve(behave)
    async with GuardedClient(LOOPBACK, resolver=Names(["127.0.0.1"])) as client:
        exchange = await post(client, server.port, scheme="https", timeout_seconds=0.3)
    assert exchange == NotSent("timeout_before_send")
    assert server.connections == 1
