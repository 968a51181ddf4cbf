"""The sweeper's pass: everything that is stranded, in bounded batches, and nothing else."""

import asyncio
import logging
from dataclasses import replace

import pytest

from app.domain.model import HoldPlan
from app.workers.sweeper import Sweeper
from tests.database import Clock
from tests.engine.stories import Sink, draft, sealing
from tests.workers.conftest import IMPATIENT, OpenCore, dawdling


async def test_one_pass_puts_back_turns_and_messages_and_makes_due_what_is_due(
    sink: Sink, opening: OpenCore, clock: Clock
) -> None:
    held = await sink.hold("a")
    later = await sink.accept_one("b", delay_seconds=30.0)
    sent, _ = await sink.sealed("c", draft("hello"))
    await sink.take_one()
    await clock.travel(120)
    async with opening({}) as core:
        await Sweeper(core).tick()
    assert await sink.state(held.turn) == "queued"
    assert await sink.state(later.turn) == "queued"
    assert await sink.states(sent) == ["pending"]


async def test_a_pass_goes_on_in_batches_until_nothing_is_left(
    sink: Sink, opening: OpenCore, clock: Clock
) -> None:
    turns = [(await sink.hold(f"{n}")).turn for n in range(7)]
    await clock.travel(120)
    async with opening({}, sweep={"batch_max": 2}) as core:
        await Sweeper(core).tick()
    assert {await sink.state(turn) for turn in turns} == {"queued"}


async def test_a_pass_lets_go_what_a_source_held_up_once_that_goes_on(
    sink: Sink, opening: OpenCore
) -> None:
    await sink.pause("source", "api")
    turns = [(await sink.accept_one(f"{n}", "c")).turn for n in range(5)]
    async with opening({}, sweep={"batch_max": 2}) as core:
        await Sweeper(core).tick()
        assert {await sink.state(turn) for turn in turns} == {"scheduled"}
        await sink.resume("source", "api")
        await Sweeper(core).tick()
    assert [await sink.state(turn) for turn in turns] == ["queued", *["waiting"] * 4]


async def test_a_pass_counts_what_is_paused(sink: Sink, opening: OpenCore) -> None:
    await sink.pause("queue", "gone")
    async with opening({}) as core:
        await Sweeper(core).tick()
        value = core.metrics.registry.get_sample_value
        paused = {
            kind: value("sinksweep_paused", {"kind": kind})
            for kind in ("all", "queue", "source", "destination")
        }
    assert paused == {"all": 0, "queue": 1, "source": 0, "destination": 0}


async def test_a_pass_that_finds_nothing_costs_one_query(sink: Sink, opening: OpenCore) -> None:
    await sink.accept_one("a")
    async with opening({}) as core:
        sweeper = Sweeper(core)
        await sweeper.tick()
        statements: list[str] = []
        connection = await core.pool.acquire(timeout=5)
        connection.add_query_logger(lambda record: statements.append(record.query))
        await core.pool.release(connection)
        await sweeper.tick()
    assert len(statements) == 1


async def test_what_waits_and_takes_too_long_to_look_for_keeps_no_lapsed_lease_from_being_swept(
    sink: Sink, opening: OpenCore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    held = await sink.hold("a")
    await clock.travel(120)
    async with dawdling(clock.admin), opening({}, database=IMPATIENT) as core:
        await Sweeper(core).tick()
    assert await sink.state(held.turn) == "queued"
    assert "what waits could not be looked for" in caplog.text
    assert {record.levelname for record in caplog.records} <= {"INFO", "WARNING"}


async def test_measures_that_take_too_long_fail_no_pass_and_come_seldom(
    sink: Sink, opening: OpenCore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    plan = HoldPlan("queue", deadline_seconds=600.0, on_deadline="escalate")
    await sink.seal(replace(sealing(await sink.hold("a"), draft()), hold=plan))
    quick = {"interval_seconds": 0.01}
    async with opening({}, database=IMPATIENT, sweep=quick) as core:
        sweeper = Sweeper(core)
        async with dawdling(clock.admin, "hold"), asyncio.timeout(60):
            while len(failed := _failed_measures(caplog)) < 2:
                assert await sweeper.tick() <= 5.0
                await asyncio.sleep(0.01)
    # It took 0.2 seconds at least: there is no more of it within twenty times as long.
    first, second = failed
    assert second.created - first.created >= 3.0


def _failed_measures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.message == "could not be measured"]


async def test_a_chore_that_fails_keeps_no_other_from_running(
    sink: Sink,
    opening: OpenCore,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = await sink.hold("a")
    later = await sink.accept_one("b", delay_seconds=30.0)
    await clock.travel(120)
    # The sweep of turns fails for real: what it writes is refused.
    await clock.admin.execute("revoke update on sink.attempt from sinksweep_app")
    async with opening({}) as core:
        await Sweeper(core).tick()
    assert await sink.state(held.turn) == "processing"
    assert await sink.state(later.turn) == "queued"
    assert "some could not be swept" in caplog.text
    await clock.admin.execute("grant update on sink.attempt to sinksweep_app")
    async with opening({}) as core:
        await Sweeper(core).tick()
    assert await sink.state(held.turn) == "queued"


async def test_a_turn_that_somebody_holds_keeps_no_chore_and_no_pass_from_ending(
    sink: Sink, opening: OpenCore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    held = await sink.hold("a")
    later = await sink.accept_one("b", delay_seconds=30.0)
    waits = await sink.accept_one("c", delay_seconds=30.0)
    await clock.travel(120)
    async with opening({}, database={"lock_timeout_ms": 20}) as core:
        async with clock.admin.transaction():
            for turn in (held.turn, waits.turn):
                await clock.admin.execute("select from sink.turn where id = $1 for update", turn)
            await Sweeper(core).tick()
            assert await sink.state(later.turn) == "queued"
        # It is nobody's mistake, and no error is told.
        assert "held by somebody else" in caplog.text
        assert {record.levelname for record in caplog.records} <= {"INFO", "WARNING"}
        await Sweeper(core).tick()
    assert await sink.state(held.turn) == await sink.state(waits.turn) == "queued"


@pytest.mark.parametrize("chore", ["turns", "wakes"])
async def test_those_that_always_fail_keep_no_other_waiting_for_good(
    sink: Sink, opening: OpenCore, clock: Clock, chore: str
) -> None:
    held = [await sink.hold(f"{n}") for n in range(6)]
    if chore == "wakes":
        for one in held:
            await sink.park_one(one, seconds=5.0)
    spoiled = [one.turn for one in held[:4]]
    listed = ", ".join(f"'{turn}'" for turn in spoiled)
    await clock.admin.execute(
        f"create function sink.refuse() returns trigger language plpgsql as $$ begin"
        f" if new.id in ({listed}) then raise exception 'spoiled'; end if; return new; end $$;"
        f" create trigger refuse before update on sink.turn for each row execute function sink.refuse()"
    )
    await clock.travel(120)
    try:
        async with opening({}, sweep={"batch_max": 2}) as core:
            sweeper = Sweeper(core)
            for _ in range(3):
                await sweeper.tick()
        assert {await sink.state(one.turn) for one in held[4:]} == {"queued"}
    finally:
        await clock.admin.execute("drop trigger refuse on sink.turn; drop function sink.refuse()")
    async with opening({}) as core:
        await Sweeper(core).tick()
    assert {await sink.state(turn) for turn in spoiled} == {"queued"}
