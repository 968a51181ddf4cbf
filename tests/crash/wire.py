"""A socket between the service and its Postgres that is cut at a chosen request: before it, behind it, or before its
answer is read.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

CHUNK_BYTES = 1 << 16
# Ready for query, whatever the transaction's state, which is the byte behind.
READY = b"Z\x00\x00\x00\x05"


class Cut(StrEnum):
    """Where the socket is cut."""

    BEFORE = "before it is sent"
    SENT = "as soon as it is sent"
    ANSWERED = "after it is done, before its answer is read"


@dataclass(slots=True)
class Wire:
    """Counts the requests of one verb call, and cuts at one of them. None cuts nowhere."""

    server: str
    at: int | None = None
    cut: Cut = Cut.BEFORE
    requests: int = 0
    port: int = 0

    def url(self, url: str) -> str:
        """The same database, through this wire."""
        parts = urlsplit(url)
        user = parts.username or "postgres"
        return f"postgresql://{user}@127.0.0.1:{self.port}{parts.path}?sslmode=disable"


@contextlib.asynccontextmanager
async def stretched(
    url: str, *, at: int | None = None, cut: Cut = Cut.BEFORE
) -> AsyncIterator[Wire]:
    """A wire to the server of a URL, for as long as the context lasts."""
    wire = Wire(_socket_of(url), at, cut)
    async with asyncio.TaskGroup() as group:

        async def connected(
            client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter
        ) -> None:
            # A server that starts tasks of its own would leave them behind the context.
            await group.create_task(_carry(wire, client_in, client_out))

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        wire.port = server.sockets[0].getsockname()[1]
        try:
            yield wire
        finally:
            server.close()


def _socket_of(url: str) -> str:
    parts = urlsplit(url)
    folder = parse_qs(parts.query)["host"][0]
    return f"{folder}/.s.PGSQL.{parts.port or 5432}"


async def _carry(
    wire: Wire, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter
) -> None:
    server_in, server_out = await asyncio.open_unix_connection(wire.server)
    session = _Session(wire, client_out, server_out)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.requests(client_in))
            group.create_task(session.answers(server_in))
    except* (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        session.sever()


@dataclass(slots=True)
class _Session:
    wire: Wire
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    swallows: bool = False

    def sever(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()

    async def requests(self, client: asyncio.StreamReader) -> None:
        """Pass on what the client asks, request by request."""
        head = await client.readexactly(4)
        self.server.write(head + await client.readexactly(int.from_bytes(head, "big") - 4))
        unit, asks = b"", False
        while True:
            head = await client.readexactly(5)
            body = await client.readexactly(int.from_bytes(head[1:], "big") - 4)
            unit += head + body
            kind = head[:1]
            asks = asks or kind in (b"E", b"Q")
            if kind not in (b"S", b"Q", b"H", b"X", b"p"):
                continue
            if asks:
                self._request(unit)
            else:
                self.server.write(unit)
            unit, asks = b"", False

    def _request(self, unit: bytes) -> None:
        here = self.wire.requests == self.wire.at
        self.wire.requests += 1
        if here and self.wire.cut is Cut.BEFORE:
            raise ConnectionError
        self.swallows = here and self.wire.cut is Cut.ANSWERED
        self.server.write(unit)
        if here and self.wire.cut is Cut.SENT:
            raise ConnectionError

    async def answers(self, server: asyncio.StreamReader) -> None:
        """Pass on what the server says, or throw it away once it is all there."""
        last = b""
        while chunk := await server.read(CHUNK_BYTES):
            if not self.swallows:
                self.client.write(chunk)
                continue
            last = (last + chunk)[-len(READY) - 1 :]
            if last[:-1] == READY:
                raise ConnectionError
        raise ConnectionError
