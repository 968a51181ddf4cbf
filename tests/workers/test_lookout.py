"""The lookout: it rests until something is due, and what the others do while it rests costs no look before its time."""

import asyncio
from itertools import pairwise

import pytest

from app.core import Core
from app.engine.wake import OUTBOX, RESEND, queue_topic
from app.workers.lookout import Lookout
from app.workers.loop import Loop, run_loop
from tests.database import Clock
from tests.engine.stories import DELIVERED, LATER, QUEUE, Sink, draft
from tests.workers.conftest import IMPATIENT, OpenCore, dawdling

CRM = {"crm": {"kind": "loopback"}}


def _heard(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(core.wakes), "listening", True)


async def test_while_nothing_is_known_to_come_it_rests_long_where_others_are_heard(
    sink: Sink, opening: OpenCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sink.accept_one("a", delay_seconds=3600.0)
    async with opening(CRM) as core:
        lookout = Lookout(core)
        # Nobody is heard: everything is looked for each interval.
        assert await lookout.tick() == 1.0
        _heard(core, monkeypatch)
        assert await lookout.tick() == 5.0
        lookout = Lookout(core, stirred := asyncio.Event())
        stirred.set()
        # Something was told of, whatever it was.
        assert await lookout.tick() == 1.0
        assert await lookout.tick() == 5.0


async def test_it_rests_no_longer_than_until_the_next_is_due(
    sink: Sink, opening: OpenCore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await clock.freeze()
    await sink.accept_one("a", delay_seconds=3.0)
    async with opening(CRM) as core:
        _heard(core, monkeypatch)
        lookout = Lookout(core)
        assert await lookout.tick() == 3.0
        await clock.step(2.9)
        # However close it is, looks do not follow each other without end.
        assert await lookout.tick() == 0.25
        await clock.step(0.1)
        assert (await lookout.look()).due == ["due"]


async def test_while_a_turn_waits_or_runs_or_a_message_is_sent_nothing_is_quiet(
    sink: Sink, opening: OpenCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening(CRM) as core:
        _heard(core, monkeypatch)
        lookout = Lookout(core)
        await sink.accept_one("a")
        assert await lookout.tick() == 1.0
        held = await sink.claim_one()
        assert await lookout.tick() == 1.0
        await sink.seal_one(held, draft())
        taken = await sink.take_one()
        assert await lookout.tick() == 1.0
        await sink.settle((taken, DELIVERED))
        assert await lookout.tick() == 5.0


async def test_who_waits_for_what_is_due_is_woken(
    sink: Sink, opening: OpenCore, clock: Clock
) -> None:
    """Turns to give, messages to send, what is to be sent once more: each only when its time has come."""
    await clock.freeze()
    again = (await sink.sealed("a", draft()))[1]
    await sink.settle_next(DELIVERED)
    await sink.sealed("b", draft())
    await sink.settle_next(LATER)
    held = await sink.hold("c")
    await sink.hand_back(held, delay_seconds=10.0)
    async with opening(CRM) as core:
        lookout = Lookout(core)
        topics = (queue_topic(QUEUE), OUTBOX, RESEND)

        async def woken() -> list[str]:
            with (
                core.wakes.waiting(topics[0]) as first,
                core.wakes.waiting(topics[1]) as second,
                core.wakes.waiting(topics[2]) as third,
            ):
                await lookout.look()
                events = zip(topics, (first, second, third), strict=True)
                return [topic for topic, event in events if event.is_set()]

        assert await woken() == []
        await clock.step(LATER.delay_seconds)
        assert await woken() == [OUTBOX]
        await clock.step(10.0)
        assert await woken() == [queue_topic(QUEUE), OUTBOX]
        await sink.pause("queue", QUEUE)
        await sink.pause("destination", "crm")
        assert await woken() == []
        await sink.ask_resend(*again)
        # It waits wherever deliveries wait.
        assert await woken() == []
        await sink.resume("destination", "crm")
        assert await woken() == [OUTBOX, RESEND]


async def test_where_what_waits_cannot_be_looked_for_who_waits_looks_and_it_is_tried_seldom(
    sink: Sink, opening: OpenCore, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    del sink
    async with opening(CRM, database=IMPATIENT) as core:
        _heard(core, monkeypatch)
        lookout = Lookout(core)

        async def woken() -> bool:
            with (
                core.wakes.waiting(queue_topic(QUEUE)) as first,
                core.wakes.waiting(OUTBOX) as second,
                core.wakes.waiting(RESEND) as third,
            ):
                assert lookout.rest_seconds(await lookout.look()) == (5.0 if lookout.quiet else 1.0)
                events = (first, second, third)
                assert len({event.is_set() for event in events}) == 1
                return first.is_set()

        assert not await woken()
        async with dawdling(clock.admin):
            assert await woken()
        began = asyncio.get_running_loop().time()
        # It took some 0.2 seconds: there is no more of it within twenty times as long.
        assert await woken()
        async with asyncio.timeout(10):
            while await woken():
                await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() - began >= 3.0


async def test_what_stirs_a_loop_cuts_its_rest_to_no_less_than_it_was_told(
    opening: OpenCore,
) -> None:
    stop, stirred, passed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    times: list[float] = []

    async def tick() -> float:
        times.append(asyncio.get_running_loop().time())
        stirred.clear()
        passed.set()
        return 3600.0

    loop = Loop("test", tick, 1.0, stirred=stirred, stirred_seconds=0.2)
    async with opening({}) as core, asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(run_loop(loop, core=core, stop=stop))
        for seconds in (0.0, 0.3):
            await passed.wait()
            passed.clear()
            await asyncio.sleep(seconds)
            # Before its time it has to wait for that, and behind it nothing.
            stirred.set()
        await passed.wait()
        stop.set()
    first, second = (after - before for before, after in pairwise(times))
    assert first >= 0.2
    assert second >= 0.3
