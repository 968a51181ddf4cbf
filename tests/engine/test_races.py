"""Two replicas meet: the one that comes second waits for the first, sees what it did, and nothing is lost.

Each race is shown, not hoped for: the first replica stands before its commit, and the test goes on when Postgres
says that the second one waits for a lock.
"""

from typing import TYPE_CHECKING

import pytest

from app.domain.model import HandedBack, LeaseLost, Sealed
from tests.engine.stories import (
    Sink,
    draft,
    only,
    returning,
    sealing,
    still_holds,
    wish,
)
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

LANES = pytest.mark.parametrize("conversation", [None, "c"])


async def test_the_second_of_two_twins_waits_and_finds_the_first(
    sink: Sink, suspend: Suspend
) -> None:
    async with suspend() as first:
        accepted = await first.sink.accept_one("twin", "c")
        second = await first.blocks(sink.accept_one("twin", "c"))
    twin = second.result()
    assert (twin.turn, twin.inbound) == (accepted.turn, accepted.inbound)
    assert (accepted.duplicate, twin.duplicate) == (False, True)


async def test_the_second_of_two_twins_is_accepted_when_the_first_rolls_back(
    sink: Sink, suspend: Suspend
) -> None:
    async with suspend() as first:
        accepted = await first.sink.accept_one("twin", "c")
        second = await first.blocks(sink.accept_one("twin", "c"))
        first.roll_back()
    twin = second.result()
    assert not twin.duplicate
    assert twin.turn != accepted.turn
    assert await sink.state(twin.turn) == "queued"


async def test_an_accept_behind_a_seal_finds_the_lane_free(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.seal_one(held)
        second = await first.blocks(sink.accept_one("b", "c"))
    assert second.result().state == "queued"


async def test_an_accept_behind_a_seal_that_rolls_back_waits_in_the_lane(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.seal_one(held)
        second = await first.blocks(sink.accept_one("b", "c"))
        first.roll_back()
    assert second.result().state == "waiting"


async def test_a_seal_behind_an_accept_promotes_what_was_accepted(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        accepted = await first.sink.accept_one("b", "c")
        assert accepted.state == "waiting"
        second = await first.blocks(sink.seal_one(held))
    second.result()
    assert await sink.state(accepted.turn) == "queued"


async def test_a_final_failure_behind_an_accept_promotes_what_was_accepted(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        accepted = await first.sink.accept_one("b", "c")
        second = await first.blocks(sink.hand_back(held, final=True))
    assert second.result() == "failed"
    assert await sink.state(accepted.turn) == "queued"


@LANES
async def test_a_sweep_behind_a_seal_changes_nothing(
    sink: Sink, suspend: Suspend, travel: "Travel", conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    await travel(61)
    async with suspend() as first:
        await first.sink.seal_one(held, draft("1", conversation))
        second = await first.blocks(sink.sweep_turns())
    assert second.result() == {}
    assert await sink.state(held.turn) == "sealed"


@LANES
async def test_a_sweep_behind_a_seal_that_rolls_back_puts_the_turn_back(
    sink: Sink, suspend: Suspend, travel: "Travel", conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    await travel(61)
    async with suspend() as first:
        await first.sink.seal_one(held, draft("1", conversation))
        second = await first.blocks(sink.sweep_turns())
        first.roll_back()
    assert second.result() == {"queued": 1}
    assert (await sink.look(held.turn)).messages == []


@LANES
@pytest.mark.parametrize("others", [0, 1])
async def test_a_seal_behind_a_sweep_is_refused_and_leaves_the_lane_alone(
    sink: Sink, suspend: Suspend, travel: "Travel", conversation: str | None, others: int
) -> None:
    held = await sink.hold("a", conversation)
    for n in range(others):
        await sink.accept_one(f"other-{n}", conversation)
    await travel(61)
    async with suspend() as first:
        assert await first.sink.sweep_turns() == {"queued": 1}
        second = await first.blocks(sink.seal(sealing(held, draft("1", conversation))))
    assert second.result() == [LeaseLost("swept", "queued")]
    assert (await sink.accept_one("later", conversation)).state == (
        "waiting" if conversation else "queued"
    )


@LANES
async def test_one_lost_lease_does_not_spoil_the_seals_beside_it(
    sink: Sink, suspend: Suspend, travel: "Travel", conversation: str | None
) -> None:
    lost = await sink.hold("a", conversation)
    await travel(61)
    kept = await sink.hold("b", "other")
    async with suspend() as first:
        await first.sink.sweep_turns()
        second = await first.blocks(sink.seal(sealing(lost, draft()), sealing(kept, draft())))
    refused, done = second.result()
    assert refused == LeaseLost("swept", "queued")
    assert isinstance(done, Sealed)


async def test_a_sweep_behind_a_renewal_changes_nothing(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.hold("a")
    await travel(61)
    async with suspend() as first:
        assert still_holds(only(await first.sink.renew(held)))
        second = await first.blocks(sink.sweep_turns())
    assert second.result() == {}
    assert still_holds(only(await sink.renew(held)))


async def test_a_renewal_behind_a_sweep_is_refused(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    held = await sink.hold("a", "c")
    await travel(61)
    async with suspend() as first:
        await first.sink.sweep_turns()
        second = await first.blocks(sink.renew(held))
    assert second.result() == [LeaseLost("swept", "queued")]


@LANES
async def test_a_seal_behind_a_release_is_refused(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    async with suspend() as first:
        await first.sink.hand_back(held)
        second = await first.blocks(sink.seal(sealing(held, draft())))
    assert second.result() == [LeaseLost("released", "queued")]
    assert (await sink.look(held.turn)).messages == []


@LANES
async def test_a_release_behind_a_seal_is_refused(
    sink: Sink, suspend: Suspend, conversation: str | None
) -> None:
    held = await sink.hold("a", conversation)
    async with suspend() as first:
        await first.sink.seal_one(held, draft())
        second = await first.blocks(sink.release(returning(held)))
    assert second.result() == [LeaseLost("sealed", "sealed")]


async def test_a_repeated_release_behind_the_first_finds_its_answer(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.hand_back(held)
        second = await first.blocks(sink.release(returning(held)))
    assert second.result() == [HandedBack("queued")]
    assert (await sink.story(held.turn)).count(("release", "processing", "queued")) == 1


async def test_a_repeated_seal_behind_the_first_finds_its_answer(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        sealed = await first.sink.seal_one(held, draft("1", "c"))
        second = await first.blocks(sink.seal(sealing(held, draft("1", "c"))))
    repeated = only(second.result())
    assert repeated == Sealed("sealed", sealed.payload_hash, sealed.messages, repeated=True)


async def test_two_claimers_never_wait_and_never_share(
    sink: Sink, suspend: Suspend, admin: "Admin"
) -> None:
    accepted = {one.turn for one in [await sink.accept_one(f"k{n}") for n in range(4)]}
    async with suspend() as first:
        mine = await first.sink.claim(2)
        yours = await sink.claim(4)
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        assert await admin.fetchval(waiting) == 0
    assert {one.turn for one in mine} | {one.turn for one in yours} == accepted
    assert (len(mine), len(yours)) == (2, 2)


async def test_what_a_claimer_gives_up_is_free_again(sink: Sink, suspend: Suspend) -> None:
    accepted = await sink.accept_one("a")
    async with suspend() as first:
        assert len(await first.sink.claim(1)) == 1
        assert await sink.claim(1) == []
        first.roll_back()
    assert (await sink.claim_one()).turn == accepted.turn


async def test_a_claim_with_a_request_id_joins_the_one_before_it(
    sink: Sink, suspend: Suspend
) -> None:
    for n in range(2):
        await sink.accept_one(f"k{n}")
    repeatable = wish(request_id="r" * 16, principal="p")
    async with suspend() as first:
        (mine,) = await first.sink.claim_for(repeatable)
        second = await first.blocks(sink.claim_for(repeatable))
    (joined,) = second.result()
    assert [one.token for one in joined] == [one.token for one in mine]
    assert len(await sink.claim(5)) == 1


async def test_a_turn_that_becomes_due_behind_an_accept_waits_in_its_lane(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    scheduled = await sink.accept_one("a", "c", delay_seconds=10)
    await travel(11)
    async with suspend() as first:
        accepted = await first.sink.accept_one("b", "c")
        second = await first.blocks(sink.due())
    assert second.result() == ["default"]
    assert await sink.state(scheduled.turn) == "waiting"
    assert await sink.state(accepted.turn) == "queued"


async def test_two_replicas_make_a_turn_due_once(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    scheduled = await sink.accept_one("a", "c", delay_seconds=10)
    await travel(11)
    async with suspend() as first:
        assert await first.sink.due() == ["default"]
        second = await first.blocks(sink.due())
    assert second.result() == []
    assert await sink.story(scheduled.turn) == [
        ("accept", None, "scheduled"),
        ("due", "scheduled", "queued"),
    ]
    assert (await sink.accept_one("b", "c")).state == "waiting"
