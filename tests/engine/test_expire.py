"""A deadline comes with nobody asking: somebody is told, again and again, or the turn ends, or the set is sent."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.domain.model import AlreadyDecided, Decided
from app.engine import inspect
from tests.engine.held_stories import PLAN, decide, deciding, expire, later, seal_held
from tests.engine.stories import QUEUE, TURN_POLICY, Sink, draft, only

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

PAST = PLAN.deadline_seconds + 1


async def _held(sink: Sink, key: str = "a", **plan: Any) -> tuple[UUID, str]:
    held = await sink.hold(key, "c" if key == "a" else None)
    sealed = await seal_held(
        sink,
        held,
        draft(key, held.conversation),
        follow_ups=[later()],
        plan=replace(PLAN, **plan),
    )
    return held.turn, sealed.payload_hash


async def _told(admin: "Admin") -> list[tuple[str, str]]:
    """What somebody was to be told since the last look."""
    rows = await admin.fetch("delete from sink.notice returning kind, reason")
    return sorted((row["kind"], row["reason"]) for row in rows)


async def test_before_the_deadline_nothing_happens(sink: Sink, travel: "Travel") -> None:
    turn, _ = await _held(sink)
    await travel(PLAN.deadline_seconds - 1)
    assert await expire(sink) == {}
    assert await sink.state(turn) == "held"


async def test_an_escalated_set_can_still_be_decided_about(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turn, digest = await _held(sink)
    behind = await sink.accept_one("b", "c")
    assert await _told(admin) == [("hold", "held")]
    await travel(PAST)
    assert await expire(sink) == {"escalated": 1}
    assert await _told(admin) == [("escalation", "hold_expired")]
    view = await sink.look(turn)
    assert (view.state, [one.state for one in view.messages]) == ("escalated", ["held"])
    assert await sink.take() == []
    assert await sink.state(behind.turn) == "waiting"
    done = only(await decide(sink, deciding(turn, digest)))
    assert isinstance(done, Decided)
    assert (done.state, done.hold.reminders) == ("sealed", 1)
    assert len(await sink.take()) == 1


async def test_somebody_is_told_again_at_longer_intervals_up_to_the_longest(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    sink.turn_policies = {
        QUEUE: replace(TURN_POLICY, reminder_seconds=10.0, reminder_seconds_max=35.0)
    }
    turn, _ = await _held(sink)
    await travel(PAST)
    await expire(sink)
    await _told(admin)
    for pause in (10, 20, 35, 35, 35):
        await travel(pause - 1)
        assert await expire(sink) == {}
        await travel(1.001)
        assert await expire(sink) == {"reminded": 1}
        assert await _told(admin) == [("escalation", "hold_expired")]
    assert await sink.story(turn) == [
        ("accept", None, "queued"),
        ("claim", "queued", "processing"),
        ("seal", "processing", "held"),
        ("expire", "held", "escalated"),
    ]
    assert await admin.fetchval("select reminders from sink.hold") == 6


async def test_a_deadline_that_cancels_ends_the_turn_as_the_system_and_nobody_else(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turn, digest = await _held(sink, on_deadline="cancel")
    behind = await sink.accept_one("b", "c")
    await travel(PAST)
    assert await expire(sink) == {"cancelled": 1}
    view = await sink.look(turn)
    assert (view.state, view.reason) == ("cancelled", "hold_expired")
    assert [one.state for one in view.messages] == ["cancelled"]
    assert await admin.fetchval("select state from sink.follow_up") == "cancelled"
    assert await sink.state(behind.turn) == "queued"
    told = only(await decide(sink, deciding(turn, digest)))
    assert isinstance(told, AlreadyDecided)
    assert (told.hold.decision, told.hold.decided_by) == ("cancel", "system")
    (event,) = [
        one
        for one in await inspect.find_events(sink.pool, turn, after=0, events_max=100)
        if one.verb == "expire" and one.message is None
    ]
    assert (event.reason, event.detail["by"]) == ("hold_expired", "system")


async def test_a_deadline_that_sends_lets_all_of_the_set_go(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turn, digest = await _held(sink, on_deadline="send")
    await travel(PAST)
    assert await expire(sink) == {"sealed": 1}
    assert [one.body for one in await sink.take()] == [b"a"]
    assert await sink.due() == [QUEUE]
    told = only(await decide(sink, deciding(turn, digest, "reject")))
    assert isinstance(told, AlreadyDecided)
    assert (told.hold.decision, told.hold.decided_by) == ("send", "system")
    assert await admin.fetchval("select decided_with from sink.hold") is None


async def test_a_deadline_that_sends_what_only_follows_replies(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a")
    plan = replace(PLAN, on_deadline="send")
    await seal_held(sink, held, follow_ups=[later()], plan=plan)
    await travel(PAST)
    assert await expire(sink) == {"sealed": 1}
    assert await sink.state(held.turn) == "replied"


async def test_many_deadlines_at_once_are_each_carried_out(sink: Sink, travel: "Travel") -> None:
    for n in range(25):
        await _held(sink, f"s{n}", on_deadline="send")
    for n in range(4):
        await _held(sink, f"c{n}", on_deadline="cancel")
    await _held(sink, "e")
    await travel(PAST)
    assert await expire(sink, turns_max=7) == {"sealed": 7}
    assert await expire(sink) == {"sealed": 18, "cancelled": 4, "escalated": 1}
    assert await expire(sink) == {}


async def test_one_set_that_is_not_what_was_sealed_keeps_no_other_from_being_sent(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    spoiled, _ = await _held(sink, "a", on_deadline="send")
    await admin.execute("update sink.outbox_payload set body = 'forged'")
    other, _ = await _held(sink, "b", on_deadline="send")
    await _told(admin)
    await travel(PAST)
    assert await expire(sink) == {"sealed": 1, "escalated": 1}
    assert (await sink.state(spoiled), await sink.state(other)) == ("escalated", "sealed")
    assert await _told(admin) == [("escalation", "hold_expired"), ("escalation", "integrity")]


async def test_what_is_not_configured_here_waits_for_somebody_who_knows_it(
    sink: Sink, travel: "Travel"
) -> None:
    turn, _ = await _held(sink, on_deadline="send")
    await travel(PAST)
    elsewhere = replace(sink, turn_policies={"other": TURN_POLICY})
    assert await expire(elsewhere) == {}
    assert await sink.state(turn) == "held"
    assert await expire(sink) == {"sealed": 1}


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "UTC"])
@pytest.mark.parametrize("day", ["2026-03-29 00:30:00+00", "2026-10-25 00:30:00+00"])
async def test_no_daylight_saving_moves_a_deadline_or_a_follow_up(
    sink: Sink, admin: "Admin", zone: str, day: str
) -> None:
    """Hours are counted as so many seconds, whatever the clocks on the wall do meanwhile."""

    async def at(seconds: float) -> None:
        await admin.execute(
            "create or replace function sink.now() returns timestamptz language sql stable parallel"
            f" safe as 'select timestamptz ''{day}'' + interval ''{seconds} seconds'''"
        )

    await at(0)
    database = await admin.fetchval("select current_database()")
    await admin.execute(f"alter database {database} set timezone = '{zone}'")
    await sink.pool.expire_connections()
    held = await sink.hold("a")
    plan = replace(PLAN, deadline_seconds=7200.0, on_deadline="send")
    later_ = [later("in a day", delay_seconds=86_400.0)]
    await seal_held(sink, held, draft("a", delay_seconds=1800.0), follow_ups=later_, plan=plan)
    await at(7199)
    assert await expire(sink) == {}
    await at(7200)
    assert await expire(sink) == {"sealed": 1}
    assert await expire(sink) == {}
    await at(7200 + 1799)
    assert await sink.take() == []
    await at(7200 + 1800)
    assert len(await sink.take()) == 1
    await at(7200 + 86_399)
    assert await sink.due() == []
    await at(7200 + 86_400)
    assert await sink.due() == [QUEUE]
    assert await sink.due() == []
