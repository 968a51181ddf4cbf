"""What waits behind a breaker or a pause loses neither attempts nor age."""

from dataclasses import replace
from typing import TYPE_CHECKING

from app.domain.outcome import Delivered
from tests.database import Clock
from tests.engine.breaker_stories import (
    FAILS,
    POLICY,
    REFUSED,
    REJECTED,
    end,
    open_breaker,
    seal_messages,
    try_one,
)
from tests.engine.stories import CRM, Sink, draft

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_those_that_began_before_and_fail_change_nothing_and_lose_nothing(
    sink: Sink, admin: "Admin"
) -> None:
    await seal_messages(sink, 6)
    *quick, slow = await sink.take(4)
    await end(sink, *((one, REFUSED) for one in quick))
    (settled,) = await end(sink, (slow, FAILS))
    assert settled.breaker is None
    row = await admin.fetchrow("select * from sink.outbox where id = $1", slow.message)
    assert row is not None
    assert (row["attempts"], row["attempts_used"]) == (1, 0)
    assert row["may_have_arrived"]


async def test_a_long_outage_costs_a_message_neither_attempts_nor_age(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    turn, (message,) = await sink.sealed("a", draft("1"))
    for _ in range(3):
        await try_one(sink, REFUSED)
    for _ in range(100):
        await travel(31)
        await try_one(sink, FAILS)
    row = await admin.fetchrow("select * from sink.outbox where id = $1", message)
    assert row is not None
    assert (row["state"], row["reason"]) == ("pending", "timeout")
    assert (row["attempts"], row["attempts_used"]) == (103, 3)
    await travel(31)
    taken = await sink.take_one()
    assert taken.age_seconds < 60
    await end(sink, (taken, Delivered()))
    assert await sink.state(turn) == "replied"


async def test_the_last_attempt_is_spared_while_it_is_not_closed(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    await seal_messages(sink, 1)
    last = replace(POLICY, attempts_max=3)
    await try_one(sink, REFUSED)
    await try_one(sink, REFUSED)
    await admin.execute(
        "update sink.destination set breaker = 'open', opened_at = sink.now(), probe_at = sink.now()"
    )
    await admin.execute("insert into sink.standstill values ('crm', 'breaker', sink.now())")
    await travel(1)
    await try_one(sink, REFUSED, policy=last)
    row = await admin.fetchrow("select * from sink.outbox")
    assert row is not None
    assert (row["state"], row["reason"], row["attempts_used"]) == (
        "pending",
        "connection_refused",
        2,
    )


async def test_a_rejected_probe_is_dead_as_ever(sink: Sink, travel: "Travel") -> None:
    turn, _ = await sink.sealed("a", draft("1"))
    for _ in range(3):
        await try_one(sink, REFUSED)
    await travel(6)
    await try_one(sink, REJECTED)
    assert await sink.states(turn) == ["dead"]


async def test_standstills_that_overlap_are_taken_off_once(sink: Sink, clock: Clock) -> None:
    await clock.freeze()
    await open_breaker(sink)  # from 0
    await clock.step(100)
    await sink.pause("destination", CRM)  # 100
    await clock.step(50)
    await sink.pause("all")  # 150
    await clock.step(50)
    await sink.resume("destination", CRM)  # 200, which closes the breaker too
    await clock.step(100)
    await sink.resume("all")  # 300
    await clock.step(17)
    assert {one.age_seconds for one in await sink.take()} == {17}


async def test_the_sweep_takes_standstills_off_as_well(sink: Sink, clock: Clock) -> None:
    await clock.freeze()
    turn, _ = await sink.sealed("a", draft("1"))
    await sink.pause("destination", CRM)
    await clock.step(90_000)
    await sink.resume("destination", CRM)
    await sink.take_one()
    await clock.step(31)
    await sink.sweep_messages()
    assert await sink.states(turn) == ["pending"]
