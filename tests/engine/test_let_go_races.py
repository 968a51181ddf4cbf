"""Sets are let go at once, or while others are sealed and delivered: each lane is in the order of the commits.

Each race is shown, not hoped for: the first replica stands before its commit, and the test goes on when Postgres says
that the second one waits for a lock.
"""

from typing import TYPE_CHECKING

import pytest

from app.domain.model import Sealed
from tests.engine.held_stories import decide, deciding, drafted, holding, later, seal_held
from tests.engine.stories import DELIVERED, Sink, arrival, draft, only, sealing
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.database import Admin


async def _bodies(sink: Sink) -> list[bytes]:
    """What is sent one after the other in the lane of `c`."""
    said = []
    while taken := await sink.take(1):
        said.append(taken[0].body)
        await sink.settle((taken[0], DELIVERED))
    return said


@pytest.mark.parametrize("commits", [True, False])
async def test_two_approvals_stand_in_their_lane_as_they_were_committed(
    sink: Sink, suspend: Suspend, commits: bool
) -> None:
    held, sealed = await drafted(sink, "a", keeps_lane=False)
    other, more = await drafted(sink, "b", keeps_lane=False)
    async with suspend() as first:
        await decide(first.sink, deciding(other.turn, more.payload_hash))
        second = await first.blocks(decide(sink, deciding(held.turn, sealed.payload_hash)))
        if not commits:
            first.roll_back()
    second.result()
    assert await _bodies(sink) == ([b"b", b"a"] if commits else [b"a"])


async def test_an_approval_and_a_seal_stand_in_their_lane_as_they_were_committed(
    sink: Sink, suspend: Suspend
) -> None:
    held, sealed = await drafted(sink, "a", keeps_lane=False)
    plain = await sink.hold("b", "c")
    async with suspend() as first:
        await decide(first.sink, deciding(held.turn, sealed.payload_hash))
        second = await first.blocks(sink.seal(sealing(plain, draft("b", "c"))))
    second.result()
    last = await sink.hold("d", "d")
    held, sealed = await drafted(sink, "e", "c", keeps_lane=False)
    async with suspend() as first:
        await first.sink.seal(sealing(last, draft("d", "c")))
        second_ = await first.blocks(decide(sink, deciding(held.turn, sealed.payload_hash)))
    second_.result()
    assert await _bodies(sink) == [b"a", b"b", b"d", b"e"]


async def test_what_is_let_go_while_its_predecessor_arrives_is_not_left_waiting(
    sink: Sink, suspend: Suspend
) -> None:
    await sink.sealed("before", draft("before", "c"), conversation="c")
    held, sealed = await drafted(sink, "a", keeps_lane=False)
    taken = await sink.take_one()
    async with suspend() as first:
        await decide(first.sink, deciding(held.turn, sealed.payload_hash))
        settled = await first.blocks(sink.settle((taken, DELIVERED)))
    assert settled.result() == [True]
    assert await _bodies(sink) == [b"a"]
    await sink.sealed("next", draft("next", "c"), conversation="c")
    held, sealed = await drafted(sink, "b", keeps_lane=False)
    taken = await sink.take_one()
    async with suspend() as first:
        await first.sink.settle((taken, DELIVERED))
        second = await first.blocks(decide(sink, deciding(held.turn, sealed.payload_hash)))
    second.result()
    assert await _bodies(sink) == [b"b"]


@pytest.mark.parametrize("commits", [True, False])
async def test_one_key_is_one_follow_up_however_many_let_it_go_at_once(
    sink: Sink, suspend: Suspend, admin: "Admin", commits: bool
) -> None:
    sets = []
    for name in ("a", "b"):
        held = await sink.hold(name)
        asked = [later(name, key="same"), later(f"own {name}")]
        sets.append((held.turn, await seal_held(sink, held, draft(name), follow_ups=asked)))
    (turn, sealed), (other, more) = sets
    async with suspend() as first:
        ours = only(await decide(first.sink, deciding(turn, sealed.payload_hash)))
        second = await first.blocks(decide(sink, deciding(other, more.payload_hash)))
        if not commits:
            first.roll_back()
    theirs = only(second.result())
    assert theirs.follow_ups[0].duplicate == commits
    assert (theirs.follow_ups[0].turn == ours.follow_ups[0].turn) == commits
    assert not theirs.follow_ups[1].duplicate
    made = "select count(*) from sink.inbound where source = 'follow_up'"
    assert await admin.fetchval(made) == (3 if commits else 2)


async def test_a_frozen_approval_does_not_hold_up_the_seals_of_others(
    sink: Sink, suspend: Suspend
) -> None:
    held, sealed = await drafted(sink, "a", "c")
    await sink.accept(arrival("x", "x"), arrival("y", "y"))
    x, y = await sink.claim(2)
    async with suspend() as first:
        await decide(first.sink, deciding(held.turn, sealed.payload_hash))
        outcomes = await sink.seal(
            sealing(x, draft("x", "x")), holding(y, draft("y", "y"), follow_ups=[later()])
        )
        first.roll_back()
    assert [one.state for one in outcomes if isinstance(one, Sealed)] == ["sealed", "held"]
