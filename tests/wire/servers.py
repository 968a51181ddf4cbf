"""Raw socket servers that behave as badly as a test wants."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_network

from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.exchange import Exchange
from app.wire.target import Target

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LOOPBACK = AddressPolicy((ip_network("127.0.0.0/8"), ip_network("::1/128")))


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


Behaviour = Callable[[Server], Talk]
Serve = Callable[..., Awaitable[Server]]


@asynccontextmanager
async def listening(
    behave: Behaviour, *, host: str, tls: ssl.SSLContext | None
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


def answering(*pieces: bytes, close: bool = False) -> Behaviour:
    """Reads each request whole and answers it with `pieces`."""

    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await server.read(reader)
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                if close:
                    return

        return talk

    return behave


def dripping(head: bytes, *, drop: bytes) -> Behaviour:
    """Reads a request, answers `head`, and goes on with a little for as long as it is listened to."""

    def behave(server: Server) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(head)
            while True:
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(0.02)

        return talk

    return behave


def silent(_server: Server) -> Talk:
    async def talk(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    return talk


def closing(_server: Server) -> Talk:
    async def talk(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        return

    return talk


def resetting(server: Server) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.transport.abort()

    return talk


async def post(
    client: GuardedClient,
    port: int,
    *,
    host: str = "127.0.0.1",
    scheme: str = "http",
    path: str = "/hook",
    headers: dict[str, str] | None = None,
    body: bytes = b"{}",
    timeout_seconds: float = 5.0,
    answer_bytes_max: int = 1000,
    group: str = "crm",
) -> Exchange:
    """One request with what a test changes in it."""
    return await client.post(
        Target(scheme, host, port, path),
        headers=headers or {},
        body=body,
        timeout_seconds=timeout_seconds,
        answer_bytes_max=answer_bytes_max,
        connection_group=group,
    )
