"""A breaker pauses and probes over all replicas, whatever dies meanwhile."""

from typing import TYPE_CHECKING

import pytest

from app.domain.breaker import BreakerMove
from app.domain.model import Slots
from app.domain.outcome import Delivered, Outcome, Unknown
from app.engine import take
from app.engine.breaker import recount
from tests.database import Clock
from tests.engine.breaker_stories import (
    ASKED,
    FAILS,
    REFUSED,
    REJECTED,
    breaker_of,
    end,
    open_breaker,
    seal_messages,
    try_one,
)
from tests.engine.stories import CRM, Sink
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_it_opens_after_so_many_in_vain_and_stops_every_replica(sink: Sink) -> None:
    await seal_messages(sink, 5)
    for _ in range(2):
        await try_one(sink, REFUSED)
    assert await breaker_of(sink) == ("closed", None)
    await try_one(sink, FAILS)
    assert await breaker_of(sink) == ("open", "failing")
    takes = await take.take(sink.pool, [Slots(CRM, 10, 30.0)])
    assert takes.messages == []
    assert takes.limits == {CRM: "breaker"}
    assert takes.rest_seconds is not None
    assert 4 < takes.rest_seconds <= 5


@pytest.mark.parametrize("answered", [Delivered(), REJECTED], ids=["delivered", "rejected"])
async def test_an_answer_in_between_begins_the_count_anew(sink: Sink, answered: Outcome) -> None:
    await seal_messages(sink, 9)
    for outcome in (REFUSED, REFUSED, answered, REFUSED, REFUSED):
        await try_one(sink, outcome)
    assert await breaker_of(sink) == ("closed", None)
    await try_one(sink, REFUSED)
    assert await breaker_of(sink) == ("open", "failing")


async def test_a_batch_counts_in_the_order_in_which_its_attempts_ended(sink: Sink) -> None:
    await seal_messages(sink, 12)
    one, two, three, four = await sink.take(4)
    await end(sink, (one, REFUSED), (two, REFUSED), (three, Delivered()), (four, REFUSED))
    assert await breaker_of(sink) == ("closed", None)
    one, two, three, four = await sink.take(4)
    await end(sink, (one, Delivered()), (two, REFUSED), (three, REFUSED), (four, REFUSED))
    assert await breaker_of(sink) == ("open", "failing")


async def test_one_probe_comes_when_its_time_has_come_and_no_other_beside_it(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    await open_breaker(sink)
    await travel(4)
    assert await sink.take() == []
    await travel(2)
    async with suspend() as first:
        probe = await first.sink.take()
        second = await first.blocks(sink.take())
    assert (len(probe), second.result()) == (1, [])
    assert await sink.take() == []
    assert await breaker_of(sink) == ("probing", "failing")


async def test_a_probe_that_succeeds_lets_everybody_go_on(sink: Sink, travel: "Travel") -> None:
    await open_breaker(sink)
    await travel(6)
    (settled,) = await try_one(sink, Delivered())
    assert settled.breaker == BreakerMove(CRM, "probing", "closed", None, None)
    assert len(await sink.take()) == 4


async def test_a_probe_that_is_rejected_shows_that_it_works(sink: Sink, travel: "Travel") -> None:
    await open_breaker(sink)
    await travel(6)
    await try_one(sink, REJECTED)
    assert await breaker_of(sink) == ("closed", None)


async def test_each_probe_in_vain_doubles_the_rest_up_to_its_maximum(
    sink: Sink, clock: Clock
) -> None:
    await clock.freeze()
    await open_breaker(sink)
    rests = [5.0]
    for _ in range(4):
        await clock.step(rests[-1] - 0.1)
        assert await sink.take() == []
        await clock.step(0.1)
        (settled,) = await try_one(sink, FAILS)
        assert settled.breaker is not None
        assert settled.breaker.seconds is not None
        rests.append(settled.breaker.seconds)
    assert rests == [5, 10, 20, 30, 30]
    await clock.step(30)
    await try_one(sink, Delivered())
    for _ in range(2):
        await try_one(sink, FAILS)
    (settled,) = await try_one(sink, FAILS)
    assert settled.breaker is not None
    assert settled.breaker.seconds == 5


async def test_a_probe_waits_for_those_that_began_before(sink: Sink, travel: "Travel") -> None:
    await seal_messages(sink, 6)
    *quick, slow = await sink.take(4)
    await end(sink, *((one, REFUSED) for one in quick))
    await travel(6)
    assert await sink.take() == []
    await end(sink, (slow, FAILS))
    assert len(await sink.take()) == 1


async def test_one_that_began_before_and_arrives_closes_it(sink: Sink) -> None:
    await seal_messages(sink, 6)
    *quick, slow = await sink.take(4)
    await end(sink, *((one, REFUSED) for one in quick))
    await end(sink, (slow, Delivered()))
    assert await breaker_of(sink) == ("closed", None)


@pytest.mark.parametrize("ours", [Unknown("worker_stopped", ours=True), ASKED])
async def test_a_probe_that_tells_nothing_is_made_again(
    sink: Sink, travel: "Travel", ours: Outcome, admin: "Admin"
) -> None:
    await open_breaker(sink)
    await travel(6)
    await try_one(sink, ours)
    assert await breaker_of(sink) == ("open", "failing")
    await admin.execute("update sink.destination set tokens_at = null")
    assert len(await sink.take()) == 1


async def test_workers_that_die_do_not_open_it_and_a_probe_that_dies_is_made_again(
    sink: Sink, travel: "Travel"
) -> None:
    await seal_messages(sink, 5)
    await sink.take()
    await travel(31)
    await sink.sweep_messages()
    assert await breaker_of(sink) == ("closed", None)
    await travel(5)
    for _ in range(3):
        await try_one(sink, REFUSED)
    await travel(6)
    assert len(await sink.take()) == 1
    await travel(31)
    await sink.sweep_messages()
    assert await breaker_of(sink) == ("open", "failing")
    assert len(await sink.take()) == 1


async def test_a_settlement_that_dies_before_its_commit_neither_counts_nor_opens(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    await seal_messages(sink, 5)
    taken = await sink.take(3)
    async with suspend() as first:
        await end(first.sink, *((one, REFUSED) for one in taken))
        first.roll_back()
    assert await breaker_of(sink) == ("closed", None)
    assert await recount(sink.pool) == []
    await travel(31)
    assert await sink.sweep_messages() == 3
