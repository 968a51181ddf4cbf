"""Raw socket servers that behave as badly as a test wants, and clients that may reach them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Server:
    """A listener on loopback: where it is, how often it was connected to, and what it was sent."""

    host: str
    port: int
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)

    async def read(self, reader: asyncio.StreamReader) -> bytes:
        """One whole request, kept in `requests`."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        request = head + await reader.readexactly(length)
        self.requests.append(request)
        return request


@asynccontextmanager
async def listening(
    behave: Callable[[Server], Behaviour], *, host: str, tls: ssl.SSLContext | None
) -> AsyncIterator[Server]:
    """A running server, all of whose connections are gone at the end."""
    writers: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None] | None] = set()
    server = Server(host, 0)
    behaviour = behave(server)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        writers.append(writer)
        tasks.add(asyncio.current_task())
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await behaviour(reader, writer)
        writer.close()

    listener = await asyncio.start_server(connected, host, 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            if task is not None:
                task.cancel()
        for writer in writers:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
        for task in tasks:
            if task is not None:
                await asyncio.wait([task])


Serve = Callable[..., Awaitable[Server]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(behave, host=…, tls=…)`: a server whose connections all run `behave(server)`."""
    async with AsyncExitStack() as stack:

        async def start(
            behave: Callable[[Server], Behaviour],
            *,
            host: str = "127.0.0.1",
            tls: ssl.SSLContext | None = None,
        ) -> Server:
            return await stack.enter_async_context(listening(behave, host=host, tls=tls))

        yield start


@pytest.fixture
async def client() -> AsyncIterator[GuardedClient]:
    """A client of an installation that allows loopback."""
    policy = AddressPolicy((ip_network("127.0.0.0/8"), ip_network("::1/128")))
    async with GuardedClient(policy) as opened:
        yield opened


@pytest.fixture
async def strict_client() -> AsyncIterator[GuardedClient]:
    """A client of an installation that allows nothing private."""
    async with GuardedClient(AddressPolicy()) as opened:
        yield opened
