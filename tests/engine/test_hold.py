"""A held set waits for a person, and nothing of it leaves before; the same seal again gets its first answer."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.model import AlreadySealed, HoldPlan, Sealed
from app.domain.seal import payload_hash, spell
from tests.engine.held_stories import (
    PLAN,
    decide,
    deciding,
    expire,
    holding,
    later,
    seal_held,
)
from tests.engine.stories import Sink, arrival, draft, only, sealing

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def _notices(admin: "Admin") -> list[tuple[Any, ...]]:
    rows = await admin.fetch("select turn, kind, reason from sink.notice order by id")
    return [tuple(row) for row in rows]


async def test_nothing_of_a_held_set_leaves(sink: Sink, travel: "Travel") -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), draft("2"), follow_ups=[later()])
    assert sealed.state == "held"
    assert [one.state for one in sealed.messages] == ["held", "held"]
    assert [one.state for one in sealed.follow_ups] == ["held"]
    await travel(60)
    assert await sink.take() == []
    assert await sink.due() == []
    assert await sink.states(held.turn) == ["held", "held"]


async def test_a_hold_says_what_it_is_bound_to_and_until_when(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a", "c")
    plan = HoldPlan("destination", 60.0, "cancel", note="a refund")
    drafts, follow_ups = [draft("1"), draft("2")], [later()]
    sealed = await seal_held(sink, held, *drafts, follow_ups=follow_ups, plan=plan, order="strict")
    digest = payload_hash(
        turn=held.turn,
        attempt=1,
        order="strict",
        messages=[one.hash for one in drafts],
        follow_ups=[one.hash for one in follow_ups],
    )
    hold = sealed.hold
    assert hold is not None
    assert hold.payload_hash == sealed.payload_hash == spell(digest)
    assert (hold.demanded_by, hold.on_deadline, hold.note) == ("destination", "cancel", "a refund")
    assert 59 < (hold.deadline_at - hold.held_at).total_seconds() <= 60
    assert (hold.decision, hold.reminders) == (None, 0)
    assert await admin.fetchval("select deadline_at from sink.turn") == hold.deadline_at
    assert await _notices(admin) == [(held.turn, "hold", "held")]


async def test_a_set_with_nothing_in_it_is_never_held(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held)
    assert (sealed.state, sealed.hold) == ("replied", None)


async def test_what_only_follows_is_held_too(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    assert (await seal_held(sink, held, follow_ups=[later()])).state == "held"
    assert await sink.due() == []


@pytest.mark.parametrize("keeps_lane", [True, False])
async def test_the_conversation_waits_only_if_it_is_to(sink: Sink, keeps_lane: bool) -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    await seal_held(sink, held, draft("1", "c"), plan=replace(PLAN, keeps_lane=keeps_lane))
    assert await sink.state(behind.turn) == ("waiting" if keeps_lane else "queued")


async def test_a_held_set_takes_no_place_before_it_is_let_go(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    plan = replace(PLAN, keeps_lane=False)
    sealed = await seal_held(sink, held, draft("held", "c"), plan=plan)
    await sink.sealed("b", draft("free", "c"), conversation="c")
    assert [one.body for one in await sink.take()] == [b"free"]
    await decide(sink, deciding(held.turn, sealed.payload_hash))
    # Behind what left before it.
    assert await sink.take() == []
    (message,) = (await sink.look(held.turn)).messages
    assert message.blocked_by is not None


async def test_held_and_unheld_sets_of_one_call_are_each_what_they_are(sink: Sink) -> None:
    await sink.accept(*(arrival(f"k{n}", f"c{n}") for n in range(3)))
    first, second, third = await sink.claim(3)
    outcomes = await sink.seal(
        holding(first, draft("1", "x"), follow_ups=[later("of the held")]),
        holding(second, draft("2", "x"), follow_ups=[later("of the free")], plan=None),
        sealing(third, draft("3", "x")),
    )
    assert [one.state for one in outcomes if isinstance(one, Sealed)] == [
        "held",
        "sealed",
        "sealed",
    ]
    assert [one.body for one in await sink.take()] == [b"2"]
    assert len(await sink.due()) == 1


async def test_the_same_held_seal_again_gives_the_first_answer_with_the_state_of_now(
    sink: Sink,
) -> None:
    held = await sink.hold("a", "c")
    again = holding(held, draft("1", "c"), follow_ups=[later(), later("named", key="k")])
    first = only(await sink.seal(again))
    assert only(await sink.seal(again)) == replace(first, repeated=True)
    assert only(await sink.seal(holding(held, draft("2", "c")))) == AlreadySealed(
        first.payload_hash
    )
    await decide(sink, deciding(held.turn, first.payload_hash))
    now = only(await sink.seal(again))
    assert (now.state, now.payload_hash) == ("sealed", first.payload_hash)
    assert [(one.id, one.key) for one in now.messages] == [
        (one.id, one.key) for one in first.messages
    ]
    assert [one.state for one in now.messages] == ["pending"]
    assert [(one.turn, one.state) for one in now.follow_ups] == [
        (one.turn, "scheduled") for one in first.follow_ups
    ]
    assert now.hold.decision == "approve"


@pytest.mark.parametrize("decision", ["revise", "edit", "reject"])
async def test_an_old_token_is_told_of_its_own_seal_whatever_became_of_it(
    sink: Sink, decision: str
) -> None:
    held = await sink.hold("a", "c")
    request = holding(held, draft("1", "c"), draft("2", "c"), follow_ups=[later()])
    first = only(await sink.seal(request))
    edited = [draft("1", "c")] if decision == "edit" else None
    name: Any = "approve" if decision == "edit" else decision
    await decide(sink, deciding(held.turn, first.payload_hash, name, edited=edited))
    if decision == "revise":
        live = await sink.claim_one()
        second = await seal_held(sink, live, draft("new", "c"))
        assert second.payload_hash != first.payload_hash
    now = only(await sink.seal(request))
    assert (now.payload_hash, now.repeated) == (first.payload_hash, True)
    assert [one.id for one in now.messages] == [one.id for one in first.messages]
    assert {one.state for one in now.messages} == {"cancelled"}
    assert [one.turn for one in now.follow_ups] == [one.turn for one in first.follow_ups]
    assert now.hold.decision == decision
    assert only(await sink.seal(sealing(held, draft("other")))) == AlreadySealed(first.payload_hash)


async def test_a_cancelled_turn_takes_its_held_set_with_it(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=[later()])
    changed = only(await sink.cancel(held.turn))
    assert (changed.state, changed.changed) == ("cancelled", True)
    assert await sink.states(held.turn) == ["cancelled"]
    assert await admin.fetchval("select state from sink.follow_up") == "cancelled"
    hold = await admin.fetchrow("select decision, decided_by from sink.hold")
    assert tuple(hold or ()) == ("cancel", "ada")
    assert await sink.state(behind.turn) == "queued"
    told = only(await decide(sink, deciding(held.turn, sealed.payload_hash)))
    assert (told.hold.decision, told.state) == ("cancel", "cancelled")


async def test_an_escalated_turn_is_cancelled_too(sink: Sink, travel: "Travel") -> None:
    held = await sink.hold("a", "c")
    await seal_held(sink, held, draft("1", "c"))
    await travel(PLAN.deadline_seconds + 1)
    assert await expire(sink) == {"escalated": 1}
    assert only(await sink.cancel(held.turn)).state == "cancelled"


async def test_a_held_message_is_not_cancelled_without_its_set(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), draft("2", "c"))
    (changed,) = await sink.cancel_messages(sealed.messages[0].id)
    assert changed is not None
    assert (changed.state, changed.changed) == ("held", False)
