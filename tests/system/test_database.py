"""The service and its database: what it refuses to stand on, and what it does while the database is away."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import pytest

from app.engine.database import open_pool
from app.engine.keys import create_key
from app.engine.schema import head
from tests.database import Server, options_for
from tests.receiver import Receiver
from tests.system.conftest import configuration
from tests.system.own_postgres import OwnPostgres, open_own_postgres
from tests.system.processes import POLL_SECONDS, Service
from tests.system.provider import ANSWER_SECONDS_MAX, Provider, events
from tests.system.rig import WORKING, Rig
from tests.system.verdict import all_replied, faults

SERVE = ("serve", "--port", "0")


@pytest.fixture
async def own_postgres() -> AsyncIterator[OwnPostgres]:
    """A server with nothing in it."""
    async with open_own_postgres() as opened:
        yield opened


@pytest.fixture
async def own_rig(
    own_postgres: OwnPostgres, tmp_path: Path, receiver: Receiver, session: aiohttp.ClientSession
) -> AsyncIterator[Rig]:
    """A rig on that server."""
    opened = Rig(tmp_path, own_postgres.url, "", session)
    text = configuration(receiver.url).replace("allow_unsafe = true", "connect_seconds = 2")
    opened.configure(text)
    try:
        yield opened
    finally:
        await opened.close()


async def _probe(service: Service, seen: list[int], stop: asyncio.Event) -> None:
    """Ask again and again: every answer comes in time, and is a success or asks to come back."""
    calls = (
        ("/v1/turns/claim", {"queue": "default", "agent": "probe", "wait_seconds": 1}),
        ("/v1/inbound", {"queue": "unknown", "payload": 1}),
    )
    while not stop.is_set():
        for path, body in calls:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer = await service.post(path, body, idempotency_key="probe")
            seen.append(answer.status)
            assert answer.status in (200, 422, 503)
            if answer.status == 503:
                assert answer.json["code"] == "database_unavailable"
                assert int(answer.headers["Retry-After"]) >= 1
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            assert (await service.get("/livez")).status == 200
        await asyncio.sleep(POLL_SECONDS)


async def _until(service: Service, *, ready: bool) -> None:
    async with asyncio.timeout(20):
        while await service.is_ready() != ready:
            await asyncio.sleep(POLL_SECONDS)


async def test_a_new_server_is_refused_until_it_is_migrated_and_survives_being_killed_under_load(
    own_rig: Rig, own_postgres: OwnPostgres, receiver: Receiver, jitter: random.Random
) -> None:
    refused = await own_rig.run(*SERVE)
    assert refused.code == 1
    assert "run `sinksweep migrate`" in refused.err
    migrated = await own_rig.run("migrate")
    assert (migrated.code, migrated.out) == (0, f"The schema is at revision {head()}.\n")

    async with open_pool(options_for(own_postgres.url), application_name="test") as pool:
        own_rig.key = await create_key(pool, name="rig", scopes=WORKING, queues=None)
    api, rest = await own_rig.serve_all({"api": "api", "rest": "deliver,sweep"})
    provider, seen, stop = Provider([api]), list[int](), asyncio.Event()
    for number in range(2):
        await own_rig.agent(f"agent {number}", api, messages=2)
    async with asyncio.TaskGroup() as group:
        group.create_task(_probe(api, seen, stop))
        for number in range(2):
            told = events(150, conversations=30, name=f"storm-{number}")
            storm = group.create_task(provider.storm(told, workers=16, jitter=jitter))
            await provider.wait_for(150 * number + 50)
            await own_postgres.kill()
            for service in (api, rest):
                await _until(service, ready=False)
            refusals = seen.count(503)
            async with asyncio.timeout(20):
                while seen.count(503) < refusals + 4:
                    await asyncio.sleep(POLL_SECONDS)
            assert not storm.done()
            await own_postgres.start()
            for service in (api, rest):
                await _until(service, ready=True)
            await storm
        stop.set()
    assert len(provider.handles) == 300
    assert provider.slowest_seconds < ANSWER_SECONDS_MAX
    connection = await asyncpg.connect(own_postgres.url)
    try:
        await all_replied(connection, turns=300)
        assert await faults(connection, provider=provider, receiver=receiver) == []
    finally:
        await connection.close()
    for service in (api, rest):
        assert await service.stop() == 0


async def test_a_schema_that_is_missing_behind_or_ahead_stops_the_start(
    rig: Rig, postgres: Server
) -> None:
    async with postgres.database(template="template1") as empty:
        missing = await rig.run(*SERVE, DATABASE_URL=empty)
    assert (missing.code, missing.err.splitlines()[-1]) == (
        1,
        "sinksweep: the database has no schema yet: run `sinksweep migrate`",
    )
    admin = await asyncpg.connect(rig.database_url)
    try:
        for revision, text in (
            ("0000", f"is at 0000, this version needs {head()}: run `sinksweep migrate`"),
            ("9999", f"is at 9999, newer than {head()}, which this version knows"),
        ):
            await admin.execute("update sink.alembic_version set version_num = $1", revision)
            found = await rig.run(*SERVE)
            assert found.code == 1
            assert found.err.splitlines()[-1] == f"sinksweep: the schema {text}"
    finally:
        await admin.close()


async def test_a_server_that_could_lose_a_commit_is_refused_unless_allowed(rig: Rig) -> None:
    refused = await rig.run(*SERVE, SINKSWEEP_DATABASE__ALLOW_UNSAFE="false")
    assert refused.code == 1
    assert "fsync = off, full_page_writes = off" in refused.err
    assert "database.allow_unsafe = true" in refused.err
    allowed = await rig.serve("allowed")
    assert "a 2xx stands on a commit with" in allowed.log.read_text()
    assert "fsync = off" in allowed.log.read_text()


REFUSES = "postgresql://postgres@127.0.0.1:1/none"


@pytest.mark.parametrize(
    ("command", "url", "why"),
    [
        (SERVE, REFUSES, "Errno"),
        (SERVE, None, 'database "not_there" does not exist'),
        (("migrate",), REFUSES, "Errno"),
        (("keys", "list"), None, 'database "not_there" does not exist'),
    ],
)
async def test_a_database_that_is_not_there_is_one_clear_line(
    rig: Rig, command: tuple[str, ...], url: str | None, why: str
) -> None:
    not_there = urlsplit(rig.database_url)._replace(path="/not_there").geturl()
    away = await rig.run(*command, DATABASE_URL=url or not_there)
    assert away.code == 1
    assert "Traceback" not in away.err
    assert away.err.splitlines()[-1].startswith("sinksweep: ")
    assert why in away.err.splitlines()[-1]


async def test_a_port_that_is_taken_is_one_clear_line(rig: Rig) -> None:
    service = await rig.serve("all")
    port = service.url.rpartition(":")[2]
    taken = await rig.run("serve", "--port", port)
    assert taken.code == 1
    assert taken.err.splitlines()[-1].startswith(f"sinksweep: port: 127.0.0.1:{port} cannot be")


async def test_without_a_database_the_start_says_where_to_name_one(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    rig = Rig(tmp_path, "", "", session)
    nowhere = await rig.run(*SERVE)
    assert nowhere.code == 1
    assert "DATABASE_URL" in nowhere.err
    assert "Traceback" not in nowhere.err


async def test_a_password_that_is_not_escaped_stops_the_start_and_is_not_quoted(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    rig = Rig(tmp_path, "postgresql://user:se#cret@localhost/sinksweep", "", session)
    refused = await rig.run(*SERVE)
    assert refused.code == 2
    assert "as %XX" in refused.err
    assert "Traceback" not in refused.err
    assert "cret" not in refused.err
