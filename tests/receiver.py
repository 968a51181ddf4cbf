"""A real receiver on loopback, that answers as it is told and remembers what it got."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived."""

    key: str
    body: bytes
    headers: dict[str, str]


Answer = Callable[[Request], Awaitable[web.StreamResponse]]


async def fine(_request: Request) -> web.StreamResponse:
    """204, at once."""
    return web.Response(status=204)


def status(code: int, **headers: str) -> Answer:
    """Always this status."""

    async def answer(_request: Request) -> web.StreamResponse:
        return web.Response(
            status=code, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    return answer


@dataclass(slots=True)
class Receiver:
    """Where messages arrive. `answer` may be changed at any time."""

    url: str = ""
    answer: Answer = fine
    got: list[Request] = field(default_factory=list)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def texts(self) -> list[str]:
        """The bodies, in the order of their arrival."""
        return [request.body.decode() for request in self.got]

    async def wait_for(self, count: int, *, seconds_max: float = 10.0) -> None:
        """Return once this many requests have arrived."""
        async with asyncio.timeout(seconds_max):
            while len(self.got) < count:
                self._arrived.clear()
                await self._arrived.wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        arrived = Request(request.headers.get("Idempotency-Key", ""), body, dict(request.headers))
        self.got.append(arrived)
        self._arrived.set()
        return await self.answer(arrived)


@asynccontextmanager
async def open_receiver(answer: Answer = fine) -> AsyncIterator[Receiver]:
    """Listen until the context ends."""
    receiver = Receiver(answer=answer)
    application = web.Application(client_max_size=1 << 26)
    application.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    receiver.url = f"http://{host}:{port}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()
