"""A scheduled turn takes its place when the database's clock says so, and not before."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.domain.errors import InvalidContent
from tests.engine.stories import Sink, arrival

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_a_turn_is_due_at_its_time_and_not_before(sink: Sink, travel: "Travel") -> None:
    accepted = await sink.accept_one("a", delay_seconds=60)
    await travel(59)
    assert await sink.due() == []
    assert await sink.claim(1) == []
    await travel(2)
    assert await sink.due() == ["default"]
    assert await sink.due() == []
    assert (await sink.claim_one()).turn == accepted.turn


async def test_a_turn_that_becomes_due_goes_behind_those_that_came_meanwhile(
    sink: Sink, travel: "Travel"
) -> None:
    scheduled = await sink.accept_one("a", "c", delay_seconds=10)
    early = [await sink.accept_one("b", "c"), await sink.accept_one("d", "c")]
    await travel(11)
    await sink.due()
    late = await sink.accept_one("e", "c")
    ran = []
    for _ in range(4):
        held = await sink.claim_one()
        ran.append(held.turn)
        await sink.seal_one(held)
    assert ran == [one.turn for one in [*early, scheduled, late]]


async def test_turns_of_one_lane_become_due_in_the_order_of_their_times(
    sink: Sink, travel: "Travel"
) -> None:
    third, first, second = await sink.accept(
        arrival("a", "c", delay_seconds=30),
        arrival("b", "c", delay_seconds=10),
        arrival("d", "c", delay_seconds=20),
    )
    await travel(31)
    assert await sink.due() == ["default"] * 3
    states = [await sink.state(one.turn) for one in (first, second, third)]
    assert states == ["queued", "waiting", "waiting"]
    for expected in (first, second, third):
        held = await sink.claim_one()
        assert held.turn == expected.turn
        await sink.seal_one(held)


async def test_many_lanes_become_due_at_once_and_turns_without_one_too(
    sink: Sink, travel: "Travel"
) -> None:
    arrivals = [
        arrival(f"k{n}", f"c{n % 4}" if n % 3 else None, delay_seconds=5) for n in range(12)
    ]
    await sink.accept(*arrivals)
    await sink.accept_one("holder", "c1")
    await travel(6)
    assert len(await sink.due()) == 12
    # Four without a lane, the heads of three lanes, and the one who had a lane already.
    assert len(await sink.claim(50)) == 8


async def test_what_becomes_due_at_once_is_bounded_and_the_oldest_first(
    sink: Sink, travel: "Travel"
) -> None:
    accepted = await sink.accept(*(arrival(f"k{n}", delay_seconds=50 - n) for n in range(5)))
    await travel(100)
    assert await sink.due(2) == ["default"] * 2
    states = [await sink.state(one.turn) for one in accepted]
    assert states == [*["scheduled"] * 3, *["queued"] * 2]


async def test_a_far_time_is_kept_exactly(sink: Sink, admin: "Admin", travel: "Travel") -> None:
    at = await admin.fetchval("select sink.now()") + timedelta(days=365)
    accepted = await sink.accept_one("a", not_before=at)
    assert (await sink.look(accepted.turn)).due_at == at
    await travel(364.9 * 86_400)
    assert await sink.due() == []
    await travel(0.2 * 86_400)
    assert await sink.due() == ["default"]


async def test_a_time_that_has_passed_is_now_and_gets_before_nobody(sink: Sink) -> None:
    first = await sink.accept_one("a")
    early = await sink.accept_one("b", not_before=datetime(1, 1, 2, tzinfo=UTC))
    assert early.state == "queued"
    assert [one.turn for one in await sink.claim(2)] == [first.turn, early.turn]


async def test_a_time_too_far_ahead_is_refused_by_the_clock_that_decides(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    now = await admin.fetchval("select sink.now()")
    times = {"not_before": now + timedelta(days=367), "delay_seconds_max": 366 * 86_400.0}
    with pytest.raises(InvalidContent, match="out_of_range"):
        await sink.accept_one("a", **times)
    assert await admin.fetchval("select count(*) from sink.idempotency_key") == 0
    await travel(2 * 86_400)
    assert (await sink.accept_one("a", **times)).state == "scheduled"
