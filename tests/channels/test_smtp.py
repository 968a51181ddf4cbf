"""Mail over TLS, with a login and without: nothing secret in the clear, and nothing between us and the server."""

import asyncio
import ssl
import subprocess
import time
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from pydantic import ValidationError

from app.channels import Draft, Probed, Reply, Wire
from app.channels.smtp import SmtpConfig, channel
from app.domain.outcome import Delivered, Outcome, RetryLater, Shut
from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from tests.channels.conformance.fakes import REAL, mail_fake
from tests.channels.conformance.sample import outgoing
from tests.wire.names import Names

PASSWORD = "app pass wörd"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for `mx.example` and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=mx.example"),
            *("-addext", "subjectAltName=DNS:mx.example", "-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def tls_of(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def knows(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
    """The real server's question whether a login is right."""
    fits = isinstance(given, LoginPassword) and given.password == PASSWORD.encode()
    return AuthResult(success=fits and given.login == b"help", handled=False)


def settings(port: int, **changes: Any) -> SmtpConfig:
    base = {"host": "mx.example", "port": port, "from": "help@acme.example"}
    return SmtpConfig.model_validate({**base, **changes})


LOGIN = {"username": "help", "password": "env:PASSWORD"}


async def attempt(
    config: SmtpConfig, secrets: Sequence[bytes | None], *, trusted: str | None, probe: bool = False
) -> Outcome | Probed:
    draft = Draft(
        destination="mail",
        recipient="ann@user.example",
        headers={},
        content_type="application/json",
        body=b'{"text": "Hello", "subject": "Hi"}',
    )
    address = channel.check(draft, reply=None, config=config)
    policy = AddressPolicy((ip_network("127.0.0.0/8"),))
    names = Names(["127.0.0.1"])

    async def keep(_message: object) -> int:
        return 0

    async with GuardedClient(policy, resolver=names, extra_roots=trusted) as http:
        wire = Wire(http=http, store=keep, until=time.monotonic() + 5, hidden=(PASSWORD,))
        if probe:
            return await channel.probe(config=config, secrets=secrets, wire=wire)
        message = outgoing(draft, address.parts)
        return await channel.send(message, config=config, secrets=secrets, wire=wire)


async def test_a_real_server_takes_a_login_and_a_mail_behind_starttls(
    certificate: tuple[Path, Path],
) -> None:
    options = {
        "tls_context": tls_of(certificate),
        "require_starttls": True,
        "authenticator": knows,
        "auth_required": True,
    }
    async with mail_fake(REAL, **options) as fake:
        config, trusted = settings(fake.port, **LOGIN), certificate[0].read_text()
        outcome = await attempt(config, [PASSWORD.encode()], trusted=trusted)
        assert isinstance(outcome, Delivered), outcome
        assert outcome.answer is not None
        assert "queued as 4F2A" in outcome.answer.excerpt
        [letter] = fake.requests
        assert letter.recipients == ("ann@user.example",)
        probed = await attempt(config, [PASSWORD.encode()], trusted=trusted, probe=True)
        assert isinstance(probed, Probed)
        assert probed.good
        assert "took our login" in probed.words
        wrong = await attempt(config, [b"wrong"], trusted=trusted)
    assert isinstance(wrong, RetryLater)
    assert (wrong.shut, wrong.counted, wrong.reason[:8]) == (Shut.UNAUTHORIZED, False, "smtp_535")
    assert len(fake.requests) == 1


async def test_nothing_is_said_to_a_server_whose_certificate_nobody_signed(
    certificate: tuple[Path, Path],
) -> None:
    async with mail_fake(REAL, tls_context=tls_of(certificate)) as fake:
        outcome = await attempt(settings(fake.port), [], trusted=None)
    assert outcome == RetryLater("tls_failed")
    assert fake.requests == []


async def test_a_server_without_starttls_is_given_nothing() -> None:
    async with mail_fake(b"220 mx\r\n|250 mx\r\n|250 Ok\r\n") as fake:
        config = settings(fake.port, **LOGIN)
        outcome = await attempt(config, [PASSWORD.encode()], trusted=None)
    assert outcome == RetryLater("starttls_not_offered")
    assert fake.heard[:1] == [b"EHLO acme.example\r\n"]
    assert not any(b"AUTH" in one or b"MAIL" in one for one in fake.heard)


async def test_what_comes_before_tls_and_belongs_within_it_ends_the_attempt() -> None:
    injected = b"220 Go on\r\n250-mx\r\n250 AUTH PLAIN\r\n"
    async with mail_fake(b"220 mx\r\n|250-mx\r\n250 STARTTLS\r\n|" + injected) as fake:
        outcome = await attempt(settings(fake.port), [], trusted=None)
    assert outcome == RetryLater("malformed_answer")


async def test_a_server_that_repeats_our_login_shows_it_to_nobody(
    certificate: tuple[Path, Path],
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mx\r\n")
        await reader.readline()
        writer.write(b"250-mx\r\n250 AUTH PLAIN\r\n")
        login = (await reader.readline()).split()[-1]
        heard.append(login)
        writer.write(b"535 5.7.8 not " + login + b" nor " + PASSWORD.encode() + b"\r\n")
        await writer.drain()
        writer.close()

    heard: list[bytes] = []
    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls_of(certificate))
    async with server:
        port = server.sockets[0].getsockname()[1]
        config, trusted = settings(port, security="tls", **LOGIN), certificate[0].read_text()
        outcome = await attempt(config, [PASSWORD.encode()], trusted=trusted)
    assert heard
    assert isinstance(outcome, RetryLater)
    assert outcome.answer is not None
    assert outcome.answer.excerpt == "5.7.8 not *** nor ***"


async def test_tls_from_the_first_byte(certificate: tuple[Path, Path]) -> None:
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mx\r\n")
        heard.append(await reader.readline())
        writer.write(b"421 Later\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls_of(certificate))
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        config = settings(port, security="tls")
        outcome = await attempt(config, [], trusted=certificate[0].read_text())
    assert isinstance(outcome, RetryLater)
    assert (outcome.reason, heard) == ("smtp_421", [b"EHLO acme.example\r\n"])


def test_who_is_written_to_beside_the_thread_sees_nothing_of_it() -> None:
    told = {"to": "ann@user.example", "message_id": "<a@b>", "subject": "Mine"}
    reply = Reply(kind="mailgun", parts=("help@acme.example", "a@b"), capability=told)
    config = settings(25, subject="News")
    own = Draft(
        destination="mail",
        recipient=None,
        headers={},
        content_type="text/plain",
        body=b"Hello",
    )
    assert channel.check(own, reply=reply, config=config).parts == {
        "to": "ann@user.example",
        "subject": "Re: Mine",
        "references": "<a@b>",
    }
    other = Draft(
        destination="mail",
        recipient="bob@user.example",
        headers={},
        content_type="text/plain",
        body=b"Hello",
    )
    parts = channel.check(other, reply=reply, config=config).parts
    assert parts == {"to": "bob@user.example", "subject": "News"}


@pytest.mark.parametrize(
    "options",
    [
        {"host": "mx example"},
        {"host": "mx.example:25"},
        {"from": "Acme <help@acme.example>"},
        {"from": "help@acme.example\r\nBcc: x@y"},
        {"from_name": "A\nB"},
        {"to": "ann"},
        {"username": "help"},
        {"username": "help", "password": "hunter2"},
        {"username": "help", "password": "env:P", "security": "none"},
        {"message_id_domain": "acme.example>"},
    ],
)
def test_a_configuration_that_cannot_work_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as refused:
        settings(25, **options)
    assert "hunter2" not in str(refused.value)
