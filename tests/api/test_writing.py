"""Answers to whoever does not read them, and connections on which nothing happens: each has its time."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final

import asyncpg
import pytest

from app.settings import Limits
from app.settings import Server as ServerSettings
from tests.api.conftest import Service, opened
from tests.database import Server

ANSWER_SECONDS_MAX: Final = 1.0
MARGIN_SECONDS: Final = 2.0
KEEP_ALIVE_SECONDS: Final = 1
BIG: Final = "x" * 1_000_000


@pytest.fixture
async def roomy(postgres: Server) -> AsyncIterator[Service]:
    """A service with answers of megabytes, and little patience."""
    limits = Limits(
        answer_seconds_max=ANSWER_SECONDS_MAX,
        header_seconds_max=2.0,
        answer_bytes_max=16 << 20,
    )
    server = ServerSettings(keep_alive_seconds=KEEP_ALIVE_SECONDS)
    async with postgres.database() as url, opened(url, limits=limits, server=server) as service:
        yield service


def request(service: Service, method: str, path: str, body: object = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    return (
        b"%b %b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
    ) % (method.encode(), path.encode(), service.keys["admin"].encode(), len(content), content)


def url_of(service: Service) -> str:
    assert service.core.settings.database_url is not None
    return service.core.settings.database_url.get_secret_value()


@contextlib.contextmanager
def asking(service: Service, sent: bytes, *, keeps_bytes: int = 4096) -> Iterator[socket.socket]:
    """A client that asks, and whose system keeps little of what it does not read."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, keeps_bytes)
        client.connect(("127.0.0.1", service.port))
        client.sendall(sent)
        client.setblocking(False)
        yield client


async def read_on(client: socket.socket, *, pause: float = 0.0, piece: int = 1 << 20) -> bytes:
    """Everything that still comes, as fast as wished; that it was cut is an end as well."""
    loop = asyncio.get_running_loop()
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := await loop.sock_recv(client, piece):
            received += chunk
            await asyncio.sleep(pause)
    return received


async def accept_big(service: Service, count: int) -> None:
    for n in range(count):
        assert (await service.accept(f"k{n}", payload=BIG)).status == 202


CLAIM: Final = {"queue": "default", "agent": "a", "max_turns": 10}


async def test_turns_for_a_client_that_never_reads_are_released_free_and_its_connection_is_cut(
    roomy: Service,
) -> None:
    await accept_big(roomy, 8)
    admin = await asyncpg.connect(url_of(roomy))
    try:
        with asking(roomy, request(roomy, "POST", "/v1/turns/claim", CLAIM)) as client:
            began = time.monotonic()
            async with asyncio.timeout(20):
                while await admin.fetchval("select count(*) from sink.attempt") == 0:
                    await asyncio.sleep(0.01)
                while await admin.fetchval(
                    "select count(*) from sink.turn where state = 'processing'"
                ):
                    await asyncio.sleep(0.01)
            assert time.monotonic() - began < ANSWER_SECONDS_MAX + MARGIN_SECONDS
            assert len(await read_on(client)) < 8 * len(BIG)
        rows = await admin.fetch("select distinct state, attempts_used from sink.turn")
        assert [tuple(row) for row in rows] == [("queued", 0)]
        ends = await admin.fetch("select distinct ended, reason from sink.attempt")
        assert [tuple(row) for row in ends] == [("released", "client_gone")]
    finally:
        await admin.close()
    again = await roomy.claim(max_turns=10)
    assert [turn["attempt"] for turn in again.json["turns"]] == [2] * 8


async def test_any_answer_that_nobody_reads_ends_with_its_connection(roomy: Service) -> None:
    accepted = (await roomy.accept("k", payload=BIG)).json["id"]
    wish = request(roomy, "GET", f"/v1/inbound/{accepted}/payload")
    with asking(roomy, wish * 12) as client:
        await asyncio.sleep(ANSWER_SECONDS_MAX + MARGIN_SECONDS)
        assert len(await read_on(client)) < 12 * len(BIG)


async def test_who_reads_in_time_gets_everything(roomy: Service) -> None:
    await accept_big(roomy, 8)
    wish = request(roomy, "POST", "/v1/turns/claim", CLAIM)
    with asking(roomy, wish, keeps_bytes=1 << 20) as client:
        await asyncio.sleep(ANSWER_SECONDS_MAX / 4)
        async with asyncio.timeout(20):
            answer = await read_on(client)
    turns = json.loads(answer.partition(b"\r\n\r\n")[2])["turns"]
    assert [turn["inbound"][0]["payload"] for turn in turns] == [BIG] * 8


async def test_a_reader_that_drips_is_cut_at_the_deadline_of_the_whole(roomy: Service) -> None:
    await accept_big(roomy, 8)
    with asking(roomy, request(roomy, "POST", "/v1/turns/claim", CLAIM)) as client:
        began = time.monotonic()
        async with asyncio.timeout(20):
            answer = await read_on(client, pause=0.05, piece=2048)
    # What the system had taken before is still read.
    assert time.monotonic() - began > ANSWER_SECONDS_MAX
    assert len(answer) < 8 * len(BIG)
    assert len((await roomy.claim(max_turns=10)).json["turns"]) == 8


async def test_several_answers_on_one_connection_have_their_time_each(roomy: Service) -> None:
    with asking(roomy, b"") as client:
        loop = asyncio.get_running_loop()
        for _ in range(5):
            await loop.sock_sendall(client, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"alive" in await loop.sock_recv(client, 4096)
            await asyncio.sleep(ANSWER_SECONDS_MAX / 2)


async def test_a_connection_on_which_nothing_is_asked_any_more_is_closed(roomy: Service) -> None:
    with asking(roomy, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        began = time.monotonic()
        async with asyncio.timeout(10):
            assert b"alive" in await read_on(client)
        assert KEEP_ALIVE_SECONDS <= time.monotonic() - began < KEEP_ALIVE_SECONDS + MARGIN_SECONDS


async def test_who_waits_for_an_answer_longer_than_an_idle_connection_is_kept_gets_it(
    roomy: Service,
) -> None:
    wish = {"queue": "default", "agent": "a", "wait_seconds": KEEP_ALIVE_SECONDS * 2.5}
    # The first one has the connection kept for its time; the second is not done when that is over.
    with asking(roomy, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        loop = asyncio.get_running_loop()
        assert b"alive" in await loop.sock_recv(client, 4096)
        await loop.sock_sendall(client, request(roomy, "POST", "/v1/turns/claim", wish))
        began = time.monotonic()
        async with asyncio.timeout(10):
            answer = await read_on(client)
        assert answer.endswith(b'{"turns":[]}')
        # Idle from its answer on, and no sooner.
        assert time.monotonic() - began >= KEEP_ALIVE_SECONDS * 3.5


async def test_while_the_service_drains_each_answer_is_the_last_of_its_connection(
    roomy: Service,
) -> None:
    with asking(roomy, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 2) as client:
        roomy.core.draining.start()
        async with asyncio.timeout(10):
            answer = await read_on(client)
    assert b"connection: close" in answer.lower()
