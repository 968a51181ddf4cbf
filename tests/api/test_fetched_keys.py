"""Public keys that are fetched: from a real server over TLS, outside of every request, and kept while it is away."""

import asyncio
import base64
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from jwt.algorithms import RSAAlgorithm

from app.channels import Outgoing, Wire
from app.core import now
from app.wire.client import GuardedClient
from app.workers.public_keys import AGAIN_SECONDS, FRESH_SECONDS, PublicKeys
from tests.api.conftest import Answer, Service, opened
from tests.database import Server as Postgres
from tests.providers.samples.teams_bot import APP, CASES, token
from tests.providers.signing_keys import rsa_key
from tests.wire.names import Names
from tests.wire.servers import LOOPBACK, Server, Talk, listening


@dataclass(slots=True)
class KeyServer:
    """Lists the keys of these names, while it is up."""

    listed: list[str] = field(default_factory=lambda: ["k1"])
    is_up: bool = True
    asked: list[str] = field(default_factory=list)
    port: int = 0

    def behave(self, server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                path = (await server.read(reader)).split(b" ")[1].decode()
                self.asked.append(path)
                body = json.dumps(self._said(path)).encode()
                status = b"200 OK" if self.is_up else b"503 Away"
                writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
                writer.write(body)
                await writer.drain()

        return talk

    def _said(self, path: str) -> object:
        if path == "/openid":
            return {"jwks_uri": f"https://login.example:{self.port}/keys"}
        return {"keys": [_shown(name) for name in self.listed]}


def _shown(name: str) -> dict[str, object]:
    shown = json.loads(RSAAlgorithm.to_jwk(rsa_key(name).public_key()))
    return {**shown, "kid": name, "endorsements": ["msteams"]}


@dataclass(slots=True)
class Rig:
    """A service with one bot, the server of its keys, and a clock that the test moves."""

    service: Service
    server: KeyServer
    keys: PublicKeys = field(init=False)
    seconds: float = 0.0
    sent: int = 0

    async def send(self, kid: str, *, signer: str | None = None) -> Answer:
        """One activity of its own, with the token of a key."""
        self.sent += 1
        sample = json.loads(CASES[0].samples[0].body)
        body = json.dumps({**sample, "id": f"m{self.sent}"}).encode()
        told = token(now(), kid=signer or kid)
        if signer:
            told = _under_another_name(told, kid)
        headers = {"Authorization": f"Bearer {told}", "Content-Type": "application/json"}
        path = "/v1/sources/bot"
        return await self.service.call("POST", path, scope=None, body=body, headers=headers)

    async def look(self, *, after: float = 0.0) -> None:
        self.seconds += after
        await self.keys.tick()


def _under_another_name(told: str, kid: str) -> str:
    head, payload, signature = told.split(".")
    read = json.loads(base64.urlsafe_b64decode(head + "=="))
    other = json.dumps({**read, "kid": kid}).encode()
    return ".".join((base64.urlsafe_b64encode(other).decode().rstrip("="), payload, signature))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
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


@pytest.fixture
async def rig(postgres: Postgres, certificate: tuple[Path, Path]) -> AsyncIterator[Rig]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    server = KeyServer()

    async def keep_nothing(_message: Outgoing) -> int:
        return 0

    async with (
        listening(server.behave, host="127.0.0.1", tls=tls) as listener,
        postgres.database() as url,
    ):
        server.port = listener.port
        bot: dict[str, Any] = {
            "kind": "teams_bot",
            "app_id": APP,
            "metadata_url": f"https://login.example:{listener.port}/openid",
        }
        roots, names = certificate[0].read_text(), Names(["127.0.0.1"])
        async with (
            opened(url, sources={"bot": bot}) as service,
            GuardedClient(LOOPBACK, resolver=names, extra_roots=roots) as http,
        ):
            found = Rig(service, server)
            core = replace(service.core, wire=Wire(http=http, store=keep_nothing))
            # It fetches for the running service, whose keys these are.
            assert core.fetched is service.core.fetched
            found.keys = PublicKeys(core, clock=lambda: found.seconds)
            assert found.keys.needed
            yield found


async def test_before_keys_were_fetched_nothing_is_decided_and_no_request_fetches_any(
    rig: Rig,
) -> None:
    answer = await rig.send("k1")
    assert (answer.status, answer.code) == (503, "source_not_ready")
    assert int(answer.headers["Retry-After"]) > 0
    assert rig.server.asked == []
    await rig.look()
    assert rig.server.asked == ["/openid", "/keys"]
    assert (await rig.send("k1")).status == 200
    assert rig.server.asked == ["/openid", "/keys"]


async def test_a_new_key_is_told_to_come_again_and_is_fetched_by_the_next_look(rig: Rig) -> None:
    await rig.look()
    rig.server.listed = ["k1", "k3"]
    answer = await rig.send("k3")
    assert (answer.status, answer.code) == (503, "source_not_ready")
    asked = len(rig.server.asked)
    # Too soon: it was fetched a moment ago. Nobody has to ask again.
    await rig.look(after=5)
    assert len(rig.server.asked) == asked
    await rig.look(after=AGAIN_SECONDS)
    assert len(rig.server.asked) == asked + 2
    assert (await rig.send("k3")).status == 200
    assert (await rig.send("k1")).status == 200


async def test_a_key_that_is_listed_no_more_verifies_no_more(rig: Rig) -> None:
    await rig.look()
    rig.server.listed = ["k3"]
    await rig.look(after=FRESH_SECONDS - 1)
    assert (await rig.send("k1")).status == 200
    await rig.look(after=1)
    assert (await rig.send("k1")).status == 503
    assert (await rig.send("k3")).status == 200


async def test_while_the_server_is_away_the_old_keys_hold_and_it_is_asked_again_soon(
    rig: Rig,
) -> None:
    await rig.look()
    rig.server.is_up = False
    await rig.look(after=FRESH_SECONDS)
    assert (await rig.send("k1")).status == 200
    asked = len(rig.server.asked)
    await rig.look(after=1)
    assert len(rig.server.asked) == asked
    rig.server.is_up, rig.server.listed = True, ["k3"]
    await rig.look(after=AGAIN_SECONDS)
    assert (await rig.send("k3")).status == 200


async def test_a_wrong_signature_of_a_known_key_is_refused_and_fetches_nothing(rig: Rig) -> None:
    await rig.look()
    asked = len(rig.server.asked)
    answer = await rig.send("k1", signer="k3")
    assert (answer.status, answer.code) == (401, "signature_invalid")
    await rig.look(after=AGAIN_SECONDS + 1)
    assert len(rig.server.asked) == asked


async def test_a_crowd_of_unknown_keys_is_heard_once_in_a_while(rig: Rig) -> None:
    await rig.look()
    asked = len(rig.server.asked)
    for n in range(20):
        assert (await rig.send(f"unknown-{n}", signer="k1")).status == 503
        await rig.look(after=3)
    assert len(rig.server.asked) - asked <= 2 * 2
