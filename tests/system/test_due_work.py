"""Whatever becomes due is seen to within its bound, by a replica that was quiet and was told of nothing."""

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.domain.ids import IdFactory
from app.domain.model import Slots
from app.engine.take import take
from tests.engine.held_stories import PLAN, seal_held
from tests.engine.stories import CRM, DEAD, DELIVERED, LATER, QUEUE, Sink, draft
from tests.receiver import Receiver
from tests.system.conftest import configuration
from tests.system.processes import POLL_SECONDS, Service
from tests.system.rig import Rig

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

DUE_SECONDS = 5.0
# Five intervals, and what a machine needs that does other things meanwhile.
QUIET_SECONDS = 1.0
SLACK_SECONDS = 2.0


@pytest.fixture
def sink(pool: "Pool", ids: IdFactory) -> Sink:
    """The verbs of a replica that tells nobody what it does."""
    return Sink(pool, ids, random.Random(0))


async def _quiet(rig: Rig, receiver: Receiver) -> Service:
    """A replica that has nothing to do, whose loops would poll twice a minute."""
    rig.configure(configuration(receiver.url, poll_seconds=30))
    service = await rig.serve("service")
    async with asyncio.timeout(10):
        while b"sinksweep_wakeups_listening 1.0" not in (await service.get("/metrics")).body:
            await asyncio.sleep(POLL_SECONDS)
    return service


async def _done(admin: "Admin", wanted: dict[str, str], *, seconds_max: float) -> None:
    """Wait until a query tells true for each name; fails with the names that are left."""
    left = dict(wanted)
    until = asyncio.get_running_loop().time() + seconds_max
    while left:
        for name, query in list(left.items()):
            if await admin.fetchval(f"select exists ({query})"):
                del left[name]
        assert asyncio.get_running_loop().time() < until, sorted(left)
        await asyncio.sleep(POLL_SECONDS)


async def test_what_has_its_time_is_done_when_that_comes(
    rig: Rig, sink: Sink, admin: "Admin", receiver: Receiver
) -> None:
    parked = await sink.parked("parked", seconds=DUE_SECONDS)
    held = await sink.hold("held")
    plan = replace(PLAN, deadline_seconds=DUE_SECONDS)
    await seal_held(sink, held, draft(), plan=plan)
    await sink.sealed("retried", draft())
    retried = await sink.settle_next(replace(LATER, delay_seconds=DUE_SECONDS))
    await sink.sealed("sent", draft())
    slots = [Slots(CRM, 1, DUE_SECONDS, hold_unknown=False)]
    (sent,) = (await take(sink.pool, slots)).messages
    lapsed = await sink.hold("lapsed", lease_seconds=int(DUE_SECONDS))
    scheduled = await sink.accept_one("scheduled", delay_seconds=DUE_SECONDS)
    await _quiet(rig, receiver)
    event = "select from sink.event where verb ="
    await _done(
        admin,
        {
            "parked": f"{event} 'wake' and turn = '{parked.turn}'",
            "held": f"{event} 'expire' and turn = '{held.turn}'",
            "retried": f"{event} 'take' and message = '{retried}' and attempt = 2",
            "sent": f"{event} 'sweep' and message = '{sent.message}'",
            "lapsed": f"{event} 'sweep' and turn = '{lapsed.turn}'",
            "scheduled": f"{event} 'due' and turn = '{scheduled.turn}'",
        },
        seconds_max=DUE_SECONDS + QUIET_SECONDS + SLACK_SECONDS,
    )


async def _sealed(sink: Sink) -> str:
    held = await sink.hold("to send", lease_seconds=60)
    await sink.seal_one(held, draft())
    return f"select from sink.turn where state = 'replied' and id = '{held.turn}'"


async def _asked_again(sink: Sink) -> str:
    (message,) = (await sink.sealed("again", draft(destination="other")))[1]
    (taken,) = await sink.take(destination="other")
    await sink.settle((taken, DELIVERED))
    await sink.pool.execute("update sink.outbox set destination = 'crm' where id = $1", message)
    await sink.ask_resend(message)
    return f"select from sink.event where detail ->> 'step' = 'begun' and message = '{message}'"


async def _died(sink: Sink) -> str:
    turn, _ = await sink.sealed("died", draft(destination="other"))
    (taken,) = await sink.take(destination="other")
    await sink.settle((taken, DEAD))
    return (
        f"select from sink.turn as t where id = '{turn}' and not exists (select from sink.notice)"
    )


async def _operated(sink: Sink) -> str:
    operation = await sink.begin("turn", "cancel")
    return f"select from sink.operation where state = 'done' and id = '{operation}'"


async def _resumed(sink: Sink) -> str:
    await sink.pause("source", "api")
    turn = (await sink.accept_one("held up")).turn
    await sink.resume("source", "api")
    return f"select from sink.event where verb = 'due' and turn = '{turn}'"


async def test_what_nobody_told_of_is_found_within_five_intervals(
    rig: Rig, sink: Sink, admin: "Admin", receiver: Receiver
) -> None:
    service = await _quiet(rig, receiver)
    # The last leaves a turn in its queue, and what waits there keeps a replica awake.
    deeds = (_sealed, _asked_again, _died, _operated, _resumed)
    for deed in deeds:
        await asyncio.sleep(1.5 * QUIET_SECONDS)
        query = await deed(sink)
        await _done(admin, {deed.__name__: query}, seconds_max=QUIET_SECONDS + SLACK_SECONDS)
    given = await sink.claim_one()
    await sink.cancel(given.turn)
    waits = {"queue": QUEUE, "agent": "waits", "wait_seconds": 20}
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.post("/v1/turns/claim", waits))
        await asyncio.sleep(1.5 * QUIET_SECONDS)
        await sink.accept_one("given")
        async with asyncio.timeout(QUIET_SECONDS + SLACK_SECONDS):
            assert len((await waiting).json["turns"]) == 1
