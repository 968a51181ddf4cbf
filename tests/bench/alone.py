"""The service without sockets and without a database, as a process: what is left of a request is its Python.

The real protocol and application stand on a loop, over an engine that answers at once. A line on stdin names a call and
how often it is made; a line on stdout tells the microseconds of processor time for each.
"""

import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import uvloop
from pydantic import SecretStr

from app.api import application, desk, group_commits, places, turns
from app.core import open_core
from app.domain import model
from app.engine.inspect import Place
from app.engine.keys import Principal
from app.service.listening import build_server
from app.settings import Destination, Queue, Settings

CONNECTIONS: Final = 64
KEY: Final = "sks_0123456789abcdef_" + "x" * 43
TURN: Final = "turn_" + "0" * 25 + "1"
TOKEN: Final = "0123abcd-0123-4123-8123-0123456789ab"
TEXT: Final = "an inbound of about three hundred bytes, as a person or a webhook may send one " * 3
AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
CALLS: Final = ("accept", "claim", "seal", "renew")


def request_of(call: str, number: int) -> bytes:
    """A request as a client would send it."""
    path, headers = f"/v1/turns/{TURN}/{call}", ""
    match call:
        case "accept":
            path, headers = "/v1/inbound", f"Idempotency-Key: bench-{number}\r\n"
            name = f"bench-{number}"
            body = f'{{"queue":"bench","conversation":"{name}","payload":{{"text":"{TEXT}"}}}}'
        case "claim":
            path = "/v1/turns/claim"
            body = '{"queue":"bench","agent":"agent","max_turns":4,"wait_seconds":20}'
        case "seal":
            message = '{"destination":"loopback","payload":{"text":"a reply of some words"}}'
            body = f'{{"lease_token":"{TOKEN}","messages":[{",".join([message] * 3)}]}}'
        case _:
            body = f'{{"lease_token":"{TOKEN}"}}'
    return (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {KEY}\r\n"
        f"User-Agent: bench\r\nAccept: */*\r\nContent-Type: application/json\r\n{headers}"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


class Wire(asyncio.Transport):
    """A connection without a socket, which tells when a whole answer was written to it."""

    def __init__(self, answered: Callable[["Wire", bytes], None]) -> None:
        super().__init__({"sockname": ("127.0.0.1", 2), "peername": ("127.0.0.1", 1)})
        self.protocol: Any = None
        self._answered = answered
        self._written: list[bytes] = []
        self._left = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        chunk = bytes(data)
        if not self._written:
            length = chunk.index(b"content-length: ") + len(b"content-length: ")
            end = chunk.index(b"\r\n", length)
            self._left = chunk.index(b"\r\n\r\n", end) + 4 + int(chunk[length:end])
        self._left -= len(chunk)
        self._written.append(chunk)
        if not self._left:
            answer, self._written = b"".join(self._written), []
            self._answered(self, answer)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Alone:
    """The service, and connections to it on which one call is made again and again."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._requests: list[bytes] = []
        self._left = 0
        self._over = asyncio.Event()

    async def window(self, call: str, count: int) -> float:
        """Make a call so often; returns microseconds of processor time for each."""
        # Made before: the clock is the service's.
        self._requests = [request_of(call, number) for number in range(count)]
        self._left = count
        self._over.clear()
        began = time.process_time_ns()
        for _ in range(min(CONNECTIONS, count)):
            wire = Wire(self._answered)
            wire.protocol = self._connect()
            wire.protocol.connection_made(wire)
            self._next(wire)
        await self._over.wait()
        return (time.process_time_ns() - began) / count / 1000

    def _next(self, wire: Wire) -> None:
        if self._requests:
            self._loop.call_soon(wire.protocol.data_received, self._requests.pop())
        else:
            self._loop.call_soon(wire.protocol.connection_lost, None)

    def _answered(self, wire: Wire, answer: bytes) -> None:
        assert answer.startswith(b"HTTP/1.1 20"), answer
        self._left -= 1
        if not self._left:
            self._over.set()
        self._next(wire)


async def _find_principal(_pool: object, _key: str) -> Principal:
    return Principal("key", frozenset({"accept", "agent"}), None)


async def _find_place(_pool: object, turn: uuid.UUID) -> Place:
    return Place(turn, "bench", None)


async def _accept(
    _pool: object, arrivals: Sequence[model.Arrival], *, ids: Any, **_more: object
) -> list[model.Accepted]:
    await asyncio.sleep(0)
    return [
        model.Accepted(
            inbound=ids.new(),
            turn=ids.new(),
            state="queued",
            duplicate=False,
            same_body=True,
            key_expires_at=AT,
        )
        for _ in arrivals
    ]


async def _seal(
    _pool: object, requests: Sequence[model.SealRequest], *, ids: Any, **_more: object
) -> list[model.Sealed]:
    await asyncio.sleep(0)
    return [
        model.Sealed(
            "sealed",
            "sha256:" + "0" * 64,
            [
                model.SealedMessage(ids.new(), f"key-{n}", "pending")
                for n in range(len(one.messages))
            ],
            repeated=False,
            held_seconds=1.0,
            age_seconds=1.0,
            promotes=False,
        )
        for one in requests
    ]


async def _claim(
    _pool: object, requests: Sequence[model.ClaimRequest], **_more: object
) -> list[list[model.Claimed]]:
    await asyncio.sleep(0)
    return [_CLAIMED for _ in requests]


def _claimed() -> model.Claimed:
    inbound = model.ClaimedInbound(
        id=uuid.uuid4(),
        source="api",
        received_at=AT,
        content_type="application/json",
        headers={},
        metadata=None,
        body=json.dumps({"text": TEXT}).encode(),
        strict_json=True,
    )
    return model.Claimed(
        turn=uuid.uuid4(),
        token=uuid.uuid4(),
        attempt=1,
        lease_expires_in_seconds=60.0,
        conversation="c",
        inbound=[inbound],
        history=[],
        waited_seconds=0.1,
    )


_CLAIMED: Final = [_claimed(), _claimed()]


async def _renew(_pool: object, renewals: Sequence[object]) -> list[model.Renewed]:
    await asyncio.sleep(0)
    return [model.Renewed(60.0, 0) for _ in renewals]


_ENGINE: Final = (
    (application, "find_principal", _find_principal),
    (places, "find_place", _find_place),
    (group_commits, "accept", _accept),
    (group_commits, "seal", _seal),
    (desk, "claim", _claim),
    (turns, "renew", _renew),
)


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[Alone]:
    """A service that has no database, in a process of its own."""
    for module, name, verb in _ENGINE:
        setattr(module, name, verb)
    settings = Settings(
        database_url=SecretStr("postgresql://nobody@127.0.0.1:1/none"),
        queues={"default": Queue(), "bench": Queue()},
        destinations={"loopback": Destination(kind="loopback")},
    )
    async with open_core(settings, application_name="bench") as core, asyncio.TaskGroup() as tasks:
        server = build_server(core, api=True, running=tasks)
        config, state = server.config, server.server_state
        config.load()
        state.default_headers = [(b"date", b"Thu, 01 Jan 2026 00:00:00 GMT")]
        with contextlib.suppress(ImportError):
            # An older tree has none.
            from app.service.memory import keep_what_is_here  # noqa: PLC0415

            keep_what_is_here()
        connect: Any = config.http_protocol_class
        yield Alone(lambda: connect(config, state, {}))


async def _obey() -> None:
    async with alone() as service:
        while line := await asyncio.to_thread(sys.stdin.readline):
            call, count = line.split()
            print(await service.window(call, int(count)), flush=True)


if __name__ == "__main__":
    uvloop.run(_obey())
