"""The scheduler: what is due comes once over all replicas, by the database's time, and an outage is made good."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.core import Core
from app.workers.purger import Purger
from app.workers.scheduler import LOOK_SECONDS, QUIET_SECONDS, Scheduler
from tests.database import Clock
from tests.engine.stories import Sink
from tests.workers.conftest import OpenCore

if TYPE_CHECKING:
    from tests.database import Admin

pytestmark = pytest.mark.usefixtures("sink")

PARIS = {"schedule": "30 2 * * *", "time_zone": "Europe/Paris", "payload": {"report": "daily"}}


@pytest.fixture
def cron(opening: OpenCore) -> Any:
    """Opens a core with one timed source, of this configuration."""

    @asynccontextmanager
    async def open_(**options: Any) -> AsyncIterator[Core]:
        sections = {name: options.pop(name) for name in ("queues", "retention") if name in options}
        source = {"kind": "cron", **options}
        async with opening({}, sources={"daily": source}, **sections) as core:
            yield core

    return open_


async def _to(clock: Clock, admin: "Admin", moment: str) -> None:
    """Bring the database's clock to a moment."""
    there = datetime.fromisoformat(moment)
    now = await admin.fetchval("select sink.now()")
    await clock.travel((there - now).total_seconds())


async def _times(admin: "Admin") -> list[str]:
    rows = await admin.fetch(
        "select convert_from(body, 'utf8')::json ->> 'scheduled_at' as at from sink.inbound order by 1"
    )
    return [row["at"] for row in rows]


@pytest.mark.parametrize(
    ("before", "after", "fires"),
    [
        ("2026-03-29T00:59:30Z", "2026-03-29T01:00:05Z", "2026-03-29T01:00:00Z"),
        ("2026-10-25T00:29:30Z", "2026-10-25T00:30:05Z", "2026-10-25T00:30:00Z"),
    ],
)
async def test_in_the_nights_that_the_clock_is_moved_it_comes_once(
    cron: Any, clock: Clock, admin: "Admin", before: str, after: str, fires: str
) -> None:
    async with cron(**PARIS) as core:
        await _to(clock, admin, before)
        scheduler = Scheduler(core)
        await scheduler.tick()
        assert await _times(admin) == []
        await _to(clock, admin, after)
        await scheduler.tick()
        for _ in range(12):
            await clock.travel(600)
            await scheduler.tick()
    assert await _times(admin) == [fires]


async def test_many_replicas_bring_each_time_once(cron: Any, clock: Clock, admin: "Admin") -> None:
    async with AsyncExitStack() as stack:
        cores = [
            await stack.enter_async_context(cron(every_seconds=60, conversation="c"))
            for _ in range(4)
        ]
        schedulers = [Scheduler(core) for core in cores]
        await _to(clock, admin, "2027-01-01T00:00:30Z")
        await schedulers[0].tick()
        for _ in range(5):
            await clock.travel(60)
            async with asyncio.TaskGroup() as group:
                for one in schedulers:
                    group.create_task(one.tick())
    assert await _times(admin) == [f"2027-01-01T00:0{n}:00Z" for n in range(1, 6)]
    assert await admin.fetchval("select count(*) from sink.turn") == 5
    rows = await admin.fetch("select distinct source, conversation from sink.inbound")
    assert [tuple(row) for row in rows] == [("daily", "daily:c")]


async def test_a_new_source_begins_now_and_an_outage_is_made_good_up_to_a_number(
    cron: Any, clock: Clock, admin: "Admin", caplog: pytest.LogCaptureFixture
) -> None:
    async with cron(schedule="0 * * * *", catch_up_max=2) as core:
        await _to(clock, admin, "2027-01-01T00:30:00Z")
        await Scheduler(core).tick()
        assert await _times(admin) == []
        await _to(clock, admin, "2027-01-01T09:30:00Z")
        # Another process than the one that looked before.
        scheduler = Scheduler(core)
        await scheduler.tick()
        await scheduler.tick()
        missed = core.metrics.registry.get_sample_value(
            "sinksweep_source_items_total", {"source": "daily", "result": "missed"}
        )
    assert await _times(admin) == ["2027-01-01T08:00:00Z", "2027-01-01T09:00:00Z"]
    assert missed == 7
    assert [record.count for record in caplog.records if "missed" in record.message] == [7]  # type: ignore[attr-defined]


async def test_who_dies_behind_the_accept_brings_nothing_twice(
    cron: Any, clock: Clock, admin: "Admin"
) -> None:
    async with cron(schedule="0 * * * *") as core:
        await _to(clock, admin, "2027-01-01T00:30:00Z")
        await Scheduler(core).tick()
        await _to(clock, admin, "2027-01-01T01:00:01Z")
        before = await admin.fetchval("select looked_at from sink.schedule")
        await Scheduler(core).tick()
        # As if it had died before it noted how far it had looked.
        await admin.execute("update sink.schedule set looked_at = $1", before)
        await Scheduler(core).tick()
    assert await _times(admin) == ["2027-01-01T01:00:00Z"]


async def test_a_paused_source_is_not_asked_and_is_made_good(
    sink: Sink, cron: Any, clock: Clock, admin: "Admin"
) -> None:
    async with cron(every_seconds=60) as core:
        scheduler = Scheduler(core)
        await _to(clock, admin, "2027-01-01T00:00:30Z")
        await scheduler.tick()
        await sink.pause("source", "daily")
        for _ in range(3):
            await clock.travel(60)
            await scheduler.tick()
        assert await _times(admin) == []
        await sink.resume("source", "daily")
        await scheduler.tick()
        assert await _times(admin) == ["2027-01-01T00:03:00Z"]
        await sink.pause("all", "")
        await clock.travel(60)
        await scheduler.tick()
        assert len(await _times(admin)) == 1
        await sink.resume("all", "")


async def test_a_changed_schedule_reaches_back_no_further_than_the_last_look(
    cron: Any, clock: Clock, admin: "Admin"
) -> None:
    async with cron(schedule="0 9 * * *") as core:
        scheduler = Scheduler(core)
        await _to(clock, admin, "2027-01-01T09:00:01Z")
        await scheduler.tick()
        await _to(clock, admin, "2027-01-01T15:00:00Z")
        await scheduler.tick()
    async with cron(schedule="0 14 * * *") as core:
        await Scheduler(core).tick()
    assert await _times(admin) == []


async def test_a_queue_without_room_is_waited_for(
    sink: Sink, cron: Any, clock: Clock, admin: "Admin", caplog: pytest.LogCaptureFixture
) -> None:
    async with cron(every_seconds=60, queues={"default": {"length_max": 1}}) as core:
        scheduler = Scheduler(core)
        await _to(clock, admin, "2027-01-01T00:00:30Z")
        await scheduler.tick()
        held = await sink.accept_one("a")
        await clock.travel(60)
        await scheduler.tick()
        await scheduler.tick()
        assert len([one for one in caplog.records if "no room" in one.message]) == 1
        assert await admin.fetchval("select count(*) from sink.inbound") == 1
        await sink.cancel(held.turn)
        await scheduler.tick()
    assert await admin.fetchval("select count(*) from sink.inbound where source = 'daily'") == 1


async def test_what_is_held_up_is_asked_soon_again_however_far_the_next_time_is(
    sink: Sink, cron: Any, clock: Clock, admin: "Admin"
) -> None:
    async with cron(schedule="0 9 * * *", queues={"default": {"length_max": 1}}) as core:
        scheduler = Scheduler(core)
        await _to(clock, admin, "2027-01-01T08:00:00Z")
        await scheduler.tick()
        await sink.pause("source", "daily")
        assert await scheduler.tick() == LOOK_SECONDS
        await sink.resume("source", "daily")
        assert await scheduler.tick() == QUIET_SECONDS
        held = await sink.accept_one("a")
        await _to(clock, admin, "2027-01-01T09:00:01Z")
        assert await scheduler.tick() == LOOK_SECONDS
        await sink.cancel(held.turn)
        assert await scheduler.tick() == QUIET_SECONDS


async def test_a_clock_that_was_ahead_holds_nothing_up_for_long(
    cron: Any, clock: Clock, admin: "Admin"
) -> None:
    async with cron(every_seconds=60) as core:
        scheduler = Scheduler(core)
        await _to(clock, admin, "2037-01-01T00:00:30Z")
        await scheduler.tick()
        await _to(clock, admin, "2027-01-01T00:00:30Z")
        await scheduler.tick()
        await clock.travel(60)
        await scheduler.tick()
    assert await _times(admin) == ["2027-01-01T00:01:00Z"]


async def test_one_that_fails_keeps_no_other_from_its_time(
    opening: OpenCore, clock: Clock, admin: "Admin", caplog: pytest.LogCaptureFixture
) -> None:
    sources = {name: {"kind": "cron", "every_seconds": 60} for name in ("a", "b")}
    async with opening({}, sources=sources) as core:
        scheduler = Scheduler(core)
        await _to(clock, admin, "2027-01-01T00:00:30Z")
        await scheduler.tick()
        await admin.execute(
            "alter table sink.inbound add constraint planted check (source <> 'a') not valid"
        )
        await clock.travel(60)
        await scheduler.tick()
        rows = await admin.fetch("select source from sink.inbound")
        assert [row["source"] for row in rows] == ["b"]
        await admin.execute("alter table sink.inbound drop constraint planted")
        await scheduler.tick()
        rows = await admin.fetch("select source from sink.inbound order by 1")
        assert [row["source"] for row in rows] == ["a", "b"]
    assert any("could not be asked" in one.message for one in caplog.records)


async def test_a_source_that_nobody_asks_any_more_is_forgotten(
    cron: Any, clock: Clock, admin: "Admin"
) -> None:
    async with cron(every_seconds=60) as core:
        await Scheduler(core).tick()
        purger = Purger(core)
        await clock.travel(core.settings.keys.idempotency_days * 86_400 + 60)
        for _ in range(60):
            await purger.tick()
    assert await admin.fetchval("select count(*) from sink.schedule") == 0
