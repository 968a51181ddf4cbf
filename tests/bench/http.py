"""The least of an HTTP/1.1 client that measures: prepared bytes out, status and body in, nothing else in between."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Final, cast

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CONNECT_SECONDS_MAX: Final = 10.0

# Status and body of an answer.
Answered = Callable[["Line", int, bytes], None]


def post(path: str, *, key: str, headers: str = "") -> bytes:
    """The head of a POST up to its length; `body_of` adds the rest."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\n{headers}Content-Length: "
    ).encode()


def body_of(head: bytes, body: bytes) -> bytes:
    """A whole request."""
    return b"%b%d\r\n\r\n%b" % (head, len(body), body)


class Line(asyncio.Protocol):
    """One connection, with one request on it at a time."""

    def __init__(self, answered: Answered) -> None:
        self.sent_at = 0.0
        self.busy = False
        self._answered = answered
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, request: bytes, *, at: float) -> None:
        """Send a request; `at` is when it was to be sent."""
        assert self._transport is not None
        self.sent_at, self.busy = at, True
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        head = buffer.find(b"\r\n\r\n")
        if head >= 0:
            found = _LENGTH.search(buffer, 0, head + 2)
            end = head + 4 + (int(found[1]) if found else 0)
            if len(buffer) >= end:
                self._buffer, self.busy = buffer[end:], False
                self._answered(self, int(buffer[9:12]), buffer[head + 4 : end])
                return
        self._buffer = buffer

    def connection_lost(self, exc: Exception | None) -> None:
        if self.busy and not self._closed:
            self.busy = False
            self._answered(self, 0, str(exc).encode())

    def close(self) -> None:
        self._closed = True
        if self._transport is not None:
            self._transport.close()


async def connect(host: str, port: int, answered: Answered) -> Line:
    """Open one connection."""
    async with asyncio.timeout(CONNECT_SECONDS_MAX):
        _, line = await asyncio.get_running_loop().create_connection(
            lambda: Line(answered), host, port
        )
    return line


class Caller:
    """One connection for who waits for each answer."""

    def __init__(self) -> None:
        self._line: Line | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def open(self, host: str, port: int) -> "Caller":
        """Connect."""
        self._line = await connect(host, port, self._answered)
        return self

    def _answered(self, _line: Line, status: int, body: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((status, body))

    async def call(self, request: bytes) -> tuple[int, bytes]:
        """Send, and wait for status and body; status 0 where the connection broke."""
        assert self._line is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._line.send(request, at=time.monotonic())
        return await self._answer

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
