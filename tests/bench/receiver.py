"""The receiver, as a process of its own: answers 204 at once and notes when each key arrived first.

Prints its port. A line on stdin is answered with what arrived since it was reset: `count`, `times` or `reset`.
"""

import asyncio
import json
import re
import sys
import time
from typing import Final, cast

import uvloop

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_KEY: Final = re.compile(rb"\r\nidempotency-key: *([^\r]+)", re.IGNORECASE)
_FINE: Final = b"HTTP/1.1 204 No Content\r\n\r\n"

arrived: dict[str, float] = {}
span: list[float] = [0.0, 0.0]


class Receiver(asyncio.Protocol):
    """One connection that stays open."""

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        buffer = self._buffer + data
        while (head := buffer.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(buffer, 0, head + 2)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(buffer) < end:
                break
            key = _KEY.search(buffer, 0, head + 2)
            if key:
                arrived.setdefault(key[1].decode(), now)
                span[0] = span[0] or now
                span[1] = now
            buffer = buffer[end:]
            assert self._transport is not None
            self._transport.write(_FINE)
        self._buffer = buffer


async def main() -> None:
    """Serve until stdin ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Receiver, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while order := (await orders.readline()).decode().strip():
        answer: object = {"count": len(arrived), "span": span}
        if order == "times":
            answer = arrived
        elif order == "reset":
            arrived.clear()
            span[:] = [0.0, 0.0]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
