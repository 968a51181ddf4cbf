"""What holds and follow-ups cost does not grow with what was decided before, nor with what still waits."""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.domain.model import OnDeadline, Sealed
from app.engine.chores import find_chores
from tests.database import Clock, Server
from tests.engine.held_stories import PLAN, decide, deciding, expire, holding, later
from tests.engine.history import load_past
from tests.engine.plans import Runs, explained
from tests.engine.stories import QUEUE, Sink, arrival, draft
from tests.engine.test_plans import BATCH, GROWING

if TYPE_CHECKING:
    from tests.database import Admin

PAST_TURNS = 20_000
WAITING = 3_000
# Of a queue that nobody here knows, and over long ago.
FOREIGN = 10_000
# Pages, counted as often as they are looked at: of a batch of turns with three messages each.
BUFFERS_MAX = 120 * BATCH

HELD_PAST = (
    """
    insert into sink.hold
    select
        id, 1, 1, payload_hash, 'queue', false, null, 'escalate', created_at, created_at, 0, 'approve', created_at,
        'ada', 'key', null, payload_hash, null
    from sink.turn where state = 'replied'
    """,
    """
    insert into sink.follow_up (
        turn, seal, position, state, child, inbound, queue, scope, key, content_type, strict_json, hash
    )
    select
        id, 1, 0, 'accepted', gen_random_uuid(), gen_random_uuid(), 'default', 'follow_up', id::text,
        'application/json', true, payload_hash
    from sink.turn where state = 'replied'
    """,
    f"""
    insert into sink.turn (
        id, queue, priority, state, created_at, due_at, attempt, attempts_used, seal, payload_hash, input_bytes,
        deadline_at
    )
    select
        gen_random_uuid(), 'default', 0, 'held', sink.now(), sink.now(), 1, 1, 1, sha256('x'), 2,
        sink.now() + interval '1 year'
    from generate_series(1, {WAITING})
    """,
    f"""
    insert into sink.turn (
        id, queue, priority, state, created_at, due_at, attempt, attempts_used, seal, payload_hash, input_bytes,
        deadline_at
    )
    select
        gen_random_uuid(), 'elsewhere', 0, 'held', sink.now(), sink.now(), 1, 1, 1, sha256('x'), 2,
        sink.now() - make_interval(days => 1, secs => n * 7919 % {FOREIGN})
    from generate_series(1, {FOREIGN}) as n
    """,
    """
    insert into sink.hold
    select
        id, 1, 1, payload_hash, 'queue', false, null, 'escalate', created_at, deadline_at, 0, null, null, null, null,
        null, null, null
    from sink.turn where state = 'held'
    """,
    """
    insert into sink.follow_up (
        turn, seal, position, state, child, inbound, queue, scope, key, content_type, body, strict_json, hash
    )
    select
        id, 1, 0, 'held', gen_random_uuid(), gen_random_uuid(), 'default', 'follow_up', id::text,
        'application/json', '1', true, payload_hash
    from sink.turn where state = 'held'
    """,
    "analyze sink.hold, sink.follow_up, sink.turn",
)

INDEXES: dict[str, set[str]] = {
    "find_attempts": {"turn_pkey", "attempt_pkey", "hold_pkey"},
    "add_holds": {"turn_pkey"},
    "read_holds": {"hold_pkey"},
    "record_follow_ups": set(),
    "accept_follow_ups": {"follow_up_pkey", "turn_pkey"},
    "point_follow_ups": {"follow_up_pkey", "idempotency_key_pkey"},
    "find_sealed_follow_ups": {"follow_up_pkey", "turn_pkey"},
    "carry_follow_ups": {"follow_up_pkey"},
    "read_held_turns": {"turn_pkey"},
    "read_held_sets": {"turn_pkey", "hold_pkey"},
    "read_held_messages": {"turn_pkey", "outbox_set", "outbox_payload_pkey"},
    "read_held_follow_ups": {"turn_pkey", "follow_up_pkey"},
    "end_turns": {"turn_pkey"},
    "send_back": {"turn_pkey"},
    "decide_holds": {"hold_pkey"},
    "void_sets": {"outbox_set", "follow_up_pkey"},
    "enter_delivery_lanes": set(),
    "let_messages_go": {"outbox_pkey", "outbox_lane"},
    "find_chores": {"turn_deadline"},
    "find_expired_holds": {"turn_deadline", "hold_pkey"},
    "escalate_holds": {"turn_pkey", "hold_pkey"},
}
OF_HOLDS = GROWING | {"hold", "follow_up"}


async def _prepare(admin: "Admin") -> None:
    await load_past(admin, turns=PAST_TURNS)
    for statement in HELD_PAST:
        await admin.execute(statement)


async def _held(sink: Sink, name: str, plan: OnDeadline = "escalate") -> list[tuple[UUID, str]]:
    await sink.accept(*(arrival(f"{name}-{n}", f"p{n}", priority=100) for n in range(BATCH)))
    held = await sink.claim(BATCH)
    requests = [
        holding(
            one,
            *(draft(f"{n}", one.conversation) for n in range(3)),
            follow_ups=[later("later"), later("known", key="same")],
            plan=replace(PLAN, on_deadline=plan),
        )
        for one in held
    ]
    sealed = await sink.seal(*requests)
    await sink.seal(*requests)
    assert len(held) == BATCH
    return [
        (one.turn, done.payload_hash)
        for one, done in zip(held, sealed, strict=True)
        if isinstance(done, Sealed)
    ]


async def _story(sink: Sink, clock: Clock) -> None:
    for name, edited in (("approve", None), ("edit", [draft("1"), draft("2", "p1")])):
        shown = await _held(sink, name)
        await decide(
            sink,
            *(deciding(turn, digest, edited=edited) for turn, digest in shown),
        )
    for decision in ("reject", "revise"):
        shown = await _held(sink, decision)
        await decide(
            sink,
            *(deciding(turn, digest, decision) for turn, digest in shown),
        )
        await sink.cancel(*(turn for turn, _ in shown))
    plans: tuple[OnDeadline, ...] = ("escalate", "cancel", "send")
    for plan in plans:
        shown = await _held(sink, f"expires to {plan}", plan)
        await clock.travel(PLAN.deadline_seconds + 1)
        assert "deadlines" in (await find_chores(sink.pool, [QUEUE])).due
        await expire(sink, BATCH)
        assert "deadlines" not in (await find_chores(sink.pool, [QUEUE])).due
        # What is escalated keeps its conversation: the next ones would wait behind it, and never be held.
        await sink.cancel(*(turn for turn, _ in shown))
    await sink.cancel(*(turn for turn, _ in await _held(sink, "cancelled")))


@pytest.fixture(scope="module")
async def seen(postgres: Server) -> Runs:
    return await explained(postgres, _prepare, _story)


@pytest.mark.parametrize("name", INDEXES)
def test_what_holds_do_finds_its_rows_by_index_and_reads_little(seen: Runs, name: str) -> None:
    assert seen[name], "the story does not run it"
    for run in seen[name]:
        assert run.scanned & OF_HOLDS == set()
        assert run.buffers <= BUFFERS_MAX
    assert set().union(*(run.indexes for run in seen[name])) >= INDEXES[name]


def test_what_is_over_in_a_queue_that_nobody_here_knows_is_not_even_looked_at(seen: Runs) -> None:
    for name, pages in (("find_chores", 60), ("find_expired_holds", 10 * BATCH)):
        assert max(run.buffers for run in seen[name]) <= pages
