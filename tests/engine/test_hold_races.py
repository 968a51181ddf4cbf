"""Two meet over a held set: exactly one of them decides, the other learns it, and nothing leaves twice or not at all.

Each race is shown, not hoped for: the first replica stands before its commit, and the test goes on when Postgres says
that the second one waits for a lock.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import pytest

from app.domain.model import AlreadyDecided, Decided, LeaseLost, PayloadChanged
from tests.engine.held_stories import (
    PLAN,
    decide,
    deciding,
    drafted,
    expire,
    holding,
    later,
    seal_held,
)
from tests.engine.stories import Sink, draft, only, returning, sealing
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin, Clock


OnDeadline = Literal["escalate", "cancel", "send"]
DEADLINES = pytest.mark.parametrize("on_deadline", ["escalate", "cancel", "send"])
# What the deadline makes of a turn, and of its messages.
AFTER = {"escalate": "escalated", "cancel": "cancelled", "send": "sealed"}
LEFT = {"escalate": ["held"], "cancel": ["cancelled"], "send": ["pending"]}


@DEADLINES
async def test_at_the_very_instant_of_the_deadline_it_is_over(
    sink: Sink, clock: "Clock", on_deadline: OnDeadline
) -> None:
    await clock.freeze()
    early, first = await drafted(sink, "a", None, on_deadline=on_deadline)
    late, second = await drafted(sink, "b", None, on_deadline=on_deadline)
    await clock.step(PLAN.deadline_seconds - 0.000001)
    approved = only(await decide(sink, deciding(early.turn, first.payload_hash)))
    assert isinstance(approved, Decided)
    assert await expire(sink) == {}
    await clock.step(0.000001)
    told = only(await decide(sink, deciding(late.turn, second.payload_hash)))
    if on_deadline == "escalate":
        # It could be decided on until somebody was told, and can be after that.
        assert isinstance(told, Decided)
        return
    assert isinstance(told, AlreadyDecided)
    assert (told.hold.decision, told.hold.decided_by) == (on_deadline, "system")
    assert told.state == AFTER[on_deadline]
    assert await sink.states(late.turn) == LEFT[on_deadline]
    assert await expire(sink) == {}


@DEADLINES
async def test_an_approval_behind_the_deadline_finds_it_carried_out(
    sink: Sink, suspend: Suspend, travel: "Travel", on_deadline: OnDeadline
) -> None:
    held, sealed = await drafted(sink, on_deadline=on_deadline)
    await travel(PLAN.deadline_seconds + 1)
    async with suspend() as first:
        assert await expire(first.sink) == {AFTER[on_deadline]: 1}
        second = await first.blocks(decide(sink, deciding(held.turn, sealed.payload_hash)))
    told = only(second.result())
    if on_deadline == "escalate":
        assert isinstance(told, Decided)
        assert (told.state, told.hold.decided_by) == ("sealed", "ada")
    else:
        assert isinstance(told, AlreadyDecided)
        assert (told.hold.decision, told.hold.decided_by) == (on_deadline, "system")


@DEADLINES
async def test_the_deadline_behind_an_approval_changes_nothing(
    sink: Sink, suspend: Suspend, admin: "Admin", on_deadline: OnDeadline
) -> None:
    held, sealed = await drafted(sink, on_deadline=on_deadline)
    async with suspend() as first:
        done = only(await decide(first.sink, deciding(held.turn, sealed.payload_hash)))
        assert isinstance(done, Decided)
        # The clock that both read goes on while the approval stands before its commit.
        await admin.execute(
            "create or replace function sink.now() returns timestamptz language sql stable"
            " parallel safe as 'select statement_timestamp() + interval ''1 day'''"
        )
        second = await first.blocks(expire(sink))
    assert second.result() == {}
    assert await sink.state(held.turn) == "sealed"
    hold = await admin.fetchrow("select decision, decided_by, reminders from sink.hold")
    assert tuple(hold or ()) == ("approve", "ada", 0)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("second_says", ["approve", "reject", "revise"])
@pytest.mark.parametrize("first_says", ["approve", "reject", "revise"])
async def test_the_second_of_two_decisions_waits_and_learns_the_first(
    sink: Sink, suspend: Suspend, first_says: Any, second_says: Any, commits: bool
) -> None:
    held, sealed = await drafted(sink)
    async with suspend() as first:
        ours = deciding(held.turn, sealed.payload_hash, first_says, by="ada")
        assert isinstance(only(await decide(first.sink, ours)), Decided)
        theirs = deciding(held.turn, sealed.payload_hash, second_says, by="bob")
        second = await first.blocks(decide(sink, theirs))
        if not commits:
            first.roll_back()
    told = only(second.result())
    if not commits:
        assert isinstance(told, Decided)
        assert (told.hold.decision, told.hold.decided_by) == (second_says, "bob")
    elif first_says == second_says:
        assert isinstance(told, Decided)
        assert (told.repeated, told.hold.decided_by) == (True, "ada")
    else:
        assert isinstance(told, AlreadyDecided)
        assert (told.hold.decision, told.hold.decided_by) == (first_says, "ada")


async def test_of_many_deciders_at_once_one_decides_and_all_learn_it(
    sink: Sink, admin: "Admin"
) -> None:
    for n in range(20):
        held, sealed = await drafted(sink, f"k{n}", None)
        words: list[Literal["approve", "reject", "revise"]] = ["approve", "reject", "revise"] * 3
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    decide(sink, deciding(held.turn, sealed.payload_hash, word, by=f"p{m}"))
                )
                for m, word in enumerate(words)
            ]
        told = [only(task.result()) for task in tasks]
        assert sum(isinstance(one, Decided) and not one.repeated for one in told) == 1
        assert len({(one.hold.decision, one.hold.decided_by) for one in told}) == 1
        # What was sent back would be claimed before the next.
        await sink.cancel(held.turn)
    decided = "select count(*) from sink.event where verb in ('approve', 'reject', 'revise')"
    assert await admin.fetchval(f"{decided} and message is null") == 20


async def test_an_approval_behind_a_revision_that_came_back_decides_nothing(
    sink: Sink, suspend: Suspend
) -> None:
    held, old = await drafted(sink)
    async with suspend() as first:
        revise = deciding(held.turn, old.payload_hash, "revise")
        assert isinstance(only(await decide(first.sink, revise)), Decided)
        live = await first.sink.claim_one()
        new = await seal_held(first.sink, live, draft("new", "c"))
        second = await first.blocks(decide(sink, deciding(held.turn, old.payload_hash)))
    assert only(second.result()) == PayloadChanged(new.payload_hash, "held")
    assert await sink.states(held.turn) == ["held"]


async def test_a_zombie_changes_nothing_about_the_set_of_whoever_came_after(
    sink: Sink, travel: "Travel"
) -> None:
    zombie = await sink.hold("a", "c")
    await travel(61)
    await sink.sweep_turns()
    await travel(61)
    live = await sink.claim_one()
    sealed = await seal_held(sink, live, draft("live", "c"))
    for request in (sealing(zombie, draft("late", "c")), holding(zombie, draft("live", "c"))):
        assert only(await sink.seal(request)) == LeaseLost("swept", "held")
    (renewed,) = await sink.renew(zombie)
    assert isinstance(renewed, LeaseLost)
    assert isinstance(only(await sink.release(returning(zombie))), LeaseLost)
    done = only(await decide(sink, deciding(zombie.turn, sealed.payload_hash)))
    assert isinstance(done, Decided)
    assert [one.body for one in await sink.take()] == [b"live"]


async def test_a_cancel_behind_a_held_seal_cancels_what_is_held(
    sink: Sink, suspend: Suspend
) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        sealed = await seal_held(first.sink, held, draft("1", "c"), follow_ups=[later()])
        second = await first.blocks(sink.cancel(held.turn))
    assert only(second.result()).state == "cancelled"
    assert await sink.states(held.turn) == ["cancelled"]
    told = only(await decide(sink, deciding(held.turn, sealed.payload_hash)))
    assert isinstance(told, AlreadyDecided)


async def test_a_held_seal_behind_a_cancel_is_lost(sink: Sink, suspend: Suspend) -> None:
    held = await sink.hold("a", "c")
    async with suspend() as first:
        await first.sink.cancel(held.turn)
        second = await first.blocks(sink.seal(holding(held, draft("1", "c"))))
    assert only(second.result()) == LeaseLost("cancelled", "cancelled")


async def test_an_approval_behind_a_cancel_lets_nothing_go(sink: Sink, suspend: Suspend) -> None:
    held, sealed = await drafted(sink)
    async with suspend() as first:
        await first.sink.cancel(held.turn)
        second = await first.blocks(decide(sink, deciding(held.turn, sealed.payload_hash)))
    assert isinstance(only(second.result()), AlreadyDecided)
    assert await sink.take() == []


async def test_a_cancel_behind_an_approval_cancels_what_has_not_left(
    sink: Sink, suspend: Suspend
) -> None:
    held, sealed = await drafted(sink)
    async with suspend() as first:
        await decide(first.sink, deciding(held.turn, sealed.payload_hash))
        second = await first.blocks(sink.cancel(held.turn))
    assert only(second.result()).state == "undelivered"
    assert await sink.states(held.turn) == ["cancelled"]
