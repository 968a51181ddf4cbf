"""Any number of replicas over one Postgres: restarted one by one, migrated at once, configured differently."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import aiohttp
import asyncpg

from app.engine.schema import head
from tests.database import Server
from tests.receiver import Receiver
from tests.system.balancer import Balancer, balancing
from tests.system.conftest import configuration
from tests.system.processes import POLL_SECONDS, Service
from tests.system.provider import Event, Provider, events
from tests.system.rig import REQUEST_SECONDS_MAX, Rig
from tests.system.verdict import all_replied, faults, received_twice

if TYPE_CHECKING:
    from tests.database import Admin

# Longer than the balancer takes to notice.
DRAIN_DELAY = "[server]\ndrain_delay_seconds = 1.0"
# A lease that no part of these tests outlives: whoever lost a turn would keep it for ever.
LEASE_SECONDS = 300
SENDERS = 4
REPEATS = 15


async def until(seen: Callable[[], bool], *, seconds_max: float = 30.0) -> None:
    async with asyncio.timeout(seconds_max):
        while not seen():
            await asyncio.sleep(POLL_SECONDS)


class Senders:
    """Clients that keep their connections busy, and tell every event some times: what fails is a failure."""

    def __init__(self, balancer: Balancer, provider: Provider, key: str) -> None:
        self._url = f"{balancer.url}/v1/inbound"
        self._provider = provider
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.failed: list[str] = []
        self.stop = asyncio.Event()

    async def run(self, name: str) -> None:
        """Send until stopped, over as few connections as the other side allows."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX)
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            for event in events(10_000, conversations=20, name=name):
                if self.stop.is_set():
                    return
                for _ in range(REPEATS):
                    await self._send(session, event)
                await asyncio.sleep(0.1)

    async def _send(self, session: aiohttp.ClientSession, event: Event) -> None:
        headers = {**self._headers, "Idempotency-Key": event.key}
        try:
            async with session.post(self._url, data=event.body, headers=headers) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.failed.append(repr(error))
            return
        if answer.status not in (200, 202):
            self.failed.append(f"{answer.status} {content!r}")
            return
        accepted = json.loads(content)
        self._provider.payloads[event.key] = event.payload
        handles = self._provider.handles.setdefault(event.key, set())
        handles.add((accepted["id"], accepted["turn"]))


async def test_a_rolling_restart_under_load_fails_no_accept_and_burns_no_attempt(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    rig.configure(configuration(receiver.url).replace("[server]", DRAIN_DELAY))
    replicas = await rig.serve_all(dict.fromkeys(("one", "two", "three"), "api,deliver,sweep"))
    async with balancing([replica.url for replica in replicas]) as balancer:
        await until(lambda: len(balancer.ready) == 3)
        for number in range(3):
            await rig.agent(
                f"agent {number}", urls=[balancer.url], lease_seconds=LEASE_SECONDS, messages=1
            )
        provider = Provider([])
        senders = Senders(balancer, provider, rig.key)
        async with asyncio.TaskGroup() as group:
            for number in range(SENDERS):
                group.create_task(senders.run(f"sender-{number}"))
            for replica in replicas:
                before = len(provider.handles)
                assert await replica.stop() == 0
                await replica.restart()
                await until(lambda: len(balancer.ready) == 3)
                # It had work while it stopped and started.
                assert len(provider.handles) > before
            senders.stop.set()
        assert senders.failed == []
        turns = len(provider.handles)
        assert turns > 50
        await all_replied(admin, turns=turns, seconds_max=60)
        assert await faults(admin, provider=provider, receiver=receiver) == []
        assert received_twice(receiver) == {}
    assert await admin.fetchval("select max(attempts_used) from sink.turn") == 1
    assert await admin.fetchval("select max(attempts_used) from sink.outbox") == 1
    # What was claimed and could not be told was given back free.
    ends = await admin.fetch("select distinct ended from sink.attempt")
    assert {row[0] for row in ends} <= {"sealed", "released"}


async def test_three_replicas_migrate_an_empty_database_at_once(rig: Rig, postgres: Server) -> None:
    async with postgres.database(template="template1") as url:
        async with asyncio.TaskGroup() as group:
            started = [group.create_task(rig.run("migrate", DATABASE_URL=url)) for _ in range(3)]
        for one in started:
            finished = one.result()
            assert (finished.code, finished.err) == (0, "")
            assert finished.out == f"The schema is at revision {head()}.\n"
        connection = await asyncpg.connect(url)
        try:
            found = await connection.fetch("select version_num from sink.alembic_version")
        finally:
            await connection.close()
        assert [row[0] for row in found] == [head()]
        rig.database_url = url
        assert await (await rig.serve("first")).stop() == 0


async def _told(service: Service, *lines: str) -> None:
    with contextlib.suppress(TimeoutError):
        await until(lambda: all(line in service.log.read_text() for line in lines), seconds_max=15)
    for line in lines:
        assert service.log.read_text().count(line) == 1, line


async def _seen(service: Service, expected: dict[str, list[str]]) -> None:
    """Readiness shows these names, and stays green."""
    async with asyncio.timeout(15):
        while True:
            answer = await service.get("/readyz")
            assert answer.status == 200
            if answer.json["checks"]["unconfigured"] == expected:
                return
            await asyncio.sleep(POLL_SECONDS)


async def test_a_replica_that_lacks_what_rows_name_says_so_stays_ready_and_lets_it_wait(
    rig: Rig, admin: "Admin", receiver: Receiver
) -> None:
    full = configuration(receiver.url)
    # Behind another queue and another destination of its own.
    more = '\n[queues.other]\n[destinations.gone]\nkind = "webhook"\n' + f'url = "{receiver.url}"\n'
    rig.configure(full + more)
    api = await rig.serve("api", roles="api,sweep")
    await rig.agent("agent", api, messages=1, destination="gone")
    first = await api.post("/v1/inbound", {"queue": "support", "payload": 1}, idempotency_key="a")
    second = await api.post("/v1/inbound", {"queue": "other", "payload": 1}, idempotency_key="b")
    assert (first.status, second.status) == (202, 202)
    async with asyncio.timeout(20):
        while not await admin.fetchval("select count(*) from sink.outbox"):
            await asyncio.sleep(POLL_SECONDS)

    rig.configure(full)
    # Every role of its own is told, at its start.
    lacking = await rig.serve_all({"lacking": "api,deliver,sweep", "worker": "deliver"})
    queue = '"text": "work waits for a queue that is not configured here", "queue": "other"'
    destination = (
        '"text": "work waits for a destination that is not configured here", "destination": "gone"'
    )
    for service in lacking:
        await _told(service, queue, destination)
        await _seen(service, {"queue": ["other"], "destination": ["gone"]})
        metrics = (await service.get("/metrics")).body.decode()
        assert 'sinksweep_unconfigured_names{kind="queue"} 1.0' in metrics
        assert 'sinksweep_unconfigured_names{kind="destination"} 1.0' in metrics
    # It is seen while it runs, too.
    later = await api.post("/v1/inbound", {"queue": "other", "payload": 2}, idempotency_key="c")
    assert later.status == 202
    assert receiver.got == []
    states = await admin.fetch("select state from sink.turn order by queue, id")
    assert [row[0] for row in states] == ["queued", "queued", "sealed"]
    assert await admin.fetchval("select state from sink.outbox") == "pending"

    # Whoever knows the names does the work, and nobody misses them any more.
    rig.configure(full + more)
    knowing = await rig.serve("knowing", roles="deliver")
    await receiver.wait_for(1)
    await _seen(lacking[1], {"queue": ["other"]})
    await _seen(knowing, {})
