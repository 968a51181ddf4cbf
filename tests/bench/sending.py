"""A delivery worker as a process, with a Postgres and a receiver of its own: what a send of a backlog costs its Python.

A line on stdin says how many are to be sent; a line on stdout tells the microseconds of processor time for each, from
the take to the settled outcome. Accepting and sealing them is not counted.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator

import uvloop
from prometheus_client import Counter
from pydantic import SecretStr

from app.core import Core, open_core
from app.service.memory import keep_what_is_here
from app.settings import Destination, Network, Queue, Settings
from tests.bench.engine import BATCH, QUEUE, delivering, run_batch
from tests.bench.stage import SECRET, open_stage

LOOK_SECONDS = 0.002


@contextlib.asynccontextmanager
async def sender() -> AsyncIterator[Core]:
    """A core that sends signed webhooks to a receiver that takes everything."""
    os.environ["BENCH_SECRET"] = SECRET  # noqa: TID251 - of a process of the bench
    async with open_stage() as stage, stage.database() as url:
        settings = Settings(
            database_url=SecretStr(url),
            queues={QUEUE: Queue()},
            destinations={
                "receiver": Destination.model_validate(
                    {
                        "kind": "webhook",
                        "url": f"http://127.0.0.1:{stage.receiver_port}/hook",
                        "secrets": ["env:BENCH_SECRET"],
                        "concurrency_max": stage.concurrency,
                    }
                )
            },
            network=Network.model_validate({"allow": ["127.0.0.0/8"]}),
        )
        async with open_core(settings, application_name="bench") as core:
            keep_what_is_here()
            yield core


async def window(core: Core, count: int) -> float:
    """Send so many of a backlog; returns microseconds of processor time for each."""
    made = os.urandom(8).hex()
    for n in range(-(-count // BATCH)):
        await run_batch(core, f"{made}-{n}", messages=1, conversations=False)
    delivered = core.metrics.attempts.labels("receiver", "delivered")
    before = _value(delivered)
    began = time.process_time_ns()
    async with delivering(core):
        while _value(delivered) - before < count:
            await asyncio.sleep(LOOK_SECONDS)
    return (time.process_time_ns() - began) / (_value(delivered) - before) / 1000


def _value(counter: Counter) -> float:
    (metric,) = counter.collect()
    return metric.samples[0].value


async def _obey() -> None:
    async with sender() as core:
        while line := await asyncio.to_thread(sys.stdin.readline):
            _, count = line.split()
            print(await window(core, int(count)), flush=True)


if __name__ == "__main__":
    uvloop.run(_obey())
