"""What is let go is what was sealed, byte for byte, and stands where a plain seal would have put it."""

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from app.domain.model import Decided, DraftMessage, NotIntact
from tests.engine.held_stories import PLAN, decide, deciding, expire, holding, later, seal_held
from tests.engine.stories import QUEUE, TURN_POLICY, Sink, arrival, draft, only, sealing

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


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
