"""Parking costs nothing: behind any number of parked turns every statement reads as little as before."""

from typing import TYPE_CHECKING

import pytest

from app.engine.chores import find_chores
from tests.database import Clock, Server
from tests.engine.history import load_past
from tests.engine.plans import Runs, explained
from tests.engine.stories import QUEUE, Sink, arrival
from tests.engine.waiting_stories import parking, telling

if TYPE_CHECKING:
    from tests.database import Admin

PARKED, PAST_TURNS, BATCH = 100_000, 5_000, 20

# Pages, counted as often as they are looked at. To scan what is parked would take thousands.
BUFFERS_MAX = 80 * BATCH
GROWING = {"turn", "attempt", "wait", "signal", "event", "inbound", "lane"}

# What each statement finds its rows by.
INDEXES: dict[str, set[str]] = {
    "find_chores": {"turn_parked"},
    "find_lapsed_turns": {"turn_processing"},
    # Nothing is scheduled: any index of that is as good.
    "find_due": set(),
    "claim_turns": {"turn_queued", "turn_pkey"},
    "read_history": {"attempt_pkey", "wait_pkey", "signal_pkey"},
    "park_turns": {"turn_pkey", "attempt_pkey"},
    "meet_signals": {"turn_pkey", "wait_pkey", "signal_pkey"},
    "find_waits": {"wait_pkey"},
    "find_slots": {"turn_pkey", "wait_pkey", "signal_pkey"},
    "find_waiting": {"turn_parked"},
    "lock_waiting": {"turn_pkey"},
    "wake_turns": {"turn_pkey", "wait_pkey"},
    "cancel_turns": {"turn_pkey", "wait_pkey"},
}

PARK = (
    """
    create temporary table waiting as
    select
        gen_random_uuid() as turn, 'w' || n as conversation, sink.now() - interval '1 hour' as at,
        sink.now() + make_interval(days => 1, secs => n) as deadline_at
    from generate_series(1, {parked}) as n
    """,
    "insert into sink.lane select 'default', conversation, 1, turn from waiting",
    """
    insert into sink.turn (
        id, queue, conversation, lane_seq, priority, state, created_at, due_at, attempt, deadline_at, parks, input_bytes
    )
    select turn, 'default', conversation, 1, 0, 'parked', at, at, 1, deadline_at, 1, 2 from waiting
    """,
    """
    insert into sink.attempt (turn, number, token, agent, claimed_at, ended_at, ended)
    select turn, 1, gen_random_uuid(), 'agent', at, at, 'parked' from waiting
    """,
    """
    insert into sink.wait (turn, attempt, name, asked_at, deadline_at)
    select turn, 1, 'answer', at, deadline_at from waiting
    """,
    # Other things that they were told.
    """
    insert into sink.signal (turn, name, number, is_decision, sent_with, request_hash, sent_at)
    select turn, 'other', 1, false, 'key', sha256('x'), at from waiting
    """,
    "drop table waiting",
)


async def _prepare(admin: "Admin", *, parked: int) -> None:
    await load_past(admin, turns=PAST_TURNS)
    for statement in PARK:
        await admin.execute(statement.format(parked=parked))
    await admin.execute("analyze")


async def _story(sink: Sink, clock: Clock) -> None:
    """What the sweep does each second, and everything that parks and wakes, to a batch each."""
    await find_chores(sink.pool, [QUEUE])
    assert await sink.sweep_turns() == await sink.wake_parked() == {}
    assert await sink.due() == []
    await sink.accept(*(arrival(f"k{n}", f"c{n}") for n in range(BATCH)))
    held = await sink.claim(BATCH)
    parkings = [parking(one, seconds=60) for one in held]
    for _ in range(2):
        await sink.park(*parkings)
    await sink.signal(*(telling(one.turn) for one in held[: BATCH // 2]))
    await clock.travel(61)
    assert await sink.wake_parked(BATCH) == {"queued": BATCH // 2}
    held = await sink.claim(BATCH)
    assert len(held) == BATCH
    await sink.park(*(parking(one, seconds=60) for one in held))
    await sink.cancel(*(one.turn for one in held))


async def _behind(server: Server, *, parked: int) -> Runs:
    return await explained(server, lambda admin: _prepare(admin, parked=parked), _story)


@pytest.fixture(scope="module")
async def seen(postgres: Server) -> Runs:
    return await _behind(postgres, parked=PARKED)


@pytest.fixture(scope="module")
async def seen_before(postgres: Server) -> Runs:
    """The same with a hundredth of them."""
    return await _behind(postgres, parked=PARKED // 100)


@pytest.mark.parametrize("name", INDEXES)
def test_what_is_parked_is_found_by_index_and_costs_nobody_else(seen: Runs, name: str) -> None:
    assert seen[name], "the story does not run it"
    for run in seen[name]:
        assert run.scanned & GROWING == set()
        assert run.buffers <= BUFFERS_MAX
    assert set().union(*(run.indexes for run in seen[name])) >= INDEXES[name]


@pytest.mark.parametrize("name", INDEXES)
def test_a_hundred_times_as_many_parked_turns_slow_nothing_down(
    seen: Runs, seen_before: Runs, name: str
) -> None:
    now, before = (sum(run.buffers for run in runs[name]) for runs in (seen, seen_before))
    assert now <= before * 2 + BATCH


def test_a_sweep_that_finds_nothing_reads_a_handful_of_pages(seen: Runs) -> None:
    for name in ("find_chores", "find_waiting", "find_lapsed_turns"):
        assert seen[name][0].buffers <= 50
