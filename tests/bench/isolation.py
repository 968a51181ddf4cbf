"""`python -m tests.bench.isolation`: a healthy destination alone, and beside a slow, a dead and a dripping one.

The healthy one takes a twentieth of a second to answer and has four slots, so that what it is sent in a second is bound
by its slots and not by this machine. Each repeat measures, one after the other, on one durable Postgres: alone; beside
the three with breakers that never open, so that every attempt at them runs into its deadline; beside the three with
breakers as they are by default.
"""

import argparse
import asyncio
import contextlib
import os
import random
import socket
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvloop
from aiohttp import web
from pydantic import SecretStr

from app.core import Core, open_core
from app.domain.ids import IdFactory
from app.engine.pause import pause, resume
from app.engine.wake import OUTBOX
from app.settings import load_settings
from tests.bench.engine import delivering
from tests.bench.stage import Stage, machine, open_stage
from tests.engine.stories import QUEUE, Sink, arrival, draft, sealing
from tests.receiver import Request, open_receiver

if TYPE_CHECKING:
    from app.engine.database import Pool

BATCH = 100
ANSWER_SECONDS = 0.05
SLOTS = 4
SLOTS_TROUBLED = 8
DEADLINE_SECONDS = 1.0
SECONDS_MAX = 120.0
HEALTHY = "healthy"
TROUBLED = ("slow", "dead", "dripping")
NEVER_OPENS = 10_000


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes everything and answers nothing."""
    while await reader.read(1 << 16):
        pass
    writer.close()


async def _drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte of a head each tenth of a second, until the other side has gone: no answer ever comes whole."""
    with contextlib.suppress(OSError):
        writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.1)


async def _answer(_request: Request) -> web.StreamResponse:
    await asyncio.sleep(ANSWER_SECONDS)
    return web.Response(status=204)


@asynccontextmanager
async def _troubled() -> AsyncIterator[dict[str, int]]:
    """Ports where a slow, a dead and a dripping receiver are."""
    slow = await asyncio.start_server(_hang, "127.0.0.1", 0)
    dripping = await asyncio.start_server(_drip, "127.0.0.1", 0)
    with contextlib.closing(socket.socket()) as unused:
        # Bound and not listening: whoever connects is refused.
        unused.bind(("127.0.0.1", 0))
        ports = [server.sockets[0].getsockname()[1] for server in (slow, dripping)]
        try:
            yield {"slow": ports[0], "dead": unused.getsockname()[1], "dripping": ports[1]}
        finally:
            slow.close()
            dripping.close()


async def _backlog(pool: "Pool", ids: IdFactory, *, destination: str, count: int) -> None:
    sink = Sink(pool, ids, random.Random(0))
    for start in range(0, count, BATCH):
        await sink.accept(*(arrival(f"{destination}-{start + n}") for n in range(BATCH)))
        held = await sink.claim(BATCH)
        await sink.seal(*(sealing(one, draft("hello", destination=destination)) for one in held))


@asynccontextmanager
async def _core(
    url: str, healthy: str, ports: dict[str, int], *, failures: int
) -> AsyncIterator[Core]:
    def webhook(target: str, slots: int) -> dict[str, object]:
        return {
            "kind": "webhook",
            "url": target,
            "timeout_seconds": DEADLINE_SECONDS,
            "concurrency_max": slots,
            "breaker_failures": failures,
        }

    settings = load_settings(
        environ={},
        overrides={
            "destinations": {
                HEALTHY: webhook(healthy, SLOTS),
                **{
                    name: webhook(f"http://127.0.0.1:{port}/hook", SLOTS_TROUBLED)
                    for name, port in ports.items()
                },
            },
            "queues": {QUEUE: {}},
            "network": {"allow": ["127.0.0.0/8"]},
            "database_url": SecretStr(url),
        },
    )
    async with open_core(settings, application_name="bench") as core:
        yield core


async def _per_second(stage: Stage, *, count: int, beside: int, failures: int) -> float:
    """Messages a second that the healthy destination was sent, with so many waiting for each of the others."""
    ids = IdFactory(milliseconds=lambda: time.time_ns() // 1_000_000, random_bytes=os.urandom)
    async with (
        stage.database() as url,
        open_receiver(_answer) as healthy,
        _troubled() as ports,
        _core(url, healthy.url, ports if beside else {}, failures=failures) as core,
    ):
        await _backlog(core.pool, ids, destination=HEALTHY, count=count)
        for name in TROUBLED if beside else ():
            await _backlog(core.pool, ids, destination=name, count=beside)
        await pause(core.pool, "destination", HEALTHY, by="bench")
        async with delivering(core):
            # Those in trouble take all their slots, and lose some of them to the deadline.
            await asyncio.sleep(1.5 * DEADLINE_SECONDS)
            await resume(core.pool, "destination", HEALTHY)
            began = time.monotonic()
            core.wakes.tell(OUTBOX)
            await healthy.wait_for(count, seconds_max=SECONDS_MAX)
            return count / (time.monotonic() - began)


async def _run(*, count: int, beside: int, repeats: int) -> None:
    print(*machine(), sep=", ")
    rates: dict[str, list[float]] = {"alone": [], "beside, never open": [], "beside": []}
    async with open_stage() as stage:
        for _ in range(repeats):
            rates["alone"].append(
                await _per_second(stage, count=count, beside=0, failures=NEVER_OPENS)
            )
            rates["beside, never open"].append(
                await _per_second(stage, count=count, beside=beside, failures=NEVER_OPENS)
            )
            rates["beside"].append(
                await _per_second(stage, count=count, beside=beside, failures=10)
            )
    alone = rates["alone"]
    for name, values in rates.items():
        ratio = statistics.median(one / limit for one, limit in zip(values, alone, strict=True))
        print(f"{name:20} {statistics.median(values):8.0f} messages/s   {ratio:5.2f} of alone")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.isolation", description=__doc__)
    parser.add_argument("--messages", type=int, default=400, help="for the healthy destination")
    parser.add_argument("--beside", type=int, default=100, help="for each of the others")
    parser.add_argument("--repeat", type=int, default=3)
    wish = parser.parse_args()
    uvloop.run(_run(count=wish.messages, beside=wish.beside, repeats=wish.repeat))


if __name__ == "__main__":
    main()
