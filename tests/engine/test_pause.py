"""What people pause stands still on all replicas at once, loses nothing, and goes on where it was."""

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.domain.ids import IdFactory
from app.engine.pause import EVERYTHING, Kind, find_pauses, pause, resume
from tests.engine.stories import CRM, DELIVERED, Sink, arrival, draft, short, wish

if TYPE_CHECKING:
    from tests.conftest import Freeze, Travel
    from tests.database import Admin
    from tests.engine.suspense import Suspend

STOPS_CLAIMS = pytest.mark.parametrize(
    ("kind", "name"), [("queue", "default"), ("all", EVERYTHING)]
)


async def _states(sink: Sink, *keys: str) -> list[str]:
    """Where the turns of these keys are: each is accepted once more."""
    return [one.state for one in await sink.accept(*(arrival(key) for key in keys))]


@STOPS_CLAIMS
async def test_what_is_paused_accepts_and_gives_no_turn(sink: Sink, kind: Kind, name: str) -> None:
    first = await sink.accept_one("a", "c")
    await sink.pause(kind, name)
    second = await sink.accept_one("b", "c")
    assert (second.state, await sink.claim(10)) == ("waiting", [])
    await sink.resume(kind, name)
    assert (await sink.claim_one()).turn == first.turn


async def test_another_queue_of_the_same_call_is_served(sink: Sink) -> None:
    await sink.pause("queue", "default")
    await sink.accept(arrival("a"), arrival("b", queue="other"))
    answers = await sink.claim_for(wish(), wish(queue="other"))
    assert [len(answer) for answer in answers] == [0, 1]


async def test_what_is_held_when_its_queue_is_paused_is_renewed_sealed_and_delivered(
    sink: Sink,
) -> None:
    held, other = await sink.hold("a", "c"), await sink.hold("b")
    await sink.accept_one("next", "c")
    await sink.pause("queue", "default")
    await sink.renew(held)
    await sink.seal_one(held, draft())
    assert await sink.hand_back(other) == "queued"
    assert len(await sink.take()) == 1
    # The lane has gone on to the next, who is given to nobody yet.
    assert await sink.claim(10) == []


async def test_a_repeated_claim_gives_what_it_gave_before_the_pause(sink: Sink) -> None:
    await sink.accept_one("a")
    again = {"request_id": "request-number-1", "principal": "key"}
    held = await sink.claim_one(**again)
    await sink.pause("queue", "default")
    assert (await sink.claim_one(**again)).token == held.token


async def test_everything_paused_sends_nothing_and_holds_no_source(sink: Sink) -> None:
    await sink.sealed("a", draft())
    await sink.pause("all")
    assert await sink.take() == []
    assert (await sink.accept_one("b")).state == "queued"
    await sink.resume("all")
    assert len(await sink.take()) == 1


async def test_a_paused_destination_is_sent_nothing_and_another_one_is(sink: Sink) -> None:
    await sink.sealed("a", draft(), draft(destination="desk"))
    await sink.pause("destination", CRM)
    assert await sink.take() == []
    assert len(await sink.take(destination="desk")) == 1
    await sink.resume("destination", CRM)
    assert len(await sink.take()) == 1


@pytest.mark.parametrize(("kind", "name"), [("destination", CRM), ("all", EVERYTHING)])
async def test_a_pause_is_answered_behind_those_who_take_already(
    sink: Sink, suspend: "Suspend", kind: Kind, name: str
) -> None:
    turn, _ = await sink.sealed("a", draft("1", "c"), draft("2", "d"))
    taken = await sink.take_one()

    async def states_once_paused() -> list[str]:
        await pause(sink.pool, kind, name, by="ada")
        return await sink.states(turn)

    async with suspend() as settling:
        await settling.sink.settle((taken, DELIVERED))
        taking = await settling.blocks(sink.take())
        pausing = await settling.blocks(states_once_paused(), sessions=2)
    # Whoever is told that it is paused finds that take committed, and no other follows.
    assert pausing.result() == ["delivered", "sending"]
    assert len(taking.result()) == 1


async def test_the_first_who_paused_is_kept_and_every_call_may_be_repeated(
    sink: Sink, travel: "Travel"
) -> None:
    first = await pause(sink.pool, "queue", "default", by="ada", reason="fire")
    await travel(60)
    assert await pause(sink.pool, "queue", "default", by="bob") == first
    assert first is not None
    assert (first.by, first.reason) == ("ada", "fire")
    assert await find_pauses(sink.pool) == {("queue", "default"): first}
    for _ in range(2):
        await resume(sink.pool, "queue", "default")
    assert await find_pauses(sink.pool) == {}


async def test_what_stands_is_written_down_from_pause_to_resume(
    sink: Sink, admin: "Admin", freeze: "Freeze", travel: "Travel"
) -> None:
    stopped: list[tuple[Kind, str]] = [
        ("destination", CRM), ("all", EVERYTHING), ("queue", "default"),
    ]  # fmt: skip
    await freeze()
    for kind, name in stopped:
        # Stopped, let go and stopped again before the clock has moved.
        for _ in range(2):
            await sink.pause(kind, name)
            await sink.resume(kind, name)
        for _ in range(2):
            await sink.pause(kind, name)
    rows = await admin.fetch("select destination, cause, ended_at from sink.standstill")
    assert {tuple(row) for row in rows} == {(CRM, "pause", None), ("", "pause", None)}
    await travel(60)
    await sink.resume("destination", CRM)
    stood = (
        "select extract(epoch from ended_at - began_at) from sink.standstill where destination = $1"
    )
    assert await admin.fetchval(stood, CRM) >= 60
    assert await admin.fetchval(stood, "") is None


async def test_many_who_pause_and_resume_at_once_leave_one_state(sink: Sink) -> None:
    for _ in range(5):
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(pause(sink.pool, "destination", CRM, by="ada"))
                group.create_task(resume(sink.pool, "destination", CRM))


# Sources


async def test_what_a_paused_source_sends_waits_and_becomes_due_in_its_order(sink: Sink) -> None:
    await sink.pause("source", "api")
    held = await sink.accept(*(arrival(f"k{n}", "c") for n in range(3)), arrival("alone"))
    assert {one.state for one in held} == {"scheduled"}
    assert await sink.due_after_pause() == []
    assert await sink.claim(10) == []
    await sink.resume("source", "api")
    assert await sink.due_after_pause() == ["default"] * 4
    assert await _states(sink, "k0", "k1", "k2", "alone") == [
        "queued", "waiting", "waiting", "queued",
    ]  # fmt: skip
    assert {one.turn for one in await sink.claim(10)} == {held[0].turn, held[3].turn}


async def test_what_waited_keeps_its_order_although_the_clock_of_a_replica_is_behind(
    sink: Sink,
) -> None:
    behind = IdFactory(milliseconds=lambda: 1_000, random_bytes=os.urandom)
    late = replace(sink, ids=behind)
    await sink.pause("source", "api")
    first = await sink.accept_one("a", "c")
    second = await late.accept_one("b", "c")
    await sink.accept_one("c", "c")
    assert second.turn < first.turn
    await sink.resume("source", "api")
    # One at a time: what is found next has its order, too.
    assert await sink.due_after_pause(1) == ["default"]
    assert await _states(sink, "a", "b", "c") == ["queued", "scheduled", "scheduled"]
    assert len(await sink.due_after_pause()) == 2
    for key in "abc":
        held = await sink.claim_one()
        assert [one.body for one in held.inbound] == [b'"%s"' % key.encode()]
        await sink.seal_one(held)


async def test_a_duplicate_is_one_while_its_source_is_paused(sink: Sink) -> None:
    first = await sink.accept_one("a", "c")
    await sink.pause("source", "api")
    again = await sink.accept_one("a", "c")
    assert (again.turn, again.duplicate, again.state) == (first.turn, True, "queued")


async def test_a_time_of_its_own_is_kept_over_the_pause(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await sink.pause("source", "api")
    later = await sink.accept_one("later", delay_seconds=3_600)
    soon = await sink.accept_one("soon", delay_seconds=10)
    due = await admin.fetchval(
        "select created_at + interval '1 hour' from sink.turn where id = $1", later.turn
    )
    await travel(60)
    assert await sink.due() == []
    await sink.resume("source", "api")
    assert len(await sink.due_after_pause()) == 2
    assert [await sink.state(one.turn) for one in (soon, later)] == ["queued", "scheduled"]
    assert (await sink.look(later.turn)).due_at == due
    assert await sink.due_after_pause() == []
    await travel(3_600)
    assert await sink.due() == ["default"]


async def test_what_comes_after_the_resume_does_not_get_before_what_waited(sink: Sink) -> None:
    await sink.pause("source", "api")
    waited = await sink.accept_one("a", "c")
    await sink.resume("source", "api")
    # No sweep has been here yet.
    after = await sink.accept_one("b", "c")
    joins = (await sink.accept(short("j", "d")))[0]
    assert (after.state, joins.state) == ("scheduled", "scheduled")
    assert len(await sink.due_after_pause()) == 3
    assert (await sink.accept_one("e", "c")).state == "waiting"
    assert (await sink.claim_one()).turn == waited.turn
    assert await sink.state(after.turn) == "waiting"


async def test_short_messages_of_a_paused_source_join_nothing(sink: Sink, travel: "Travel") -> None:
    gathering = (await sink.accept(short("before")))[0]
    await sink.pause("source", "api")
    held = await sink.accept(short("a"), short("b"))
    assert {one.state for one in held} == {"scheduled"}
    assert len({gathering.turn, *(one.turn for one in held)}) == 3
    await sink.resume("source", "api")
    await sink.due_after_pause()
    # From now on the last of the lane gathers as ever.
    after = (await sink.accept(short("after")))[0]
    assert after.turn == held[1].turn
    await travel(11)
    assert (await sink.claim_one()).turn == gathering.turn


async def test_another_source_is_not_held_up(sink: Sink) -> None:
    await sink.pause("source", "api")
    assert (await sink.accept_one("a", source="chat")).state == "queued"
    await sink.accept_one("b")
    await sink.pause("source", "chat")
    held = await sink.accept_one("d", source="chat")
    await sink.resume("source", "chat")
    assert await sink.due_after_pause() == ["default"]
    assert await sink.state(held.turn) == "queued"


async def test_what_becomes_due_at_once_after_a_pause_is_bounded(sink: Sink) -> None:
    await sink.pause("source", "api")
    await sink.accept(*(arrival(f"k{n}", "c") for n in range(5)))
    await sink.resume("source", "api")
    assert await sink.due_after_pause(2) == ["default"] * 2
    assert await _states(sink, "k0", "k1", "k2") == ["queued", "waiting", "scheduled"]


async def test_what_is_held_up_can_be_cancelled(sink: Sink) -> None:
    await sink.pause("source", "api")
    held = await sink.accept_one("a", "c")
    await sink.cancel(held.turn)
    await sink.resume("source", "api")
    assert await sink.due_after_pause() == []
    assert (await sink.accept_one("b", "c")).state == "queued"


async def test_an_accept_that_began_before_the_resume_is_found_behind_it(
    sink: Sink, suspend: "Suspend"
) -> None:
    await sink.pause("source", "api")
    async with suspend() as late:
        held = await late.sink.accept_one("a", "c")
        await sink.resume("source", "api")
        assert await sink.due_after_pause() == []
    assert held.state == "scheduled"
    assert await sink.due_after_pause() == ["default"]


async def test_two_sweepers_let_go_once(sink: Sink, suspend: "Suspend") -> None:
    await sink.pause("source", "api")
    await sink.accept(arrival("a", "c"), arrival("b", "c"))
    await sink.resume("source", "api")
    async with suspend() as one:
        assert len(await one.sink.due_after_pause()) == 2
        two = await one.blocks(sink.due_after_pause())
    assert two.result() == []
    assert await _states(sink, "a", "b") == ["queued", "waiting"]
