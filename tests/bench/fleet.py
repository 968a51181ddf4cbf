"""Several processes on one Postgres, a replica that is left alone, and a storm, with those who come meanwhile."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import asyncpg

from tests.bench.costs import WAL, cpu_us
from tests.bench.engine import REPLIED
from tests.bench.extent import Extent, Scenario
from tests.bench.figures import Figures
from tests.bench.past import load
from tests.bench.stage import Json, Stage, memory_mb
from tests.engine.crowds import storm as brew
from tests.system.processes import Service

if TYPE_CHECKING:
    from tests.database import Admin

CONNECTIONS = 64
# Sessions tell what they did up to ten seconds later.
SETTLING_SECONDS = 15.0
STORM_SECONDS_MAX = 300.0
STORM_ACCEPTS_A_SECOND = 100
QUERIES = (
    "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
)
BACKENDS = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
LAPSED = (
    "select count(*) from sink.turn where state = 'processing' and lease_expires_at < sink.now()"
)


class _Spent:
    """Processor time of services and of the sessions that they hold, from its making on."""

    def __init__(self, admin: "Admin", services: Sequence[Service]) -> None:
        self._admin, self._services = admin, services
        self._began: dict[int, float] = {}

    async def _backends(self) -> dict[int, float]:
        found: dict[int, float] = {}
        for row in await self._admin.fetch(BACKENDS):
            with contextlib.suppress(FileNotFoundError):
                found[row["pid"]] = cpu_us(row["pid"])
        return found

    async def begin(self) -> None:
        """From here."""
        self._began = await self._backends()
        self._began |= {one.pid: cpu_us(one.pid) for one in self._services}

    async def tell(self, figures: Figures, where: str, count: float) -> None:
        """For each of so many."""
        now = await self._backends()
        postgres = sum(us - self._began.get(pid, 0.0) for pid, us in now.items())
        service = sum(cpu_us(one.pid) - self._began[one.pid] for one in self._services)
        figures.add(f"processor time of Postgres, {where}", "us", postgres / count)
        figures.add(f"processor time of the services, {where}", "us", service / count)


async def _load(stage: Stage, services: Sequence[Service], **task: object) -> list[Json]:
    """The same load on each of them at once."""
    async with asyncio.TaskGroup() as group:
        loads = [
            group.create_task(stage.load(service, name=f"load-{n}", **task))
            for n, service in enumerate(services)
        ]
    return [one.result() for one in loads]


async def scale(stage: Stage, extent: Extent, figures: Figures) -> None:
    """The same load on one, two and four processes with all roles."""
    for processes in extent.processes:
        await stage.receiver.ask("reset")
        async with contextlib.AsyncExitStack() as stack:
            url = await stack.enter_async_context(stage.database())
            admin = await asyncpg.connect(url)
            stack.push_async_callback(admin.close)
            services = [
                await stack.enter_async_context(stage.service(url)) for _ in range(processes)
            ]
            spent = _Spent(admin, services)
            where = f"{processes} processes" if processes > 1 else "1 process"
            await spent.begin()
            rates = await _load(
                stage,
                services,
                connections=CONNECTIONS // processes,
                seconds=extent.seconds,
                warm_up_seconds=extent.warm_up_seconds,
            )
            accepted = sum(told["accepted"] for told in rates)
            await spent.tell(figures, f"of an accept, {where}", accepted)
            rate = sum(told["per_second"] for told in rates)
            figures.add(f"accepts, {where}", "/s", rate)
        await _lifecycles(stage, extent, figures, processes)


async def _lifecycles(stage: Stage, extent: Extent, figures: Figures, processes: int) -> None:
    where = f"{processes} processes" if processes > 1 else "1 process"
    count = extent.turns // processes
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(stage.database())
        admin = await asyncpg.connect(url)
        stack.push_async_callback(admin.close)
        services = [await stack.enter_async_context(stage.service(url)) for _ in range(processes)]
        spent, wal = _Spent(admin, services), await admin.fetchval(WAL)
        await spent.begin()
        for service in services:
            task = {"agents": 32 // processes, "turns_max": 4, "messages": 3}
            await stack.enter_async_context(stage.agents(service, **task))
        began = time.monotonic()
        await _load(stage, services, connections=32 // processes, count=count, seconds=60.0)
        async with asyncio.timeout(120.0):
            while await admin.fetchval(REPLIED) < count * processes:
                await asyncio.sleep(0.02)
        figures.add(f"lifecycles, {where}", "/s", count * processes / (time.monotonic() - began))
        await spent.tell(figures, f"of a lifecycle, {where}", count * processes)
        written = await admin.fetchval(WAL) - wal
        figures.add(f"WAL of a lifecycle, {where}", "bytes", written / (count * processes))
        most = max(memory_mb(service.pid)[1] for service in services)
        figures.add(f"memory of a service at most, {where}", "MB", most)


async def idle(stage: Stage, extent: Extent, figures: Figures) -> None:
    """A replica with all roles and nothing to do: what it asks the database, and what it costs."""
    async with stage.database() as url, stage.service(url) as service:
        admin = await asyncpg.connect(url)
        await asyncio.sleep(min(SETTLING_SECONDS, extent.long_seconds))
        spent = _Spent(admin, [service])
        await spent.begin()
        before, seconds = await admin.fetchval(QUERIES), extent.long_seconds
        await asyncio.sleep(seconds)
        asked = await admin.fetchval(QUERIES) - before
        # What this session asked itself is told a moment later, and is two or three.
        figures.add("queries of an idle replica", "/s", max(asked, 1) / seconds)
        await spent.tell(figures, "of an idle second", seconds)
        figures.add("memory of an idle replica", "MB", memory_mb(service.pid)[0])
        await admin.close()


async def storm(stage: Stage, extent: Extent, figures: Figures) -> None:
    """So many lapsed leases and as many due retries at once, and accepts at a pace meanwhile."""
    await stage.receiver.ask("reset")
    each = extent.crowd
    async with stage.database() as url:
        admin = await asyncpg.connect(url)
        await load(admin, turns=3 * each)
        await brew(admin, queue="default", destination="receiver", each=each)
        began = time.monotonic()
        async with stage.service(url) as service, asyncio.TaskGroup() as group:
            # Agents of another queue go on as ever.
            async with stage.agents(service, agents=4, turns_max=4, messages=1):
                pace = {"rate": STORM_ACCEPTS_A_SECOND, "connections": 32}
                load_ = group.create_task(
                    stage.load(service, name="storm", seconds=extent.seconds, **pace)
                )
                async with asyncio.timeout(STORM_SECONDS_MAX):
                    while await admin.fetchval(LAPSED):
                        await asyncio.sleep(0.05)
                    swept = time.monotonic() - began
                    await stage.arrivals(each, seconds_max=STORM_SECONDS_MAX)
                    sent = time.monotonic() - began
                told = await load_
            figures.add(f"lapsed leases swept, of {each:,} at once", "/s", each / swept)
            figures.add(f"due retries sent, of {each:,} at once", "/s", each / sent)
            for share in ("p50", "p99"):
                name = f"accept at {STORM_ACCEPTS_A_SECOND}/s in a storm, {share}"
                figures.add(name, "ms", told[f"{share}_ms"])
            figures.add("memory of the service at most, storm", "MB", memory_mb(service.pid)[1])
        await admin.close()


FLEET: Mapping[str, Scenario] = {"scale": scale, "idle": idle, "storm": storm}
