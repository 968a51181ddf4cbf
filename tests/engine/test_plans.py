"""No hot statement reads what is finished: behind a long past each goes through its index, and reads little."""

from dataclasses import replace

import pytest

from app.engine.breaker import recount
from tests.database import Clock, Server
from tests.engine.history import load_past
from tests.engine.plans import Runs, explained
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    LATER,
    QUEUE,
    TURN_POLICY,
    UNKNOWN,
    Sink,
    arrival,
    draft,
    returning,
    sealing,
    short,
)

PAST_TURNS = 20_000
BATCH = 20

# Pages, counted as often as they are looked at. To scan a past of one table would take hundreds to thousands.
BUFFERS_MAX = 80 * BATCH
# What seals a turn writes its three messages as well.
SEALS_MAX = 2 * BUFFERS_MAX

GROWING = {
    "turn",
    "inbound",
    "attempt",
    "outbox",
    "outbox_payload",
    "event",
    "idempotency_key",
    "lane",
    "delivery_lane",
}

# What each statement finds its rows by, in the tables that grow.
INDEXES: dict[str, set[str]] = {
    "accept_inbound": set(),
    "add_keys": set(),
    "hold_lanes": set(),
    "hold_joinable": {"lane_pkey", "turn_waiting", "turn_pkey"},
    "join_turns": {"turn_pkey"},
    "add_turns": {"lane_pkey"},
    "add_inbound": {"idempotency_key_pkey"},
    "find_accepted": {"idempotency_key_pkey", "turn_pkey"},
    "find_due": {"turn_scheduled"},
    "enter_lanes": {"turn_pkey"},
    "make_due": {"turn_pkey"},
    "add_pause": set(),
    "drop_pause": set(),
    "find_pauses": set(),
    "find_held": {"turn_held"},
    "keep_times": {"turn_pkey"},
    "add_held": set(),
    "find_too_old": {"turn_queued"},
    "fail_too_old": {"turn_pkey"},
    "claim_turns": {"turn_queued", "turn_pkey", "inbound_turn"},
    "read_history": {"attempt_pkey"},
    "renew_leases": {"turn_pkey"},
    "find_attempts": {"turn_pkey", "attempt_pkey"},
    "lock_lanes": {"turn_pkey"},
    "lock_held": {"turn_pkey"},
    "put_back": {"turn_pkey", "attempt_pkey"},
    "promote_turns": {"turn_pkey", "turn_waiting"},
    "hold_turns": {"turn_pkey"},
    "record_sets": {"turn_pkey", "attempt_pkey", "turn_waiting", "outbox_lane"},
    "find_sealed": {"outbox_set", "outbox_payload_pkey"},
    "find_sealed_follow_ups": set(),
    "take_messages": {"outbox_due", "outbox_payload_pkey"},
    "find_earlier": {"outbox_pkey", "outbox_payload_pkey", "event_pkey"},
    "make_destinations": set(),
    "end_attempts": set(),
    "find_drift": {"outbox_sending"},
    "lock_for_messages": {"outbox_pkey", "turn_pkey", "outbox_set"},
    "settle_messages": {"outbox_pkey"},
    "confirm_messages": {"outbox_pkey", "outbox_blocked", "outbox_set", "outbox_lane", "turn_pkey"},
    "leave_lanes": {"outbox_pkey", "outbox_set"},
    "move_on": {"outbox_blocked", "outbox_set", "outbox_lane"},
    "settle_turns": {"outbox_set", "turn_pkey"},
    "record_facts": {"outbox_pkey", "event_pkey"},
    "find_lapsed_turns": {"turn_processing"},
    "find_lapsed_messages": {"outbox_sending"},
    "lock_turns": {"turn_pkey"},
    "make_lanes": set(),
    "cancel_turns": {"turn_pkey", "attempt_pkey"},
    "find_undelivered": {"turn_pkey", "outbox_set"},
    "lock_messages": {"outbox_pkey"},
    "cancel_messages": {"outbox_pkey"},
    "redrive_turns": {"turn_pkey"},
    "find_stuck": {"turn_pkey", "outbox_set"},
    "reseal_turns": {"outbox_pkey"},
    "redrive_messages": {"outbox_pkey", "outbox_set", "event_pkey"},
    "find_redriven_turns": {"event_pkey"},
    "resolve_messages": {"outbox_pkey"},
    "ask_resends": {"outbox_pkey"},
    "find_resends": set(),
    "take_resends": {"outbox_pkey", "outbox_payload_pkey"},
    "settle_resends": set(),
    "find_lapsed_resends": set(),
    "find_states": {"turn_pkey"},
    "find_turns": {"turn_pkey", "inbound_turn"},
    "find_messages": {"outbox_set", "outbox_payload_pkey"},
    "find_events": {"event_pkey"},
}


async def _story(sink: Sink, clock: Clock) -> None:
    """Everything the loops and the API do, to a batch each."""
    patient = replace(sink, turn_policies={QUEUE: replace(TURN_POLICY, attempts_max=1)})
    for start in range(2):
        arrivals = [arrival(f"k{start}-{n}", f"p{n}") for n in range(BATCH)]
        for _ in range(2):
            await sink.accept(*arrivals)
    await sink.accept(*(arrival(f"d{n}", f"p{n}", delay_seconds=5) for n in range(BATCH)))
    await clock.travel(6)
    await sink.due(BATCH)
    held = await sink.claim(BATCH)
    await sink.release(*(returning(one) for one in held))
    held = await sink.claim(BATCH)
    await sink.renew(*held)
    sets = [sealing(one, *(draft(str(n), one.conversation) for n in range(3))) for one in held]
    for _ in range(2):
        await sink.seal(*sets)
    await sink.settle(*((one, DELIVERED) for one in await sink.take(BATCH)))
    taken = await sink.take(BATCH)
    await sink.settle(*((one, DEAD) for one in taken))
    await sink.tell(*taken)
    await sink.take(BATCH)
    await clock.travel(31)
    await sink.sweep_messages(BATCH)
    assert await recount(sink.pool) == []
    await sink.claim(BATCH)
    await clock.travel(61)
    await patient.sweep_turns(BATCH)
    await _desk(sink, clock)
    await _again(sink, clock)
    await _stops(sink, clock)
    await sink.story(held[0].turn)
    await sink.look(held[0].turn)


async def _stops(sink: Sink, clock: Clock) -> None:
    """What a paused source holds up, and what is too old, a batch each."""
    await sink.pause("source", "api")
    for delay in (0.0, 3_600.0):
        await sink.accept(
            *(arrival(f"h{delay}-{n}", f"p{n}", delay_seconds=delay) for n in range(BATCH // 2))
        )
    await sink.accept(*(short(f"hj-{n}", f"p{n}") for n in range(BATCH)))
    await sink.resume("source", "api")
    while await sink.due_after_pause(BATCH):
        pass
    await clock.travel(61)
    await sink.claim(BATCH, input_age_seconds_max=60.0)


async def _again(sink: Sink, clock: Clock) -> None:
    """Sets in strict order, and what is sent once more, a batch each."""
    await sink.accept(*(arrival(f"o-{n}", f"o{n}") for n in range(BATCH)))
    held = await sink.claim(BATCH)
    places = ("near", "far", "near")
    await sink.seal(
        *(
            sealing(
                one,
                *(draft(place, one.conversation, destination=place) for place in places),
                order="strict",
            )
            for one in held
        )
    )
    taken = await sink.take(BATCH, destination="near")
    await sink.settle(*((one, DELIVERED) for one in taken))
    for place in places[1:]:
        ends = await sink.take(BATCH, destination=place)
        await sink.settle(*((one, DELIVERED) for one in ends))
    await sink.ask_resend(*(one.message for one in taken))
    resends = await sink.take_resends(BATCH, destination="near")
    await sink.settle_resends(*((one, LATER) for one in resends[:5]))
    await clock.travel(31)
    await sink.sweep_resends(BATCH)


async def _desk(sink: Sink, clock: Clock) -> None:
    """What people do, and what joins, to a batch each."""
    for start in range(2):
        await sink.accept(*(short(f"j{start}-{n}", f"p{n}") for n in range(BATCH)))
        await sink.accept(*(short(f"q{start}-{n}", f"new{n}") for n in range(BATCH)))
    await clock.travel(3)
    held = await sink.claim(BATCH)
    await sink.accept(*(short(f"r-{n}", one.conversation) for n, one in enumerate(held)))
    await sink.accept(*(short(f"s-{n}", one.conversation) for n, one in enumerate(held)))
    turns = [one.turn for one in held]
    await sink.release(*(returning(one, final=True) for one in held))
    await sink.redrive(*turns)
    held = await sink.claim(BATCH)
    turns = [one.turn for one in held]
    drafts = {
        one.turn: [draft(str(n), one.conversation, destination="desk") for n in range(3)]
        for one in held
    }
    await sink.seal(*(sealing(one, *drafts[one.turn]) for one in held))
    await sink.settle(*((one, UNKNOWN) for one in await sink.take(BATCH, destination="desk")))
    await sink.redrive(*turns)
    taken = await sink.take(BATCH, destination="desk")
    await sink.settle(*((one, UNKNOWN) for one in taken))
    stuck = [one.message for one in taken]
    await sink.redrive_messages(*stuck[:5])
    await sink.resolve(*stuck[5:10], state="delivered")
    await sink.cancel_messages(*stuck)
    await sink.cancel(*turns)
    await sink.cancel(*(one.turn for one in await sink.claim(BATCH)))


async def _behind(server: Server, *, turns: int) -> Runs:
    """How every statement of the story runs behind so many finished turns, by its name."""
    return await explained(server, lambda admin: load_past(admin, turns=turns), _story)


@pytest.fixture(scope="module")
async def seen(postgres: Server) -> Runs:
    return await _behind(postgres, turns=PAST_TURNS)


@pytest.fixture(scope="module")
async def seen_before(postgres: Server) -> Runs:
    """The same with a tenth of the past."""
    return await _behind(postgres, turns=PAST_TURNS // 10)


@pytest.mark.parametrize("name", INDEXES)
def test_a_hot_statement_finds_its_rows_by_index_and_reads_little(seen: Runs, name: str) -> None:
    assert seen[name], "the story does not run it"
    for run in seen[name]:
        assert run.scanned & GROWING == set()
        assert run.buffers <= (SEALS_MAX if name == "record_sets" else BUFFERS_MAX)
    assert set().union(*(run.indexes for run in seen[name])) >= INDEXES[name]


def test_every_statement_of_the_story_is_looked_at(seen: Runs) -> None:
    assert set(seen) == set(INDEXES)


@pytest.mark.parametrize("name", INDEXES)
def test_ten_times_the_past_costs_no_more_than_another_level_of_an_index(
    seen: Runs, seen_before: Runs, name: str
) -> None:
    now, before = (sum(run.buffers for run in runs[name]) for runs in (seen, seen_before))
    assert now <= before * 2 + BATCH
