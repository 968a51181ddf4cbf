"""Our verbs in this process, in batches, without HTTP and without sending: what is left is the database and its driver.

It is the other limit: what the service could reach if requests and deliveries cost nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
from pydantic import SecretStr

from app.core import Core, open_core
from app.domain.model import ClaimRequest
from app.engine.accept import accept
from app.engine.claim import claim
from app.engine.seal import seal
from app.engine.wake import OUTBOX
from app.settings import Destination, Queue, Settings
from app.workers.deliverer import Deliverer
from app.workers.loop import Loop, run_loop
from tests.bench.agents import SAID
from tests.bench.load import BODY
from tests.engine.stories import arrival, draft, sealing

if TYPE_CHECKING:
    from app.channels import Outgoing

QUEUE = "bench"
BATCH = 50
AHEAD_MAX = 8 * BATCH
KEY_SECONDS = 2_592_000.0
DELIVERED = "select count(*) from sink.outbox where state = 'delivered'"
REPLIED = "select count(*) from sink.turn where state = 'replied'"


@asynccontextmanager
async def core_on(database_url: str, *, concurrency: int) -> AsyncIterator[Core]:
    """A core whose one destination receives everything at once, without a network."""

    async def receive(_message: "Outgoing") -> int:
        return 1

    settings = Settings(
        database_url=SecretStr(database_url),
        queues={QUEUE: Queue()},
        destinations={"receiver": Destination(kind="loopback", concurrency_max=concurrency)},
    )
    async with open_core(settings, application_name="bench") as core:
        yield replace(core, wire=replace(core.wire, store=receive))


@asynccontextmanager
async def delivering(core: Core) -> AsyncIterator[None]:
    """Deliver until the context ends."""
    stop = asyncio.Event()

    async def settle(deliverer: Deliverer) -> None:
        while True:
            await deliverer.settle_ended()

    async with asyncio.TaskGroup() as tasks:
        deliverer = Deliverer(core, tasks)
        with core.wakes.waiting(OUTBOX) as woken:
            loop = Loop("deliver", deliverer.tick, core.settings.delivery.poll_seconds, woken)
            running = tasks.create_task(run_loop(loop, core=core, stop=stop))
            settling = tasks.create_task(settle(deliverer))
            try:
                yield
            finally:
                stop.set()
                core.wakes.wake_here(OUTBOX)
                await deliverer.drain(seconds=5.0)
                settling.cancel()
                await running


async def run_batch(core: Core, name: str, *, messages: int, conversations: bool) -> list[UUID]:
    """Accept, claim and seal one batch of turns, each with so many messages; returns the turns."""
    arrivals = [
        arrival(
            f"{name}-{n}",
            f"{name}-{n}" if conversations else None,
            queue=QUEUE,
            body=f'{{"text":"{BODY}"}}'.encode(),
        )
        for n in range(BATCH)
    ]
    await accept(core.pool, arrivals, ids=core.ids, key_seconds=KEY_SECONDS)
    (held,) = await claim(core.pool, [ClaimRequest(QUEUE, "agent", BATCH, 60, 8 << 20)])
    requests = [
        sealing(
            one,
            *(
                draft(f"{SAID} {n}", one.conversation, destination="receiver")
                for n in range(messages)
            ),
        )
        for one in held or ()
    ]
    await seal(core.pool, requests, ids=core.ids)
    core.wakes.tell(OUTBOX)
    return [request.turn for request in requests]


async def lifecycles_per_second(database_url: str, *, seconds: float, concurrency: int) -> float:
    """Whole turns a second, one in and three out, in batches."""
    admin = await asyncpg.connect(database_url)
    try:
        async with core_on(database_url, concurrency=concurrency) as core, delivering(core):
            await run_batch(core, "warm", messages=3, conversations=True)
            while await admin.fetchval(REPLIED) < BATCH:
                await asyncio.sleep(0.005)
            before: int = await admin.fetchval(REPLIED)
            began, turns = time.monotonic(), 0
            while time.monotonic() - began < seconds:
                await run_batch(core, f"b{turns}", messages=3, conversations=True)
                turns += BATCH
                # No further ahead than agents would be: deliveries are a part of it.
                while turns - (await admin.fetchval(REPLIED) - before) > AHEAD_MAX:
                    await asyncio.sleep(0.02)
            while await admin.fetchval(REPLIED) - before < turns:
                await asyncio.sleep(0.005)
            return turns / (time.monotonic() - began)
    finally:
        await admin.close()


async def deliveries_per_second(database_url: str, *, count: int, concurrency: int) -> float:
    """Messages of a sealed backlog a second, taken and settled and not sent."""
    admin = await asyncpg.connect(database_url)
    try:
        async with core_on(database_url, concurrency=concurrency) as core:
            await backlog(core, count)
            began = time.monotonic()
            async with delivering(core):
                while (done := await admin.fetchval(DELIVERED)) < count:
                    await asyncio.sleep(0.01)
            return float(done / (time.monotonic() - began))
    finally:
        await admin.close()


async def backlog(core: Core, count: int) -> None:
    """Seal so many messages, each of a turn of its own, that nobody delivers yet."""
    for n in range(-(-count // BATCH)):
        await run_batch(core, f"backlog-{n}", messages=1, conversations=False)
