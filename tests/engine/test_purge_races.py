"""Whoever meets a purge finds all of a turn or its tombstone, and whoever comes first has it."""

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.engine.expire import drop_delivery_lanes, drop_lanes, expire_pages
from app.engine.purge import FIRST, Purged, bury, purge
from app.engine.transaction import transact
from tests.engine.stories import DELIVERED, UNKNOWN, Sink, draft, only, short
from tests.engine.suspense import Suspend
from tests.engine.walks import DAY, WINDOWS, expire_all, purge_turns, walk

if TYPE_CHECKING:
    from collections import Counter

    from app.domain.model import Taken
    from app.engine.statements import Link
    from tests.conftest import Travel
    from tests.database import Admin


async def _purge(sink: Sink) -> Purged:
    return await purge(sink.pool, windows=WINDOWS, after=FIRST, rows_max=100)


async def _expire(sink: Sink, table: str) -> int:
    return await expire_pages(sink.pool, table, first=0, behind=100)  # type: ignore[arg-type]


async def _old(sink: Sink, travel: "Travel", key: str = "a", conversation: str = "c") -> UUID:
    """A turn that has been over for long enough, with everything a turn can have."""
    turn, _ = await sink.sealed(key, draft("1", conversation), conversation=conversation)
    await sink.settle_next(DELIVERED)
    await travel(31 * DAY)
    return turn


@pytest.mark.parametrize("joins", [False, True])
async def test_a_duplicate_during_a_purge_gets_the_same_answer_before_and_after(
    sink: Sink, suspend: Suspend, travel: "Travel", *, joins: bool
) -> None:
    turn = await _old(sink, travel)
    again = short("a", "c") if joins else None

    async def duplicate() -> tuple[bool, str, UUID]:
        accepted = only(await sink.accept(again)) if again else await sink.accept_one("a", "c")
        return accepted.duplicate, accepted.state, accepted.turn

    async with suspend() as replica:
        assert (await _purge(replica.sink)).counts["turn"] == 1
        during = await duplicate()
    assert during == await duplicate() == (True, "replied", turn)


@pytest.mark.parametrize("commits", [False, True])
async def test_a_duplicate_waits_for_whoever_forgets_its_key(
    sink: Sink, suspend: Suspend, travel: "Travel", *, commits: bool
) -> None:
    turn = await _old(sink, travel)
    await purge_turns(sink.pool)
    await travel(11 * DAY)
    async with suspend() as replica:
        assert await _expire(replica.sink, "idempotency_key") == 1
        again = await replica.blocks(sink.accept_one("a", "c"))
        if not commits:
            replica.roll_back()
    assert again.result().duplicate is not commits
    assert (again.result().turn == turn) is not commits


async def test_a_redrive_that_came_first_keeps_its_turn(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.hold("a", "c")
    await sink.hand_back(held, final=True)
    await travel(91 * DAY)
    async with suspend() as replica:
        await replica.sink.redrive(held.turn)
        assert await purge_turns(sink.pool) == {}
    assert await purge_turns(sink.pool) == {}
    assert (await sink.claim_one()).turn == held.turn


async def test_a_redrive_that_came_too_late_finds_nothing(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.hold("a", "c")
    await sink.hand_back(held, final=True)
    await travel(91 * DAY)
    async with suspend() as replica:
        assert (await _purge(replica.sink)).counts["turn"] == 1
        late = await replica.blocks(sink.redrive(held.turn))
    assert late.result() == [None]


async def _cancelled(sink: Sink, travel: "Travel") -> tuple[UUID, "Taken"]:
    """A turn whose message was cancelled long ago, while nobody knew whether it had arrived; and its attempt."""
    turn, _ = await sink.sealed("a", draft("1", "c"), conversation="c")
    taken = await sink.take_one()
    await sink.settle((taken, UNKNOWN))
    await sink.cancel_messages(taken.message)
    assert await sink.state(turn) == "undelivered"
    await travel(31 * DAY)
    return turn, taken


async def test_a_late_fact_that_came_first_keeps_its_turn_for_a_whole_window(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    turn, taken = await _cancelled(sink, travel)
    async with suspend() as replica:
        assert await replica.sink.tell(taken) == {taken.message}
        assert await purge_turns(sink.pool) == {}
    assert await purge_turns(sink.pool) == {}
    assert await sink.state(turn) == "replied"
    await travel(31 * DAY)
    assert (await purge_turns(sink.pool))["turn"] == 1


async def test_a_late_fact_that_came_between_look_and_lock_is_seen(
    sink: Sink, travel: "Travel"
) -> None:
    turn, taken = await _cancelled(sink, travel)
    await sink.tell(taken)

    async def work(connection: "Link") -> "Counter[str]":
        return await bury(connection, [turn], windows=WINDOWS)

    assert +await transact(sink.pool, work) == {}
    assert await sink.state(turn) == "replied"


async def test_a_late_fact_that_came_too_late_finds_nothing(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    _, taken = await _cancelled(sink, travel)
    async with suspend() as replica:
        assert (await _purge(replica.sink)).counts["message"] == 1
        late = await replica.blocks(sink.tell(taken))
    assert late.result() == set()


async def test_two_purges_take_different_turns_and_neither_waits(
    sink: Sink, suspend: Suspend, travel: "Travel", admin: "Admin"
) -> None:
    for n in range(4):
        await sink.cancel((await sink.accept_one(f"k{n}", "c")).turn)
    await travel(31 * DAY)
    async with suspend() as replica:
        first = await purge(replica.sink.pool, windows=WINDOWS, after=FIRST, rows_max=2)
        second = await _purge(sink)
        assert (first.counts["turn"], second.counts["turn"]) == (2, 2)
        assert (await _purge(sink)).counts.get("turn", 0) == 0
    assert await admin.fetchval("select count(*) from sink.tombstone where id = turn") == 4


async def test_who_reads_during_a_purge_sees_the_turn_as_it_was(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    turn = await _old(sink, travel)
    async with suspend() as replica:
        await _purge(replica.sink)
        assert await sink.states(turn) == ["delivered"]
        assert (await sink.look(turn)).inbound is not None


async def test_an_accept_makes_the_lane_anew_that_is_being_dropped(
    sink: Sink, suspend: Suspend, travel: "Travel", admin: "Admin"
) -> None:
    await _old(sink, travel)
    await purge_turns(sink.pool)
    async with suspend() as replica:
        assert await _expire(replica.sink, "lane") == 1
        accepted = await replica.blocks(sink.accept_one("b", "c"))
    assert accepted.result().state == "queued"
    assert await admin.fetchval("select (tail, holder)::text from sink.lane") == (
        f"(1,{accepted.result().turn})"
    )


async def test_a_lane_that_is_being_entered_is_left_alone(
    sink: Sink, suspend: Suspend, travel: "Travel", admin: "Admin"
) -> None:
    await _old(sink, travel)
    await purge_turns(sink.pool)
    async with suspend() as replica:
        await replica.sink.accept_one("b", "c")
        assert await _expire(sink, "lane") == 0
    assert await _expire(sink, "lane") == 0
    assert await admin.fetchval("select tail from sink.lane") == 2


async def test_a_lane_that_a_turn_has_passed_through_between_look_and_lock_is_left_alone(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    await _old(sink, travel)
    await purge_turns(sink.pool)
    looked = await admin.fetch("select queue, conversation, null as destination from sink.lane")
    turn, _ = await sink.sealed("b", draft("1", "c"), conversation="c")
    held = await admin.fetch("select queue, conversation, destination from sink.delivery_lane")

    async def work(connection: "Link") -> tuple[int, int]:
        return await drop_lanes(connection, looked), await drop_delivery_lanes(connection, held)

    assert await transact(sink.pool, work) == (0, 0)
    assert await admin.fetchval("select lane_seq from sink.turn where id = $1", turn) == 2


async def test_a_seal_makes_the_delivery_lane_anew_that_is_being_dropped(
    sink: Sink, suspend: Suspend, travel: "Travel", admin: "Admin"
) -> None:
    await _old(sink, travel)
    await purge_turns(sink.pool)
    held = await sink.hold("b")
    async with suspend() as replica:
        assert await _expire(replica.sink, "delivery_lane") == 1
        sealed = await replica.blocks(sink.seal_one(held, draft("1", "c"), draft("2", "c")))
    assert sealed.result().state == "sealed"
    assert await admin.fetchval("select tail from sink.delivery_lane") == 2


async def test_a_delivery_lane_that_is_being_sealed_into_is_left_alone(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    await _old(sink, travel)
    await purge_turns(sink.pool)
    held = await sink.hold("b")
    async with suspend() as replica:
        await replica.sink.seal_one(held, draft("1", "c"))
        assert await _expire(sink, "delivery_lane") == 0
    assert await _expire(sink, "delivery_lane") == 0
    await sink.settle_next(DELIVERED)
    assert await _expire(sink, "delivery_lane") == 1


async def test_the_lane_that_a_late_cancel_has_made_goes_with_the_next_walk(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    turn = await _old(sink, travel)
    async with suspend() as replica:
        assert (await _purge(replica.sink)).counts["turn"] == 1
        assert await _expire(replica.sink, "lane") == 1
        late = await replica.blocks(sink.cancel(turn))
    assert late.result() == [None]
    assert (await expire_all(sink.pool)).get("lane") == 1
    assert await walk(sink.pool) == {}
