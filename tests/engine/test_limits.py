"""A destination's limits count over all replicas: how much is sent at once, how fast, and whether it is paused."""

from typing import TYPE_CHECKING, Any

import pytest

from app.domain.model import Slots, Taken, Takes
from app.engine import take
from app.engine.breaker import recount
from tests.database import Clock
from tests.engine.stories import CRM, DELIVERED, GIVEN_BACK, Sink, draft
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Freeze, Travel
    from tests.database import Admin

SENDING = "select sending from sink.destination where name = 'crm'"


async def _take(sink: Sink, count: int = 10, **limits: Any) -> Takes:
    return await take.take(sink.pool, [Slots(CRM, count, 30.0, **limits)])


async def _messages(sink: Sink, count: int) -> None:
    await sink.sealed("many", *(draft(str(n), f"c{n}") for n in range(count)))


async def _made(sink: Sink) -> None:
    """The row of the destination is there, as after its first message."""
    await sink.sealed("made", draft("made"))
    await sink.settle_next(DELIVERED)


async def test_two_takes_at_once_never_send_more_than_the_destination_bears(
    sink: Sink, suspend: Suspend, admin: "Admin"
) -> None:
    await _made(sink)
    await _messages(sink, 10)
    async with suspend() as first:
        mine = await _take(first.sink, 3, concurrency_max=4)
        second = await first.blocks(_take(sink, 3, concurrency_max=4))
    assert len(mine.messages) == 3
    assert mine.limits == {}
    assert len(second.result().messages) == 1
    assert second.result().limits == {CRM: "concurrency"}
    assert second.result().rest_seconds == take.CROWDED_SECONDS
    assert await admin.fetchval(SENDING) == 4


async def test_the_first_two_takes_ever_keep_to_the_limit_too(
    sink: Sink, suspend: Suspend, admin: "Admin"
) -> None:
    await _messages(sink, 10)
    async with suspend() as first:
        mine = await _take(first.sink, 3, concurrency_max=4)
        second = await first.blocks(_take(sink, 3, concurrency_max=4))
    assert (len(mine.messages), len(second.result().messages)) == (3, 1)
    assert await admin.fetchval(SENDING) == 4


async def test_a_take_that_dies_before_its_commit_counts_nothing(
    sink: Sink, suspend: Suspend, admin: "Admin"
) -> None:
    await _made(sink)
    await _messages(sink, 10)
    async with suspend() as first:
        await _take(first.sink, 3, concurrency_max=4)
        second = await first.blocks(_take(sink, 10, concurrency_max=4))
        first.roll_back()
    assert len(second.result().messages) == 4
    assert await admin.fetchval(SENDING) == 4


async def test_whatever_ends_an_attempt_frees_its_slot(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await _messages(sink, 8)
    taken = list((await _take(sink, concurrency_max=4)).messages)
    assert (await _take(sink, concurrency_max=4)).messages == []
    await sink.settle((taken[0], DELIVERED), (taken[1], GIVEN_BACK))
    assert await admin.fetchval(SENDING) == 2
    await sink.tell(taken[2])
    assert await admin.fetchval(SENDING) == 1
    await travel(31)
    await sink.sweep_messages()
    assert await admin.fetchval(SENDING) == 0
    assert await sink.settle((taken[3], DELIVERED)) == [False]
    await sink.tell(taken[3])
    assert await admin.fetchval(SENDING) == 0
    assert len((await _take(sink, concurrency_max=4)).messages) == 4


async def test_a_destination_that_gives_nothing_is_not_even_locked(
    sink: Sink, admin: "Admin"
) -> None:
    await _messages(sink, 3)
    await _take(sink, 2, concurrency_max=2)
    async with admin.transaction():
        await admin.execute("select from sink.destination for update")
        assert (await _take(sink, concurrency_max=2)).limits == {CRM: "concurrency"}


async def test_a_rate_holds_over_all_replicas_and_says_when_to_come_again(
    sink: Sink, freeze: "Freeze", clock: Clock, suspend: Suspend
) -> None:
    await freeze()
    await _made(sink)
    await _messages(sink, 40)
    async with suspend() as first:
        mine = await _take(first.sink, 1, rate_per_second=8.0)
        second = await first.blocks(_take(sink, rate_per_second=8.0))
    # A quarter of a second's at once: one here, one there.
    assert (len(mine.messages), len(second.result().messages)) == (1, 1)
    assert second.result().limits == {CRM: "rate"}
    sent = 2
    for _ in range(20):
        rest = (await _take(sink, rate_per_second=8.0)).rest_seconds
        assert rest is not None
        assert 0 < rest <= 1 / 8
        await clock.step(rest)
        sent += len((await _take(sink, rate_per_second=8.0)).messages)
    # Half a message was kept from the rest before.
    assert sent == 2 + 20
    assert (await _take(sink, rate_per_second=8.0)).messages == []


async def test_after_a_long_rest_no_more_than_a_quarter_of_a_second_comes_at_once(
    sink: Sink, clock: Clock
) -> None:
    await _made(sink)
    await clock.freeze()
    await _messages(sink, 30)
    await clock.step(3600)
    assert len((await _take(sink, 30, rate_per_second=40.0)).messages) == 10
    assert len((await _take(sink, 30, rate_per_second=40.0)).messages) == 0
    await clock.step(0.05)
    assert len((await _take(sink, 30, rate_per_second=40.0)).messages) == 2


async def test_a_slow_rate_lets_one_pass_at_a_time(sink: Sink, clock: Clock) -> None:
    await clock.freeze()
    await _messages(sink, 5)
    for _ in range(3):
        takes = await _take(sink, rate_per_second=0.1)
        assert (len(takes.messages), takes.limits) == (1, {CRM: "rate"})
        await clock.step(10)


async def test_nothing_is_held_back_without_a_limit(sink: Sink) -> None:
    await _messages(sink, 5)
    takes = await _take(sink, 5)
    assert len(takes.messages) == 5
    assert (takes.limits, takes.rest_seconds) == ({}, None)
    assert await _take(sink, 5) == Takes([], {}, None)


@pytest.mark.parametrize("kind", ["destination", "all"])
async def test_what_is_paused_gives_nothing_and_loses_no_age(
    sink: Sink, travel: "Travel", kind: Any
) -> None:
    await _messages(sink, 2)
    await sink.sealed("other", draft("x", destination="chat"))
    name = CRM if kind == "destination" else ""
    await sink.pause(kind, name)
    assert (await _take(sink)).messages == []
    assert len(await sink.take(destination="chat")) == (kind == "destination")
    await travel(500)
    await sink.resume(kind, name)
    await travel(50)
    (one, _) = (await _take(sink)).messages
    assert 50 <= one.age_seconds < 60


async def test_what_is_counted_wrongly_is_put_right(sink: Sink, admin: "Admin") -> None:
    await _messages(sink, 5)
    await _take(sink, 2)
    assert await recount(sink.pool) == []
    for wrong in (0, 7):
        await admin.execute("update sink.destination set sending = $1", wrong)
        assert await recount(sink.pool) == [CRM]
        assert await admin.fetchval(SENDING) == 2


async def test_a_count_waits_for_whoever_counts_at_that_moment(
    sink: Sink, suspend: Suspend, admin: "Admin"
) -> None:
    await _messages(sink, 5)
    taken: list[Taken] = list((await _take(sink, 3)).messages)
    await admin.execute("update sink.destination set sending = 9")
    async with suspend() as first:
        await first.sink.settle((taken[0], DELIVERED))
        second = await first.blocks(recount(sink.pool))
    assert second.result() == [CRM]
    assert await admin.fetchval(SENDING) == 2


async def test_a_probe_that_nobody_makes_is_made_again(sink: Sink, admin: "Admin") -> None:
    await _messages(sink, 1)
    await admin.execute(
        "insert into sink.destination (name, breaker, opened_at) values ('crm', 'probing', sink.now())"
    )
    await admin.execute("insert into sink.standstill values ('crm', 'breaker', sink.now())")
    assert (await _take(sink)).messages == []
    assert await recount(sink.pool) == [CRM]
    assert len((await _take(sink)).messages) == 1
