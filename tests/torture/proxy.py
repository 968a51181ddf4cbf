"""A TCP proxy that breaks connections on purpose: at a commit, at a byte, for a while, or all at once.

Snags are armed, and met once each by whichever connection comes to them first. Everything else lasts until `heal`.
"""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from tests.torture.frames import READY, ClientFrames, Piece

READ_BYTES_MAX = 65536
CONNECT_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 5.0
SNAGS_ARMED_MAX = 64

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]


class Way(StrEnum):
    """The two directions of a connection, seen from whoever opened it."""

    OUT = "out"
    BACK = "back"


class At(StrEnum):
    """Where a snag cuts."""

    BEFORE_COMMIT = "before_commit"
    BEFORE_ANSWER_OF_COMMIT = "before_answer_of_commit"
    AFTER_ANSWER_OF_COMMIT = "after_answer_of_commit"
    BYTE = "byte"


@dataclass(frozen=True, slots=True)
class Snag:
    """One cut to come. `way` and `byte` are of `At.BYTE`: so many bytes of what is next read still pass."""

    at: At
    way: Way = Way.OUT
    byte: int = 0


@dataclass(slots=True, eq=False)
class _Link:
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    frames: ClientFrames | None
    committing: Snag | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    def cut(self) -> None:
        """Reset both sides: what is still buffered is lost."""
        for writer in (self.client, self.server):
            known = writer.get_extra_info("socket")
            if known is not None and known.family == socket.AF_INET:
                with contextlib.suppress(OSError):
                    known.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


@dataclass(slots=True)
class Proxy:
    """Stands before one server, for one client or many. `snagged` counts the cuts that were made."""

    name: str
    connect: Connect
    speaks_postgres: bool
    port: int = 0
    delay_seconds: float = 0.0
    bytes_a_second: float | None = None
    snagged: Counter[str] = field(default_factory=Counter)
    _armed: list[Snag] = field(default_factory=list)
    _links: set[_Link] = field(default_factory=set)
    _holes: dict[Way, asyncio.Event] = field(default_factory=dict)

    def arm(self, *snags: Snag) -> None:
        """Have the next connections that come to these places cut there."""
        self._armed.extend(snags)
        del self._armed[:-SNAGS_ARMED_MAX]

    def disarm(self, *snags: Snag) -> None:
        """Take back those that nobody has met."""
        for snag in snags:
            if snag in self._armed:
                self._armed.remove(snag)

    def swallow(self, *ways: Way) -> None:
        """Let nothing through in these directions; nobody is told, as by a dead switch."""
        for way in ways:
            self._holes.setdefault(way, asyncio.Event())

    def heal(self) -> None:
        """Pass everything on again, what was held back first."""
        self._armed.clear()
        self.delay_seconds, self.bytes_a_second = 0.0, None
        for way in list(self._holes):
            self._holes.pop(way).set()

    def reset(self) -> None:
        """Cut all connections now."""
        for link in list(self._links):
            link.cut()
            self.snagged["reset"] += 1

    async def close(self) -> None:
        """Cut everything, and wait until nothing is passed on."""
        self.heal()
        while self._links:
            for link in list(self._links):
                link.cut()
            await asyncio.sleep(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one connection, until either side ends it or a snag does."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                back, out = await self.connect()
        except (OSError, TimeoutError):
            writer.transport.abort()
            return
        link = _Link(writer, out, ClientFrames() if self.speaks_postgres else None)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(link, reader, out, Way.OUT))
                group.create_task(self._pump(link, back, writer, Way.BACK))
        finally:
            self._links.discard(link)
            link.cut()

    async def _pump(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(READ_BYTES_MAX):
                await self._hinder(way, len(data))
                if not await self._pass_on(link, data, writer, way):
                    break
            else:
                # Held back too: an end must not overtake what was written before it.
                await self._hinder(way, 0)
                if way is Way.OUT or not link.committing:
                    writer.write_eof()
                return
        link.cut()

    async def _hinder(self, way: Way, size: int) -> None:
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        if self.bytes_a_second is not None:
            await asyncio.sleep(size / self.bytes_a_second)
        hole = self._holes.get(way)
        if hole is not None:
            await hole.wait()

    async def _pass_on(
        self, link: _Link, data: bytes, writer: asyncio.StreamWriter, way: Way
    ) -> bool:
        """Write what arrived, or as much as a snag lets through; False when the connection is cut."""
        snag = self._met(At.BYTE, way=way)
        if snag is not None:
            writer.write(data[: snag.byte % len(data)])
            await writer.drain()
            return False
        if way is Way.BACK:
            return await self._answer(link, data, writer)
        pieces = [Piece(data)] if link.frames is None else link.frames.feed(data)
        for piece in pieces:
            if not await self._ask(link, piece, writer):
                return False
        return True

    async def _ask(self, link: _Link, piece: Piece, writer: asyncio.StreamWriter) -> bool:
        snag = self._met(*_COMMIT_SNAGS) if piece.commits else None
        if snag is not None and snag.at is At.BEFORE_COMMIT:
            return False
        link.committing = snag
        writer.write(piece.data)
        await writer.drain()
        if snag is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    await link.answered.wait()
            return False
        return True

    async def _answer(self, link: _Link, data: bytes, writer: asyncio.StreamWriter) -> bool:
        snag = link.committing
        if snag is None or snag.at is At.AFTER_ANSWER_OF_COMMIT:
            writer.write(data)
            await writer.drain()
        if snag is not None and data[-6:-1] == READY:
            link.answered.set()
        return True

    def _met(self, *places: At, way: Way | None = None) -> Snag | None:
        for snag in self._armed:
            if snag.at in places and way in (None, snag.way):
                self._armed.remove(snag)
                self.snagged[snag.at] += 1
                return snag
        return None


_COMMIT_SNAGS = (At.BEFORE_COMMIT, At.BEFORE_ANSWER_OF_COMMIT, At.AFTER_ANSWER_OF_COMMIT)


@contextlib.asynccontextmanager
async def open_proxy(
    name: str, connect: Connect, *, speaks_postgres: bool = False
) -> AsyncIterator[Proxy]:
    """Listen on a port of loopback until the context ends."""
    proxy = Proxy(name, connect, speaks_postgres)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=READ_BYTES_MAX)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()
