"""A snapshot that is held open for long: the dead rows that it keeps are not read by every claim, renewal and seal."""

from typing import TYPE_CHECKING, cast

import pytest

from app.engine.marks import LOOK_SECONDS, Marks
from tests.database import Clock, Server
from tests.engine.plans import Runs, explained
from tests.engine.stories import Sink, arrival, draft, sealing

if TYPE_CHECKING:
    from tests.database import Admin
    from tests.engine.suspense import OneSession

TURNS, BATCH = 20_000, 20

# So many turns come, are claimed, renewed and sealed, while nothing of what they were can be removed.
CHURN = (
    """
    create temporary table gone as
    select gen_random_uuid() as id, 'g' || n as conversation, sink.now() - interval '1 second' as at
    from generate_series(1, {turns}) as n
    """,
    """
    insert into sink.turn (id, queue, conversation, lane_seq, priority, state, created_at, due_at, input_bytes)
    select id, 'default', conversation, 1, 0, 'queued', at, at, 2 from gone
    """,
    """
    update sink.turn as t
    set
        state = 'processing', attempt = 1, attempts_used = 1, token = gen_random_uuid(), lease_seconds = 60,
        lease_expires_at = sink.now() + interval '60 seconds'
    from gone where t.id = gone.id
    """,
    "update sink.turn set lease_expires_at = sink.now() + interval '60 seconds' where state = 'processing'",
    """
    update sink.turn as t
    set
        state = 'replied', seal = 1, payload_hash = sha256('x'), token = null, lease_seconds = null,
        lease_expires_at = null
    from gone where t.id = gone.id
    """,
    "drop table gone",
)


async def _hold(admin: "Admin") -> None:
    await admin.execute("analyze")
    await admin.execute("begin isolation level repeatable read")
    await admin.fetchval("select count(*) from sink.turn")


async def _batch(sink: Sink, name: str) -> None:
    await sink.accept(*(arrival(f"{name}-{n}", f"{name}-{n}") for n in range(BATCH)))
    held = await sink.claim(BATCH)
    assert len(held) == BATCH
    await sink.renew(*held)
    await sink.seal(*(sealing(one, draft("1", one.conversation)) for one in held))


async def _story(sink: Sink, _clock: Clock) -> None:
    connection = cast("OneSession", sink.pool).connection
    await _batch(sink, "before")
    for statement in CHURN:
        await connection.execute(statement.format(turns=TURNS))
    # Whoever has no marks reads all of it; with marks the first does.
    await _batch(sink, "without marks")
    sink.marks = Marks()
    for n in range(4):
        await _batch(sink, f"with marks {n}")


@pytest.fixture(scope="module")
async def seen(postgres: Server) -> Runs:
    return await explained(postgres, _hold, _story)


def test_claims_begin_behind_what_is_dead(seen: Runs) -> None:
    before, without, first, *later = (run.buffers for run in seen["claim_turns"])
    assert min(without, first) > before + TURNS / 100
    assert len(later) == 3
    assert max(later) <= before * 1.5


@pytest.mark.parametrize("name", ["renew_leases", "hold_turns", "record_sets"])
def test_what_is_found_by_its_id_is_read_through_the_primary_key(seen: Runs, name: str) -> None:
    before, *later = (run.buffers for run in seen[name])
    assert len(later) == 5
    # Another level of an index, and no more.
    assert max(later) <= before * 2 + BATCH


async def test_what_is_put_back_before_the_mark_is_claimed_within_a_second(
    sink: Sink, admin: "Admin"
) -> None:
    marks = Marks()
    sink.marks = marks
    old = await sink.accept_one("old")
    held = await sink.claim_one()
    await admin.execute("update sink.turn set due_at = sink.now() - interval '1 hour'")
    await sink.hand_back(held, reason="restart")
    await admin.execute("update sink.turn set due_at = sink.now() - interval '1 hour'")
    front = marks._fronts["default"]  # noqa: SLF001 - what a held snapshot would have shown
    front.is_dead = True
    await sink.accept_one("new")
    assert (await sink.claim_one()).turn != old.turn
    assert await sink.claim(1) == []
    front.look_at -= LOOK_SECONDS + 5.0
    assert (await sink.claim_one()).turn == old.turn


async def test_a_higher_priority_is_never_passed_over(sink: Sink) -> None:
    marks = Marks()
    sink.marks = marks
    await sink.accept_one("a")
    await sink.claim_one()
    marks._fronts["default"].is_dead = True  # noqa: SLF001 - what a held snapshot would have shown
    low, first, second = [
        await sink.accept_one(f"p{priority}", priority=priority) for priority in (-3, 5, 9)
    ]
    usual = await sink.accept_one("b")
    given = [(await sink.claim_one()).turn for _ in range(4)]
    assert given == [second.turn, first.turn, usual.turn, low.turn]
