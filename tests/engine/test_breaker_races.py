"""Replicas that settle at once disagree about nothing: who counts last has seen what was committed before him."""

from dataclasses import replace
from typing import TYPE_CHECKING

from app.domain.breaker import BreakerPolicy
from app.domain.model import Slots
from app.domain.outcome import Delivered
from app.engine import take
from app.engine.breaker import recount
from app.engine.database import open_pool
from tests.database import Clock, options_for
from tests.engine.breaker_stories import (
    FAILS,
    POLICY,
    REFUSED,
    breaker_of,
    end,
    open_breaker,
    seal_messages,
)
from tests.engine.stories import CRM, DELIVERED, GIVEN_BACK, Sink, draft
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.database import Admin


async def test_a_delivery_behind_the_failure_that_opens_it_ends_the_standstill(
    sink: Sink, suspend: Suspend
) -> None:
    await seal_messages(sink, 3)
    await sink.sealed("another", draft("another", "c"))
    *failing, working = await sink.take()
    async with suspend() as first:
        await end(first.sink, *((one, REFUSED) for one in failing))
        second = await first.blocks(end(sink, (working, Delivered())))
    second.result()
    assert await breaker_of(sink) == ("closed", None)


async def test_destinations_are_locked_in_their_order_whatever_their_breakers(
    sink: Sink, suspend: Suspend, admin: "Admin"
) -> None:
    await seal_messages(sink, 4)
    await sink.sealed("crm", draft("crm"))
    await sink.sealed("x", draft("x", destination="x"))
    one, *failing, two = await sink.take()
    (other,) = await sink.take(destination="x")
    await end(sink, *((each, REFUSED) for each in failing))
    assert await breaker_of(sink) == ("open", "failing")
    async with suspend() as first:
        # Holds the row of the first destination, and might want that of the second.
        await end(first.sink, (one, REFUSED))
        second = await first.blocks(end(sink, (other, Delivered()), (two, Delivered())))
        await admin.execute("select from sink.destination where name = 'x' for update nowait")
    assert all(settled.held for settled in second.result())
    assert await breaker_of(sink) == ("closed", None)
    assert await recount(sink.pool) == []


async def test_a_resume_behind_the_failure_that_opens_it_ends_the_standstill(
    sink: Sink, suspend: Suspend
) -> None:
    await seal_messages(sink, 5)
    one, two, three = await sink.take(3)
    await end(sink, (one, REFUSED))
    async with suspend() as first:
        await end(first.sink, (two, REFUSED), (three, REFUSED))
        second = await first.blocks(sink.resume("destination", CRM))
    second.result()
    assert await breaker_of(sink) == ("closed", None)


async def test_what_tells_nothing_never_opens_it(sink: Sink) -> None:
    patient = replace(POLICY, breaker=BreakerPolicy(failures=100), attempts_max=1000)
    await seal_messages(sink, 16)
    given_back, told, *failing = await sink.take()
    await end(sink, *((one, FAILS) for one in failing), policy=patient)
    await sink.settle((given_back, GIVEN_BACK))
    assert await breaker_of(sink) == ("closed", None)
    await sink.tell(told)
    assert await breaker_of(sink) == ("closed", None)


async def test_what_is_leased_is_given_although_another_destination_cannot_be_made(
    sink: Sink, suspend: Suspend, database_url: str
) -> None:
    await sink.sealed("before", draft("0"))
    await sink.settle((await sink.take_one(), DELIVERED))
    await sink.sealed("a", draft("1"), draft("2", destination="x"))
    slots = [Slots(CRM, 9, 30.0), Slots("x", 9, 30.0)]
    hasty = options_for(database_url, lock_timeout_ms=20)
    async with suspend() as first, open_pool(hasty, application_name="hasty") as pool:
        # Makes its row, and has not committed yet.
        await first.sink.take(destination="x")
        first.roll_back()
        takes = await take.take(pool, slots)
    assert [one.destination for one in takes.messages] == [CRM]
    assert takes.rest_seconds == 0.0
    takes = await take.take(sink.pool, slots)
    assert [one.destination for one in takes.messages] == ["x"]


async def test_a_clock_that_goes_back_keeps_nobody_from_what_is_due_elsewhere(
    sink: Sink, clock: Clock
) -> None:
    await open_breaker(sink)
    await sink.sealed("x", draft("x", destination="x"))
    await clock.travel(-60)
    await sink.sealed("y", draft("y", destination="x"))
    takes = await take.take(sink.pool, [Slots(CRM, 9, 30.0), Slots("x", 9, 30.0)])
    assert [one.destination for one in takes.messages] == ["x"]


async def test_a_message_older_than_the_clock_says_is_young(sink: Sink, clock: Clock) -> None:
    await seal_messages(sink, 1)
    await clock.travel(10)
    await sink.pause("destination", CRM)
    await clock.travel(10)
    await sink.resume("destination", CRM)
    taken = await sink.take_one()
    await clock.travel(-60)
    await end(sink, (taken, FAILS))
    (taken,) = await sink.take()
    assert taken.age_seconds == 0
