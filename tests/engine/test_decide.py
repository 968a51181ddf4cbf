"""A person decides about the set that he saw, once: what he approves leaves, or what he made of it, or nothing."""

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

import pytest

from app.domain.model import (
    AlreadyDecided,
    Decided,
    DraftMessage,
    EditedMessage,
    NoSuchTurn,
    NotAllowed,
    NotHeld,
    NotIntact,
    PayloadChanged,
    RevisionsExhausted,
    UnknownMessage,
)
from tests.engine.held_stories import PLAN, decide, deciding, expire, holding, later, seal_held
from tests.engine.stories import (
    DELIVERED,
    QUEUE,
    TURN_POLICY,
    Sink,
    arrival,
    draft,
    only,
    sealing,
)

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

WRONG = "sha256:" + "0" * 64


async def _approve(sink: Sink, turn: UUID, payload_hash: str, **changes: Any) -> Decided:
    outcome = only(await decide(sink, deciding(turn, payload_hash, **changes)))
    assert isinstance(outcome, Decided)
    return outcome


async def test_an_approved_set_is_delivered_with_its_keys_and_bytes(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), draft("2", "c"))
    done = await _approve(sink, held.turn, sealed.payload_hash, comment="fine")
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
    await _approve(sink, held.turn, sealed.payload_hash)
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
    await _approve(sink, held.turn, sealed.payload_hash)
    assert await sink.take() == []
    await travel(11)
    assert len(await sink.take()) == 1
    assert await sink.due() == []
    await travel(10)
    assert await sink.due() == [QUEUE]


async def test_an_approved_set_without_messages_is_replied_at_once(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, follow_ups=[later()])
    done = await _approve(sink, held.turn, sealed.payload_hash)
    assert done.state == "replied"
    assert [one.state for one in done.follow_ups] == ["scheduled"]


async def test_a_rejected_turn_ends_with_nothing_sent(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=[later()])
    done = await _approve(sink, held.turn, sealed.payload_hash, decision="reject", comment="no")
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
    done = await _approve(
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
    await _approve(sink, held.turn, second.payload_hash)
    assert [one.body for one in await sink.take()] == [b"2"]


async def test_a_turn_is_sent_back_as_often_as_its_queue_allows(sink: Sink) -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, revisions_max=1, attempts_max=1)}
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    await _approve(sink, held.turn, sealed.payload_hash, decision="revise")
    again = await sink.claim_one()
    second = await seal_held(sink, again, draft("2", "c"))
    told = only(await decide(sink, deciding(held.turn, second.payload_hash, "revise")))
    assert told == RevisionsExhausted(1, "held")
    assert await sink.states(held.turn) == ["held"]
    await _approve(sink, held.turn, second.payload_hash)


async def test_a_revised_turn_is_not_too_old_for_having_waited(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    await travel(3000)
    await _approve(sink, held.turn, sealed.payload_hash, decision="revise")
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
    said = await _approve(sink, held.turn, sealed.payload_hash, decision=first, comment="first")
    again = await _approve(
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
    await _approve(sink, held.turn, old.payload_hash, decision="revise")
    while_running = only(await decide(sink, deciding(held.turn, old.payload_hash)))
    assert isinstance(while_running, AlreadyDecided)
    again = await sink.claim_one()
    new = await seal_held(sink, again, draft("2", "c"))
    assert await decide(sink, deciding(held.turn, old.payload_hash)) == [
        PayloadChanged(new.payload_hash, "held")
    ]
    # Whoever repeats what he said then is told what came of it.
    repeated = await _approve(sink, held.turn, old.payload_hash, decision="revise", by="bob")
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


async def test_an_edit_is_a_set_of_its_own_and_both_are_kept(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=[later(key="k")])
    done = await _approve(sink, held.turn, sealed.payload_hash, edited=[draft("better", "c")])
    assert done.hold.decision == "edit"
    assert done.hold.payload_hash == sealed.payload_hash
    assert done.hold.new_hash not in (None, sealed.payload_hash)
    assert [one.state for one in done.follow_ups] == ["scheduled"]
    assert [one.turn for one in done.follow_ups] == [one.turn for one in sealed.follow_ups]
    view = await sink.look(held.turn)
    assert (view.state, view.payload_hash) == (
        "sealed",
        bytes.fromhex((done.hold.new_hash or "").removeprefix("sha256:")),
    )
    rows = await admin.fetch(
        "select o.seal, o.state, p.key, p.body from sink.outbox as o"
        " inner join sink.outbox_payload as p on p.message = o.id order by o.seal"
    )
    key = sealed.messages[0].key
    assert [tuple(row) for row in rows] == [
        (1, "cancelled", key, b"1"),
        (2, "pending", key, b"better"),
    ]
    assert [one.body for one in await sink.take()] == [b"better"]
    told = only(await decide(sink, deciding(held.turn, done.hold.new_hash or "")))
    assert isinstance(told, AlreadyDecided)


def _texts(*texts: str, **changes: Any) -> list[DraftMessage]:
    return [draft(text, "c", **changes) for text in texts]


async def _keys(sink: Sink, *edited: DraftMessage | EditedMessage) -> list[int | None]:
    """Which of the held messages `a`, `b` to ann, and `c` to chat each message of an edit keeps the key of."""
    held = await sink.hold(str(uuid4()), "c")
    before = [*_texts("a"), *_texts("b", recipient="ann"), *_texts("c", destination="chat")]
    sealed = await seal_held(sink, held, *before)
    keys = [one.key for one in sealed.messages]
    named = [
        replace(one, replaces=sealed.messages[one.replaces.int].id)
        if isinstance(one, EditedMessage) and one.replaces is not None
        else one
        for one in edited
    ]
    done = await _approve(sink, held.turn, sealed.payload_hash, edited=named)
    return [keys.index(one.key) if one.key in keys else None for one in done.messages]


async def test_a_message_that_stays_keeps_its_key_wherever_it_stands(sink: Sink) -> None:
    a, b, c = _texts("a")[0], _texts("b", recipient="ann")[0], _texts("c", destination="chat")[0]
    assert await _keys(sink, a, b, c) == [0, 1, 2]
    assert await _keys(sink, c, b, a) == [2, 1, 0]
    assert await _keys(sink, b) == [1]
    assert await _keys(sink) == []


async def test_a_message_that_was_changed_keeps_the_key_of_the_one_to_the_same_address(
    sink: Sink,
) -> None:
    assert await _keys(sink, *_texts("new")) == [0]
    assert await _keys(sink, *_texts("new", recipient="ann")) == [1]
    assert await _keys(sink, *_texts("new", "a")) == [None, 0]


async def test_a_message_that_was_added_has_a_key_of_its_own(sink: Sink) -> None:
    assert await _keys(sink, *_texts("x", "y")) == [0, None]
    assert await _keys(sink, *_texts("x", destination="mail")) == [None]
    assert await _keys(sink, *_texts("a", "a")) == [0, None]


async def test_a_message_keeps_the_key_of_the_one_that_it_names(sink: Sink) -> None:
    (text,) = _texts("a")
    assert await _keys(sink, EditedMessage(text, UUID(int=1)), text) == [1, 0]
    assert await _keys(sink, text, EditedMessage(text, UUID(int=0))) == [None, 0]
    assert await _keys(sink, EditedMessage(draft("moved", "d"), UUID(int=2))) == [2]


async def test_an_edit_names_messages_of_the_held_set_alone_and_each_once(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    mine = EditedMessage(draft("1", "c"), sealed.messages[0].id)
    foreign = EditedMessage(draft("1", "c"), uuid4())
    for messages in ([mine, mine], [mine, foreign]):
        edit = deciding(held.turn, sealed.payload_hash, edited=messages)
        assert await decide(sink, edit) == [UnknownMessage(1)]
    assert await sink.states(held.turn) == ["held"]


async def test_an_edit_to_nothing_replies_and_lets_what_follows_go(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=[later()])
    done = await _approve(sink, held.turn, sealed.payload_hash, edited=[])
    assert (done.state, done.messages) == ("replied", [])
    assert [one.state for one in done.follow_ups] == ["scheduled"]


@pytest.mark.parametrize(
    "forgery",
    [
        "update sink.outbox_payload set body = 'forged'",
        "update sink.outbox_payload set recipient = 'eve'",
        "update sink.outbox_payload set hash = sha256('forged')",
        "update sink.outbox set destination = 'evil'",
        "update sink.outbox set delay_seconds = 1",
        "update sink.outbox set position = 5 where position = 0",
        "delete from sink.outbox where position = 1",
        "delete from sink.outbox_payload",
        "update sink.follow_up set body = 'forged'",
        "update sink.follow_up set queue = 'other'",
        "update sink.follow_up set delay_seconds = 1",
        "update sink.follow_up set not_before = sink.now()",
        "delete from sink.follow_up",
    ],
)
async def test_what_is_not_what_was_sealed_is_never_let_go(
    sink: Sink, admin: "Admin", travel: "Travel", forgery: str
) -> None:
    held = await sink.hold("a", "c")
    plan = replace(PLAN, on_deadline="send")
    sealed = await seal_held(
        sink, held, draft("1", "c"), draft("2", "d"), follow_ups=[later(key="k")], plan=plan
    )
    await admin.execute(forgery)
    for edited in (None, [draft("1", "c")]):
        told = await decide(sink, deciding(held.turn, sealed.payload_hash, edited=edited))
        assert told == [NotIntact("held")]
    await travel(PLAN.deadline_seconds + 1)
    assert await decide(sink, deciding(held.turn, sealed.payload_hash)) == [NotIntact("held")]
    assert await expire(sink) == {"escalated": 1}
    assert await decide(sink, deciding(held.turn, sealed.payload_hash)) == [NotIntact("escalated")]
    assert await sink.take() == []
    told_of = [row["reason"] for row in await admin.fetch("select reason from sink.notice")]
    assert "integrity" in told_of
    # It can still be refused.
    reject = deciding(held.turn, sealed.payload_hash, "reject")
    assert isinstance(only(await decide(sink, reject)), Decided)
    # What was forged breaks more than this.
    for table in ("event", "outbox", "outbox_payload", "follow_up", "hold", "attempt", "turn"):
        await admin.execute(f"delete from sink.{table}")
    await admin.execute("delete from sink.inbound; delete from sink.idempotency_key")
    await admin.execute("update sink.lane set holder = null")


@pytest.mark.parametrize("seed", range(8))
async def test_the_approved_order_is_the_order_that_a_plain_seal_gives(
    sink: Sink, admin: "Admin", seed: int
) -> None:
    """Whatever the sets, those let go together stand as if they had been sealed together, behind the same others."""
    rng = random.Random(seed)
    conversations, places = ("c", "d", None), ("crm", "chat", "mail")

    def some_set() -> tuple[list[DraftMessage], Literal["strict"] | None]:
        drafts = [
            draft(str(rng.random()), rng.choice(conversations), destination=rng.choice(places))
            for _ in range(rng.randint(1, 6))
        ]
        return drafts, rng.choice(("strict", None))

    sets = [some_set() for _ in range(5)]
    stories: list[list[Any]] = []
    for queue in ("plain", "held"):
        sink.turn_policies = {QUEUE: TURN_POLICY, queue: TURN_POLICY}
        await sink.accept(*(arrival(f"{queue}{n}", queue=queue) for n in range(len(sets) + 1)))
        first, *rest = await sink.claim(len(sets) + 1, queue=queue)
        before = [draft("before", c, destination=p) for c in conversations for p in places * 2]
        await sink.seal(sealing(first, *before))
        if queue == "plain":
            await sink.seal(
                *(sealing(one, *s[0], order=s[1]) for one, s in zip(rest, sets, strict=True))
            )
        else:
            sealed = await sink.seal(
                *(holding(one, *s[0], order=s[1]) for one, s in zip(rest, sets, strict=True))
            )
            await decide(
                sink,
                *(
                    deciding(one.turn, done.payload_hash)  # type: ignore[union-attr]
                    for one, done in zip(rest, sealed, strict=True)
                ),
            )
        turns = [first.turn, *(one.turn for one in rest)]
        rows = await admin.fetch(
            "select o.id, o.turn, o.position, o.place, o.blocked_by, o.state, o.due_since is null as waits"
            " from sink.outbox as o where o.turn = any($1::uuid[])",
            turns,
        )
        named = {row["id"]: (turns.index(row["turn"]), row["position"]) for row in rows}
        stories.append(
            sorted(
                (
                    named[row["id"]],
                    row["place"],
                    named.get(row["blocked_by"], ()),
                    row["state"],
                    row["waits"],
                )
                for row in rows
            )
        )
    assert stories[0] == stories[1]
