"""A receiver on loopback that answers what a test wants, and what a channel may reach it with."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_network

import pytest

from app.channels import Outgoing, Wire
from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient

ATTEMPTED_AT = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)


@dataclass(slots=True)
class Receiver:
    """Answers every request with `answer`: bytes to send, None for never, then hangs up."""

    port: int = 0
    answer: bytes | None = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in headers.items()}
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append((headers, body))
            if self.answer is None:
                await reader.read()
            else:
                writer.write(self.answer)
                await writer.drain()
        writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A running receiver."""
    running = Receiver()
    listener = await asyncio.start_server(running.talk, "127.0.0.1", 0)
    running.port = listener.sockets[0].getsockname()[1]
    yield running
    listener.close()


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """A client that may reach loopback, and a store that counts keys."""
    stored: list[str] = []

    async def store(message: Outgoing) -> int:
        stored.append(message.key)
        return stored.count(message.key)

    policy = AddressPolicy((ip_network("127.0.0.0/8"),))
    async with GuardedClient(policy, user_agent="Sinksweep/0.0") as http:
        yield Wire(http=http, store=store)


@pytest.fixture
def outgoing() -> Callable[..., Outgoing]:
    """A message with what a test changes in it."""

    def build(**changes: object) -> Outgoing:
        values: dict[str, object] = {
            "id": "msg_1",
            "key": "key_1",
            "destination": "crm",
            "queue": "default",
            "conversation": None,
            "recipient": None,
            "headers": {},
            "content_type": "application/json",
            "body": b'{"a": 1}',
            "sealed_at": ATTEMPTED_AT,
            "expires_at": None,
            "attempt": 1,
            "attempted_at": ATTEMPTED_AT,
            "first_attempted_at": ATTEMPTED_AT,
        }
        return Outgoing(**{**values, **changes})  # type: ignore[arg-type]

    return build
