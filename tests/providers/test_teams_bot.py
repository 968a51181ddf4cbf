"""A bot's token: for this bot, of this issuer, and for the URL that is answered at; its keys come over TLS alone."""

import json
import ssl
import subprocess
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jwt.algorithms import RSAAlgorithm
from pydantic import ValidationError

from app.domain.bearer_token import TokenKey
from app.domain.webhook import KEY_UNKNOWN, Batch, Keys, Refused, Result
from app.providers.teams_bot import provider
from app.wire.client import GuardedClient
from tests.providers.cases import cases_of, config_of, with_headers
from tests.providers.samples.teams_bot import APP, NOW, token
from tests.providers.signing_keys import rsa_key
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, Behaviour, Server, answering, listening

(CASE,) = cases_of("teams_bot")
SAID = CASE.samples[0].request


def refused(told: str, **other: Any) -> Refused:
    request = with_headers(SAID, authorization=f"Bearer {told}")
    with pytest.raises(Refused) as found:
        replace(CASE, **other).receive(provider, request)
    return found.value


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another-app"},
        {"aud": [APP]},
        {"aud": None},
        {"iss": "https://api.botframework.us"},
        {"iss": "https://api.botframework.com/"},
        {"iss": None},
        {"serviceurl": "https://evil.example/"},
        {"serviceurl": None},
        {"serviceurl": ""},
    ],
)
def test_a_token_for_anybody_else_is_refused(claims: dict[str, object]) -> None:
    assert refused(token(NOW, claims=claims)).result is Result.BAD_SIGNATURE


def test_the_claim_of_the_service_may_be_written_either_way() -> None:
    service = json.loads(SAID.body)["serviceUrl"]
    told = token(NOW, claims={"serviceurl": None, "serviceUrl": service})
    read = CASE.receive(provider, with_headers(SAID, authorization=f"Bearer {told}"))
    assert isinstance(read, Batch)


def test_a_key_speaks_only_for_channels_that_it_is_endorsed_for() -> None:
    assert refused(token(NOW, kid="k2")).reason == "channel_not_endorsed"
    every = Keys({"k2": TokenKey(rsa_key("k2").public_key())})
    request = with_headers(SAID, authorization=f"Bearer {token(NOW, kid='k2')}")
    assert isinstance(replace(CASE, keys=every).receive(provider, request), Batch)


def test_a_government_s_cloud_has_an_issuer_of_its_own() -> None:
    options = {**CASE.options, "cloud": "us_government"}
    assert refused(token(NOW), options=options).reason == "token_of_somebody_else"
    told = token(NOW, claims={"iss": "https://api.botframework.us"})
    request = with_headers(SAID, authorization=f"Bearer {told}")
    assert isinstance(replace(CASE, options=options).receive(provider, request), Batch)


def test_nothing_is_decided_without_keys_or_with_an_unknown_one() -> None:
    assert refused(token(NOW), keys=None).result is Result.NOT_READY
    unknown = refused(token(NOW, kid="k9"))
    assert (unknown.result, unknown.reason) == (Result.NOT_READY, KEY_UNKNOWN)


@pytest.mark.parametrize("app_id", ["", "x" * 101, None])
def test_a_bot_has_an_id(app_id: str | None) -> None:
    with pytest.raises(ValidationError):
        config_of(provider, {"app_id": app_id})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for `login.example` and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=login.example"),
            *("-addext", "subjectAltName=DNS:login.example", "-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def answer(told: object, status: str = "200 OK") -> bytes:
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Login:
    """The two documents of a login server: where keys are listed, and the list."""

    def __init__(self, certificate: tuple[Path, Path]) -> None:
        self.roots = certificate[0].read_text()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(*certificate)

    async def keys(
        self, *, document: Any = None, listed: bytes | None = None, scheme: str = "https"
    ) -> tuple[Keys | None, Server]:
        """What a bot fetches from it; `document` is what it says instead of where its list is."""
        shown = json.loads(RSAAlgorithm.to_jwk(rsa_key("k1").public_key()))
        good = answer({"keys": [{**shown, "kid": "k1", "endorsements": ["msteams"]}]})
        async with AsyncExitStack() as stack:

            async def start(behave: Behaviour, *, tls: ssl.SSLContext | None) -> Server:
                return await stack.enter_async_context(listening(behave, host="127.0.0.1", tls=tls))

            second = await start(
                answering(listed or good), tls=self.tls if scheme == "https" else None
            )
            told = {"jwks_uri": f"{scheme}://login.example:{second.port}/keys"}
            first = await start(
                answering(answer(told) if document is None else document), tls=self.tls
            )
            config = config_of(
                provider,
                {"app_id": APP, "metadata_url": f"https://login.example:{first.port}/openid"},
            )
            names = Names(["127.0.0.1"])
            async with GuardedClient(LOOPBACK, resolver=names, extra_roots=self.roots) as wire:
                return await provider.refresh(config=config, wire=wire), second


@pytest.fixture
def login(certificate: tuple[Path, Path]) -> Login:
    return Login(certificate)


async def test_keys_are_fetched_from_where_the_issuer_lists_them_and_verify(login: Login) -> None:
    keys, _ = await login.keys()
    assert keys is not None
    request = with_headers(SAID, authorization=f"Bearer {token(NOW)}")
    assert isinstance(replace(CASE, keys=keys).receive(provider, request), Batch)


@pytest.mark.parametrize(
    "document",
    [
        answer({"jwks_uri": 1}),
        answer({}),
        answer([]),
        answer(b"<html>"),
        answer({"jwks_uri": "http://login.example/keys"}),
        answer({"jwks_uri": "file:///etc/passwd"}),
        answer({"jwks_uri": "https://login.example/keys"}, "500 No"),
        b"HTTP/1.1 302 Found\r\nLocation: https://login.example/\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_keys_that_nobody_lists_are_not_had(login: Login, document: bytes) -> None:
    keys, second = await login.keys(document=document)
    assert keys is None
    assert second.requests == []


async def test_keys_are_not_taken_from_the_clear(login: Login) -> None:
    keys, second = await login.keys(scheme="http")
    assert keys is None
    assert second.connections == 0


@pytest.mark.parametrize(
    "listed",
    [answer({"keys": []}), answer(b"{"), answer({}, "404 Not Found"), answer(b"[" * 100_000)],
)
async def test_a_list_without_keys_leaves_the_old_ones(login: Login, listed: bytes) -> None:
    keys, second = await login.keys(listed=listed)
    assert keys is None
    assert len(second.requests) == 1
