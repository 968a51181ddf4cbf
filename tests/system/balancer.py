"""One address in front of several replicas: a connection goes to one that is ready, and to the next if it is not there.

It knows nothing of HTTP but the readiness that it asks for. A connection once given to a replica stays with it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CHECK_SECONDS = 0.1
CHECK_SECONDS_MAX = 2.0


@dataclass(slots=True)
class Balancer:
    """Where it listens, and which replicas it finds ready."""

    ports: Sequence[int]
    url: str = ""
    ready: set[int] = field(default_factory=set)
    given: int = 0

    async def watch(self) -> None:
        """Ask every replica again and again. Ends by cancellation."""
        while True:
            async with asyncio.TaskGroup() as group:
                for port in self.ports:
                    group.create_task(self._check(port))
            await asyncio.sleep(CHECK_SECONDS)

    async def _check(self, port: int) -> None:
        line = b""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                line = await reader.readline()
                writer.close()
        if line.startswith(b"HTTP/1.1 200"):
            self.ready.add(port)
        else:
            self.ready.discard(port)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give one connection to a replica."""
        with contextlib.suppress(OSError, ExceptionGroup):
            for port in self._choice():
                try:
                    there, back = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    continue
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pump(reader, back))
                    group.create_task(_pump(there, writer))
                break
        writer.close()

    def _choice(self) -> list[int]:
        ports = sorted(self.ready)
        self.given += 1
        turn = self.given % len(ports) if ports else 0
        return ports[turn:] + ports[:turn]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def balancing(urls: Sequence[str]) -> AsyncIterator[Balancer]:
    """A balancer in front of these replicas."""
    balancer = Balancer([urlsplit(url).port or 0 for url in urls])
    server = await asyncio.start_server(balancer.carry, "127.0.0.1", 0, backlog=200)
    balancer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(balancer.watch())
        try:
            yield balancer
        finally:
            watching.cancel()
            server.close()
