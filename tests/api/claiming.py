"""Claims that wait, and clients that do not."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

from tests.api.conftest import Service

Wanted = Callable[[int], bool]


async def seated(service: Service, queue: str) -> None:
    """Return once somebody serves the line of a queue."""
    waiting = service.core.wakes._waiting  # noqa: SLF001 - nothing else tells that somebody waits
    async with asyncio.timeout(5):
        while not waiting.get(f"queue/{queue}"):
            await asyncio.sleep(0.005)


class Client:
    """A client that can leave at any moment."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def claim(self, **fields: Any) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._service.port)
        body = json.dumps({"queue": "default", "agent": "leaver", **fields}).encode()
        head = (
            "POST /v1/turns/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self._service.keys['agent']}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)

    async def leave(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
