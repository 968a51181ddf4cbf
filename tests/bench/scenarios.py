"""What is measured. Each scenario is run once for each repeat, its limit directly before it."""

import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg

from app.domain.ids import IdFactory
from app.engine.database import open_pool
from tests.bench.engine import (
    REPLIED,
    backlog,
    core_on,
    deliveries_per_second,
    lifecycles_per_second,
)
from tests.bench.extent import Extent, Scenario
from tests.bench.figures import Figures, percentile
from tests.bench.load import BODY
from tests.bench.peers.usage import cpu_seconds
from tests.bench.pgbench import accept_script, run_script
from tests.bench.signing import PROVIDERS
from tests.bench.stage import SECRET, Stage, memory_mb
from tests.database import options_for
from tests.engine.stories import arrival

CONNECTIONS = (1, 16, 64)
BATCH = 50
AGENTS = 32
IDS = IdFactory(milliseconds=lambda: time.time_ns() // 1_000_000, random_bytes=os.urandom)


async def accepts(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Accepts over HTTP, each beside pgbench with as many clients."""
    seconds = max(1.0, extent.seconds)
    async with stage.database() as url:
        one = await _script(stage, url, 1)
        many = await _script(stage, url, BATCH)
        limits = {
            connections: await run_script(
                one, url=url, binaries=stage.binaries, clients=connections, seconds=seconds
            )
            for connections in CONNECTIONS
        }
        batched = BATCH * await run_script(
            many, url=url, binaries=stage.binaries, clients=2, seconds=seconds
        )
    figures.add(f"pgbench, accept in batches of {BATCH}", "/s", batched)
    async with stage.database() as url, stage.service(url) as service:
        for connections in CONNECTIONS:
            told = await stage.load(
                service,
                name=f"c{connections}",
                connections=connections,
                seconds=extent.seconds,
                warm_up_seconds=extent.warm_up_seconds,
            )
            _check(told)
            figures.add(
                f"accept over HTTP, {connections} connections",
                "/s",
                told["per_second"],
                limit=limits[connections],
                limit_name="pgbench, one a transaction",
            )
            figures.add(f"accept p50, {connections} connections", "ms", told["p50_ms"])
            figures.add(f"accept p99, {connections} connections", "ms", told["p99_ms"])
            figures.add(
                f"load generator's share of a processor, {connections} connections",
                "",
                told["cpu_share"],
            )
        now, most = memory_mb(service.pid)
        figures.add("memory of the service after the accepts", "MB", now)
        figures.add("memory of the service at most", "MB", most)


async def sources(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Accepts through providers, each directly behind plain ones on the same service."""
    async with stage.database() as url, stage.service(url) as service:
        for connections in (1, 16, 64):
            for kind in PROVIDERS:
                told = {
                    name: await stage.load(
                        service,
                        name=f"{name}-{kind}-{connections}",
                        connections=connections,
                        seconds=extent.seconds,
                        warm_up_seconds=extent.warm_up_seconds,
                        **more,
                    )
                    for name, more in (
                        ("plain", {}),
                        ("signed", {"source": kind, "secret": SECRET}),
                    )
                }
                for one in told.values():
                    _check(one)
                figures.add(
                    f"accept through {kind}, {connections} connections",
                    "/s",
                    told["signed"]["per_second"],
                    limit=told["plain"]["per_second"],
                    limit_name="plain accepts",
                )


async def lifecycles(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Whole lifecycles: one in, an agent over HTTP, three out to a receiver in a process of its own."""
    async with stage.database() as url:
        limit = await lifecycles_per_second(
            url, seconds=extent.seconds, concurrency=stage.concurrency
        )
    await stage.receiver.ask("reset")
    count = extent.turns
    async with stage.database() as url, stage.service(url) as service:
        async with stage.agents(service, agents=AGENTS, turns_max=4, messages=3):
            task = {"connections": 32, "count": count, "seconds": 60.0}
            told = await stage.load(service, name="life", **task)
            _check(told)
            came = await stage.arrivals(3 * count, seconds_max=60.0)
            assert came["count"] == 3 * count, came
            # Both read the machine's one monotonic clock.
            took = came["span"][1] - told["began"]
        figures.add(
            "whole lifecycles (1 in, 3 out)",
            "/s",
            count / took,
            limit=limit,
            limit_name=f"own verbs in batches of {BATCH}, no HTTP",
        )
        await _all_replied(url, count)
        now, most = memory_mb(service.pid)
        figures.add("memory of the service after the lifecycles", "MB", now)
        figures.add("memory of the service at most, lifecycles", "MB", most)


async def deliveries(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Messages that were sealed before, delivered as fast as they go."""
    count = extent.messages
    async with stage.database() as url:
        limit = await deliveries_per_second(url, count=count, concurrency=stage.concurrency)
    await stage.receiver.ask("reset")
    async with stage.database() as url:
        async with core_on(url, concurrency=1) as core:
            await backlog(core, count)
        async with stage.service(url, roles="deliver"):
            came = await stage.arrivals(count, seconds_max=60.0)
    assert came["count"] == count, came
    first, last = came["span"]
    figures.add(
        "delivered messages of a backlog",
        "/s",
        count / (last - first),
        limit=limit,
        limit_name="taken and settled, not sent",
    )


async def latencies(stage: Stage, extent: Extent, figures: Figures) -> None:
    """An idle service: from accept to agent, and from the sending of a seal to the receiver's first byte."""
    await stage.receiver.ask("reset")
    async with stage.database() as url, stage.service(url) as service:
        task = {"trace": True, "name": "idle", "count": extent.samples, "pause_seconds": 0.05}
        async with stage.agents(service, **task) as agent:
            told = await agent.hear(seconds_max=60.0)
        came = await stage.arrivals(extent.samples, seconds_max=10.0)
        assert came["count"] == extent.samples, came
        times = await stage.receiver.ask("times")
        to_receiver = [times[key] - at for key, at in told["sealed"].items()]
        for name, seconds in (
            ("accept to agent, idle", told["to_agent"]),
            ("seal to first byte, idle", to_receiver),
        ):
            for share in (0.5, 0.99):
                value = 1000 * percentile(seconds, share)
                figures.add(f"{name}, p{round(100 * share)}", "ms", value)


async def paced(stage: Stage, extent: Extent, figures: Figures) -> None:
    """Accepts at each pace, with agents and deliveries running; and what all of it took for each accept."""
    seconds, warm_up = 2 * extent.seconds, extent.warm_up_seconds
    for rate in extent.rates:
        async with (
            stage.database() as url,
            stage.service(url) as service,
            stage.agents(service, agents=8, turns_max=4, messages=3),
        ):
            sides = {"the service": service.pid, "Postgres": stage.server_pid}
            before = {side: cpu_seconds(pid) for side, pid in sides.items()}
            told = await stage.load(
                service,
                name="paced",
                connections=32,
                rate=rate,
                seconds=seconds,
                warm_up_seconds=warm_up,
            )
            used = {side: cpu_seconds(pid) - before[side] for side, pid in sides.items()}
            _check(told)
        at = f"at {rate}/s with agents and deliveries"
        for share in ("p50", "p99"):
            figures.add(f"accept {at}, {share}", "ms", told[f"{share}_ms"])
        figures.add(f"accepted at a pace of {rate}/s", "/s", told["per_second"])
        for side, cpu in used.items():
            figures.add(f"{side} {at}, each", "us", 1e6 * cpu / (rate * (seconds + warm_up)))


SCENARIOS: Mapping[str, Scenario] = {
    "accepts": accepts,
    "sources": sources,
    "lifecycles": lifecycles,
    "deliveries": deliveries,
    "latencies": latencies,
    "paced": paced,
}


async def _script(stage: Stage, url: str, size: int) -> Path:
    body = f'{{"text":"{BODY}"}}'.encode()
    arrivals = [arrival(f"bench-{n}", f"bench-{n}", queue="bench", body=body) for n in range(size)]
    async with open_pool(options_for(url), application_name="bench") as pool:
        text = await accept_script(pool, arrivals, ids=IDS, server=stage.binaries.version)
    path = stage.folder / f"accept-{size}.sql"
    path.write_text(text, encoding="utf-8")
    return path


def _check(told: Mapping[str, Any]) -> None:
    assert told["accepted"] > 0, told
    assert not told["refused"], json.dumps(told)


async def _all_replied(url: str, count: int) -> None:
    """A figure counts only where the work was done."""
    admin = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(10.0):
            while await admin.fetchval(REPLIED) < count:
                await asyncio.sleep(0.02)
    finally:
        await admin.close()
