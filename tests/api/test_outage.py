import asyncio
import contextlib
import json
import logging
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.api.desk import ClaimDesk
from app.domain.model import ClaimRequest
from app.engine.transaction import DatabaseUnavailable
from app.settings import Database
from tests.api.conftest import Answer, Here, Service, opened
from tests.database import Server

SECONDS_MAX = 4.0


@dataclass(slots=True)
class Road:
    """The way to the database, which can be cut, and on which nothing may move."""

    upstream: str
    at: str
    moving: asyncio.Event = field(default_factory=asyncio.Event)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    server: asyncio.Server | None = None

    async def open(self) -> None:
        self.moving.set()
        self.server = await asyncio.start_unix_server(self._carry, self.at)

    async def cut(self) -> None:
        """Refuse new connections and end the old ones."""
        if self.server is not None:
            self.server.close()
        Path(self.at).unlink(missing_ok=True)
        self.moving.set()
        for writer in list(self.writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        with contextlib.suppress(OSError, ExceptionGroup):
            there, back = await asyncio.open_unix_connection(self.upstream)
            self.writers.add(back)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back))
                group.create_task(self._pump(there, writer))
            self.writers.discard(back)
        self.writers.discard(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self.moving.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@dataclass(slots=True)
class Remote:
    service: Service
    road: Road


@pytest.fixture
async def remote(postgres: Server) -> AsyncIterator[Remote]:
    """A service whose database is at the end of a road."""
    database = Database(
        connect_seconds=1,
        command_seconds_max=2,
        statement_timeout_ms=1000,
        lock_timeout_ms=500,
        pool_max=4,
    )
    with tempfile.TemporaryDirectory() as folder:
        async with postgres.database() as url:
            parts = urlsplit(url)
            query = parse_qs(parts.query)
            name = f".s.PGSQL.{query['port'][0]}"
            road = Road(f"{query['host'][0]}/{name}", f"{folder}/{name}")
            await road.open()
            away = parts._replace(query=f"host={folder}&port={query['port'][0]}").geturl()
            async with opened(away, database=database) as service:
                yield Remote(service, road)
                await road.cut()


async def every_call(service: Service, turn: str) -> dict[str, Answer]:
    """One of each kind of call, at once."""
    token = {"lease_token": "00000000-0000-0000-0000-000000000000"}
    async with asyncio.TaskGroup() as group:
        calls = {
            "accept": group.create_task(service.accept("away")),
            "claim": group.create_task(service.claim(wait_seconds=30)),
            "turn": group.create_task(service.get(f"/v1/turns/{turn}")),
            "loopback": group.create_task(service.get("/v1/loopback", scope="read")),
            "renew": group.create_task(service.post(f"/v1/turns/{turn}/renew", token)),
            "seal": group.create_task(
                service.post(f"/v1/turns/{turn}/seal", {**token, "messages": []})
            ),
            "unknown key": group.create_task(
                service.get("/v1/loopback", scope="sks_0123456789abcdef_" + "z" * 43)
            ),
        }
    return {name: call.result() for name, call in calls.items()}


@pytest.mark.parametrize("how", ["cut", "frozen"])
async def test_without_its_database_every_call_is_503_soon_and_comes_back(
    remote: Remote, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    service, road = remote.service, remote.road
    turn = (await service.accept("k1")).json["turn"]
    if how == "cut":
        await road.cut()
    else:
        road.moving.clear()
    started = time.monotonic()
    answers = await every_call(service, turn)
    assert time.monotonic() - started < SECONDS_MAX
    for name, answer in answers.items():
        assert (answer.status, answer.code) == (503, "database_unavailable"), name
        assert int(answer.headers["Retry-After"]) >= 1
    assert (await service.get("/livez", scope=None)).status == 200
    ready = await service.get("/readyz", scope=None)
    assert (ready.status, ready.json["checks"]["database"]) == (503, False)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    await road.cut()
    await road.open()
    async with asyncio.timeout(10):
        while (await service.get("/readyz", scope=None)).status != 200:
            await asyncio.sleep(0.05)
    again = await service.accept("away")
    assert again.status in (200, 202)
    claimed = (await service.claim(max_turns=10, wait_seconds=5)).json["turns"]
    assert turn in {one["id"] for one in claimed}


async def test_all_waiting_claims_are_told_at_once_when_the_database_goes(remote: Remote) -> None:
    desk = ClaimDesk(remote.service.core)
    wish = ClaimRequest(
        queue="default", agent="a", turns_max=1, lease_seconds=60, answer_bytes_max=1 << 20
    )

    async def wait() -> str:
        try:
            return str(await desk.claim(desk.seat(wish, Here(), wait_seconds=30)))
        except DatabaseUnavailable as error:
            return error.code

    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(wait()) for _ in range(10)]
        await asyncio.sleep(0)
        remote.road.moving.clear()
        started = time.monotonic()
    assert time.monotonic() - started < SECONDS_MAX
    assert {one.result() for one in waiting} == {"database_unavailable"}


async def test_a_busy_database_is_asked_about_its_readiness_once_a_second(remote: Remote) -> None:
    remote.road.moving.clear()
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(remote.service.get("/readyz", scope=None)) for _ in range(50)]
    assert time.monotonic() - started < SECONDS_MAX
    assert {one.result().status for one in asked} == {503}
    assert json.loads(asked[0].result().body)["ready"] is False
