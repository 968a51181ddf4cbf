"""Destinations that misbehave: they act and cut, drip, lie, redirect, ask for patience, and answer without end.

What arrived is written down before it is answered, and the answer before its first byte leaves.
"""

import asyncio
import contextlib
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tests.history.log import Answered, Log, Received, encode, now

HEAD_BYTES_MAX = 65536
HUGE_BYTES = 3 << 20
DRIPS_MAX = 40
DRIP_SECONDS = 0.1
SLOW_SECONDS = 0.4


class Mood(StrEnum):
    """How one request is answered. All but the last few act on it."""

    FINE = "fine"
    SLOW = "slow"
    CUT_AFTER_ACTING = "cut after acting"
    CUT_BODY = "2xx and then cut"
    HUGE = "2xx with a huge answer"
    DRIP = "drips its head"
    LIE = "500 after acting"
    THROTTLE = "429 with Retry-After"
    BUSY = "503"
    REDIRECT = "redirect"
    REFUSE = "422"
    GARBAGE = "no HTTP"


# Of a hundred requests, while there are faults. What ends a message for good is rare, and operators bring it back.
SHARES: Mapping[Mood, int] = {
    Mood.FINE: 72,
    Mood.SLOW: 6,
    Mood.CUT_AFTER_ACTING: 4,
    Mood.CUT_BODY: 2,
    Mood.HUGE: 1,
    Mood.DRIP: 1,
    Mood.LIE: 4,
    Mood.THROTTLE: 3,
    Mood.BUSY: 3,
    Mood.REDIRECT: 1,
    Mood.REFUSE: 2,
    Mood.GARBAGE: 1,
}

_STATUS: Mapping[Mood, bytes] = {
    Mood.FINE: b"204 No Content",
    Mood.SLOW: b"200 OK",
    Mood.CUT_BODY: b"200 OK",
    Mood.HUGE: b"202 Accepted",
    Mood.LIE: b"500 Internal Server Error",
    Mood.THROTTLE: b"429 Too Many Requests",
    Mood.BUSY: b"503 Service Unavailable",
    Mood.REDIRECT: b"307 Temporary Redirect",
    Mood.REFUSE: b"422 Unprocessable Content",
}


@dataclass(slots=True)
class Receivers:
    """One server for all destinations; the first segment of a path is the destination's name.

    `arrivals` counts how often each key came, `moods` what was done about it; `trapped` what followed a redirect.
    """

    log: Log
    rng: random.Random
    obliging: bool = False
    port: int = 0
    arrivals: Counter[str] = field(default_factory=Counter)
    moods: Counter[str] = field(default_factory=Counter)
    trapped: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def close(self) -> None:
        """Cut every connection, and wait until nobody serves one."""
        while self._open:
            for writer in self._open:
                writer.transport.abort()
            await asyncio.sleep(0)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        request_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        body, complete = await _body(reader, headers)
        path = request_line.split(" ")[1]
        self.trapped += path == "/trap"
        name, key = secrets.token_hex(8), headers.get("idempotency-key", "")
        self.log(
            Received(
                request=name,
                at=now(),
                destination=path.strip("/"),
                key=key,
                body_base64=encode(body),
                complete=complete,
                webhook_id=headers.get("webhook-id"),
                content_type=headers.get("content-type"),
            )
        )
        if not complete:
            self.log(Answered(name, now(), None))
            return False
        self.arrivals[key] += 1
        mood = Mood.FINE if self.obliging else self._mood()
        self.moods[mood] += 1
        return await self._answer(mood, name, writer)

    def _mood(self) -> Mood:
        (mood,) = self.rng.choices(list(SHARES), weights=list(SHARES.values()))
        return mood

    async def _answer(self, mood: Mood, name: str, writer: asyncio.StreamWriter) -> bool:
        if mood is Mood.SLOW:
            await asyncio.sleep(SLOW_SECONDS)
        status = _STATUS.get(mood)
        self.log(Answered(name, now(), int(status[:3]) if status else None))
        match mood:
            case Mood.CUT_AFTER_ACTING:
                return False
            case Mood.GARBAGE:
                writer.write(b"\x00\x01 this is no answer \xff\r\n\r\n")
                await writer.drain()
                return False
            case Mood.DRIP:
                for byte in (b"HTTP/1.1 200 OK\r\nX-Patience: " + b"z" * DRIPS_MAX)[:DRIPS_MAX]:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(DRIP_SECONDS)
                return False
            case Mood.CUT_BODY:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of it")
                await writer.drain()
                await asyncio.sleep(DRIP_SECONDS)
                return False
            case _:
                pass
        assert status is not None
        size = HUGE_BYTES if mood is Mood.HUGE else 0
        writer.write(b"HTTP/1.1 %b\r\n%b" % (status, _MORE.get(mood, b"")))
        if mood is not Mood.FINE:
            writer.write(b"Content-Length: %d\r\n" % size)
        writer.write(b"\r\n" + bytes(size))
        await writer.drain()
        return True


_MORE: Mapping[Mood, bytes] = {
    Mood.THROTTLE: b"Retry-After: 1\r\n",
    Mood.REDIRECT: b"Location: /trap\r\n",
}


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> tuple[bytes, bool]:
    """The body, and whether it is all there."""
    try:
        if headers.get("transfer-encoding") != "chunked":
            return await reader.readexactly(int(headers.get("content-length", "0"))), True
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += await reader.readexactly(size + 2)
            body = body[:-2]
        await reader.readuntil(b"\r\n")
    except (asyncio.IncompleteReadError, OSError):
        return b"", False
    return body, True


@contextlib.asynccontextmanager
async def open_receivers(log: Log, rng: random.Random) -> AsyncIterator[Receivers]:
    """Listen on a port of loopback until the context ends."""
    receivers = Receivers(log, rng)
    server = await asyncio.start_server(receivers.serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
    receivers.port = server.sockets[0].getsockname()[1]
    try:
        yield receivers
    finally:
        server.close()
        await receivers.close()
        await server.wait_closed()
