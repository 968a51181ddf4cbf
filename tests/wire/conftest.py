"""Servers that end with their test, and clients that may reach them or not."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvloop

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from tests.wire.loops import Run
from tests.wire.servers import LOOPBACK, Behaviour, Serve, Server, listening


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(behave, host=…, tls=…)`: a server whose connections all run `behave(server)`."""
    async with AsyncExitStack() as stack:

        async def start(
            behave: Behaviour,
            *,
            host: str = "127.0.0.1",
            tls: ssl.SSLContext | None = None,
        ) -> Server:
            return await stack.enter_async_context(listening(behave, host=host, tls=tls))

        yield start


@pytest.fixture
async def client() -> AsyncIterator[GuardedClient]:
    """A client of an installation that allows loopback."""
    async with GuardedClient(LOOPBACK) as opened:
        yield opened


@pytest.fixture
async def strict_client() -> AsyncIterator[GuardedClient]:
    """A client of an installation that allows nothing private."""
    async with GuardedClient(AddressPolicy()) as opened:
        yield opened


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


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run
