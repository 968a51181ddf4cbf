"""A person decides about the set that he saw, once: what he approves leaves, or what he made of it, or nothing."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import pytest

from app.domain.model import (
    AlreadyDecided,
    Decided,
    NoSuchTurn,
    NotAllowed,
    NotHeld,
    PayloadChanged,
    RevisionsExhausted,
)
from tests.engine.held_stories import PLAN, decide, decide_one, deciding, later, seal_held
from tests.engine.stories import DELIVERED, QUEUE, TURN_POLICY, Sink, draft, only

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


WRONG = "sha256:" + "0" * 64


async def test_an_approved_set_is_delivered_with_its_keys_and_bytes(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), draft("2", "c"))
    done = await decide_one(sink, held.turn, sealed.payload_hash, comment="fine")
    assert (done.state, done.repeated) == ("sealed", False)
    assert (done.hold.decision, done.hold.decided_by, done.hold.comment) == (
        "approve",
        "ada",
        "fine",
    )
    assert [(one.id, one.key, one.state) for one in done.messages] == [
        (one.id, one.key, "pending") for one in sealed.messages
    ]
    for text, message in zip((b"1", b"2"), sealed.messages, strict=True):
        taken = await sink.take_one()
        assert (taken.body, taken.key) == (text, message.key)
        await sink.settle((taken, DELIVERED))
    assert await sink.state(held.turn) == "replied"
    assert (await sink.story(held.turn))[-3:] == [
        ("seal", "processing", "held"),
        ("approve", "held", "sealed"),
        ("settle", "sealed", "replied"),
    ]


async def test_the_conversation_goes_on_with_the_decision(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    await decide_one(sink, held.turn, sealed.payload_hash)
    assert await sink.state(behind.turn) == "queued"


async def test_a_delay_counts_from_the_approval(sink: Sink, travel: "Travel") -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(
        sink,
        held,
        draft("1", "c", delay_seconds=10.0),
        follow_ups=[later(delay_seconds=20.0)],
    )
    await travel(1000)
    await decide_one(sink, held.turn, sealed.payload_hash)
    assert await sink.take() == []
    await travel(11)
    assert len(await sink.take()) == 1
    assert await sink.due() == []
    await travel(10)
    assert await sink.due() == [QUEUE]


async def test_an_approved_set_without_messages_is_replied_at_once(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, follow_ups=[later()])
    done = await decide_one(sink, held.turn, sealed.payload_hash)
    assert done.state == "replied"
    assert [one.state for one in done.follow_ups] == ["scheduled"]


async def test_a_rejected_turn_ends_with_nothing_sent(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=[later()])
    done = await decide_one(sink, held.turn, sealed.payload_hash, decision="reject", comment="no")
    view = await sink.look(held.turn)
    assert (done.state, view.state, view.reason) == ("cancelled", "cancelled", "rejected")
    assert [one.state for one in done.messages] == ["cancelled"]
    assert [one.state for one in done.follow_ups] == ["cancelled"]
    assert await sink.due() == []
    assert await sink.state(behind.turn) == "queued"
    assert await admin.fetchval("select reason from sink.outbox") == "rejected"


@pytest.mark.parametrize("keeps_lane", [True, False])
async def test_a_revised_turn_is_run_again_from_its_place_for_free(
    sink: Sink, admin: "Admin", keeps_lane: bool
) -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    plan = replace(PLAN, keeps_lane=keeps_lane)
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=[later()], plan=plan)
    done = await decide_one(
        sink, held.turn, sealed.payload_hash, decision="revise", comment="shorter"
    )
    # Whoever has the lane by now goes first.
    assert done.state == ("queued" if keeps_lane else "waiting")
    row = await admin.fetchrow(
        "select attempts_used, revisions, payload_hash, seal from sink.turn where id = $1",
        held.turn,
    )
    assert tuple(row or ()) == (0, 1, None, 1)
    if not keeps_lane:
        other = await sink.claim_one()
        assert other.turn == behind.turn
        await sink.seal_one(other)
    again = await sink.claim_one()
    assert (again.turn, again.attempt) == (held.turn, 2)
    second = await seal_held(sink, again, draft("2", "c"))
    await decide_one(sink, held.turn, second.payload_hash)
    assert [one.body for one in await sink.take()] == [b"2"]


async def test_a_turn_is_sent_back_as_often_as_its_queue_allows(sink: Sink) -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, revisions_max=1, attempts_max=1)}
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    await decide_one(sink, held.turn, sealed.payload_hash, decision="revise")
    again = await sink.claim_one()
    second = await seal_held(sink, again, draft("2", "c"))
    told = only(await decide(sink, deciding(held.turn, second.payload_hash, "revise")))
    assert told == RevisionsExhausted(1, "held")
    assert await sink.states(held.turn) == ["held"]
    await decide_one(sink, held.turn, second.payload_hash)


async def test_a_revised_turn_is_not_too_old_for_having_waited(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    await travel(3000)
    await decide_one(sink, held.turn, sealed.payload_hash, decision="revise")
    assert (await sink.claim_one(input_age_seconds_max=100.0)).turn == held.turn


async def test_another_hash_is_never_decided_about(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    for decision in ("approve", "reject", "revise"):
        told = only(await decide(sink, deciding(held.turn, WRONG, decision)))
        assert told == PayloadChanged(sealed.payload_hash, "held")
    assert await sink.take() == []


async def test_what_was_never_held_is_not_decided_about(sink: Sink) -> None:
    turn, _ = await sink.sealed("a", draft("1"))
    assert await decide(sink, deciding(turn, WRONG)) == [NotHeld("sealed")]
    assert await decide(sink, deciding(uuid4(), WRONG)) == [NoSuchTurn()]


@pytest.mark.parametrize("first", ["approve", "reject", "revise"])
async def test_the_first_decision_is_final_and_repeatable(
    sink: Sink, first: Literal["approve", "reject", "revise"]
) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    said = await decide_one(sink, held.turn, sealed.payload_hash, decision=first, comment="first")
    again = await decide_one(
        sink, held.turn, sealed.payload_hash, decision=first, by="bob", comment="second"
    )
    assert again == replace(said, repeated=True)
    assert again.hold.decided_by == "ada"
    for other in {"approve", "reject", "revise"} - {first}:
        told = only(await decide(sink, deciding(held.turn, sealed.payload_hash, other)))  # type: ignore[arg-type]
        assert told == AlreadyDecided(said.seal, said.hold, said.state)
    edit = deciding(held.turn, sealed.payload_hash, edited=[draft("1", "c")])
    assert isinstance(only(await decide(sink, edit)), AlreadyDecided)
    assert await decide(sink, deciding(held.turn, WRONG)) != [NotHeld("sealed")]


async def test_two_decisions_of_one_call_are_a_first_and_a_second(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    approve = deciding(held.turn, sealed.payload_hash)
    reject = deciding(held.turn, sealed.payload_hash, "reject")
    first, again, other = await decide(sink, approve, approve, reject)
    assert isinstance(first, Decided)
    assert again == replace(first, repeated=True)
    assert isinstance(other, AlreadyDecided)


async def test_a_stale_page_decides_nothing_about_the_set_that_came_after(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    old = await seal_held(sink, held, draft("1", "c"))
    await decide_one(sink, held.turn, old.payload_hash, decision="revise")
    while_running = only(await decide(sink, deciding(held.turn, old.payload_hash)))
    assert isinstance(while_running, AlreadyDecided)
    again = await sink.claim_one()
    new = await seal_held(sink, again, draft("2", "c"))
    assert await decide(sink, deciding(held.turn, old.payload_hash)) == [
        PayloadChanged(new.payload_hash, "held")
    ]
    # Whoever repeats what he said then is told what came of it.
    repeated = await decide_one(sink, held.turn, old.payload_hash, decision="revise", by="bob")
    assert (repeated.repeated, repeated.hold.decided_by, repeated.state) == (True, "ada", "held")
    assert await sink.states(held.turn) == ["held"]


async def test_what_may_not_be_decided_now_is_told_what_was_decided_before(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    edit = deciding(held.turn, sealed.payload_hash, edited=[draft("2", "c")])
    refused = replace(edit, allowed=False)
    assert await decide(sink, refused) == [NotAllowed()]
    first = only(await decide(sink, edit))
    assert await decide(sink, refused) == [replace(first, repeated=True)]
