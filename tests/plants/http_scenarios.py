"""Scenarios over the real API, and with a real worker and a real receiver on their sockets."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from pydantic import SecretStr

from app.core import Core, open_core
from app.settings import load_settings
from app.workers.deliverer import Deliverer
from app.workers.loop import Loop, run_loop
from tests.api.conftest import opened
from tests.database import close_database, open_database
from tests.engine.stories import CRM
from tests.history.log import Answered, Healed, PostAnswered, Posted, Received, encode, now
from tests.plants.stage import Stage
from tests.receiver import Answer, Receiver, Request, open_receiver

POLL_SECONDS = 0.05
REPLIED_SECONDS_MAX = 4.0


async def told_twice(stage: Stage) -> None:
    """A provider that did not hear the first answer sends the same again over HTTP."""
    async with opened(stage.url) as service:
        for _ in range(2):
            post, body = uuid.uuid4().hex, b'{"n": 1}'
            stage.note(Posted(post, now(), "api", "queue/default", "k", encode(body)))
            answer = await service.accept("k", payload=json.loads(body))
            fields = {
                name: answer.json.get(name) for name in ("turn", "state", "duplicate", "code")
            }
            inbound = answer.json.get("id")
            stage.note(PostAnswered(post, now(), answer.status, inbound, **fields))
    await stage.rest()


async def slow_answer(stage: Stage) -> None:
    """A receiver takes its time before it says yes."""

    async def answer(_request: Request) -> int:
        await asyncio.sleep(0.3)
        return 204

    await stage.answer("a", "1", "2", lane="c")
    async with receiving(stage, answer) as receiver, delivering(stage, receiver):
        await replied(stage)
    await stage.rest()


async def lost_notification(stage: Stage) -> None:
    """Nobody tells the worker that there is something to send."""
    async with receiving(stage) as receiver, delivering(stage, receiver):
        await asyncio.sleep(2 * POLL_SECONDS)
        await stage.answer("a", "1", lane="c")
        await replied(stage)
    stage.note(Healed(now()))
    stage.agree(slack_seconds=REPLIED_SECONDS_MAX / 2)


async def database_gone_at_the_confirmation(stage: Stage) -> None:
    """The database is away when a confirmation is to be written, and comes back soon."""
    stage.agree(wire_is_whole=True)
    await stage.answer("a", "1", lane="c")

    async def answer(_request: Request) -> int:
        if len(receiver.got) == 1:
            await close_database(stage.admin)
        return 204

    async with receiving(stage, answer) as receiver, delivering(stage, receiver):
        await receiver.wait_for(1)
        await asyncio.sleep(0.2)
        await open_database(stage.admin)
        if not await replied(stage):
            # Its lease lapses, as that of a worker that has died.
            await stage.travel(120)
            await stage.sweep()
            await stage.travel(10)
            await replied(stage)
    await stage.sink.pool.expire_connections()
    await stage.rest()


async def _fine(_request: Request) -> int:
    return 204


@asynccontextmanager
async def receiving(stage: Stage, status: Any = _fine) -> AsyncIterator[Receiver]:
    """A real receiver that writes down what it gets and what it answers."""

    async def answer(request: Request) -> web.StreamResponse:
        name = uuid.uuid4().hex
        headers = request.headers
        stage.note(
            Received(
                name,
                now(),
                CRM,
                request.key,
                encode(request.body),
                webhook_id=headers.get("webhook-id"),
                content_type=headers.get("Content-Type"),
            )
        )
        code = await status(request)
        stage.note(Answered(name, now(), code))
        return web.Response(status=code)

    typed: Answer = answer
    async with open_receiver(typed) as receiver:
        yield receiver


@asynccontextmanager
async def delivering(stage: Stage, receiver: Receiver) -> AsyncIterator[Core]:
    """A real worker that polls, and that nobody tells anything."""
    settings = load_settings(
        environ={},
        overrides={
            "database_url": SecretStr(stage.url),
            "network": {"allow": ["127.0.0.0/8"]},
            "delivery": {"poll_seconds": POLL_SECONDS},
            "destinations": {
                CRM: {"kind": "webhook", "url": receiver.url, "secrets": [], "backoff_seconds": 0.0}
            },
        },
    )
    stop = asyncio.Event()
    async with (
        open_core(settings, application_name="sinksweep-plants") as core,
        asyncio.TaskGroup() as group,
    ):
        deliverer = Deliverer(core, group)

        async def settle() -> None:
            while True:
                await deliverer.settle_ended()

        settling = group.create_task(settle())
        loop = Loop("deliver", deliverer.tick, POLL_SECONDS)
        running = group.create_task(run_loop(loop, core=core, stop=stop))
        try:
            yield core
        finally:
            stop.set()
            await running
            await deliverer.drain(seconds=2)
            settling.cancel()


async def replied(stage: Stage) -> bool:
    """Wait until every turn is replied, within a bound."""
    query = "select count(*) from sink.turn where state <> 'replied'"
    try:
        async with asyncio.timeout(REPLIED_SECONDS_MAX):
            while await stage.admin.fetchval(query):
                await asyncio.sleep(0.01)
    except TimeoutError:
        return False
    return True
