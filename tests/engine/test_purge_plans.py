"""Retention reads what it removes, and no more the more there is."""

from functools import partial

import pytest

from app.engine.erase import Conversation, erase
from app.engine.expire import expire_pages, expire_timed, expire_tombstones, extent_of
from app.engine.purge import FIRST, purge
from app.engine.tombstone import find_tombstone
from tests.database import Clock, Server
from tests.engine.history import load_past
from tests.engine.plans import Runs, explained
from tests.engine.stories import Sink
from tests.engine.walks import DAY, WINDOWS

PAST_TURNS = 20_000
BATCH = 20
PAGES = 4
# Each turn is some twenty rows, and each row some pages: of its index, its own, and those of its tombstone.
BUFFERS_MAX = 200 * BATCH

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
    "tombstone",
    "hold",
    "wait",
    "signal",
    "follow_up",
    "notice",
}

INDEXES: dict[str, set[str]] = {
    "look_for_ended": {"turn_pkey", "event_pkey"},
    "hold_ended": {"turn_pkey"},
    "bury_turns": {
        "turn_pkey", "inbound_turn", "attempt_pkey", "outbox_set", "outbox_payload_pkey", "event_pkey",
        "hold_pkey", "wait_pkey", "signal_pkey", "follow_up_pkey", "notice_turn",
    },
    "drop_notices": {"notice_turn"},
    "purge_events": set(),
    "find_accepted": {"idempotency_key_pkey", "tombstone_pkey"},
    "find_tombstone": {"tombstone_pkey"},
    "expire_keys": {"turn_pkey"},
    "expire_tombstones": {"tombstone_expiry"},
    "hold_idle_lanes": {"inbound_conversation"},
    "hold_idle_delivery_lanes": {"inbound_conversation"},
    "expire_loopback": set(),
    "find_live": {"inbound_conversation", "turn_pkey", "turn_about", "follow_up_conversation"},
    "find_concerned": {"inbound_conversation", "turn_about"},
    "erase_follow_ups": {"follow_up_conversation"},
}  # fmt: skip


# Every turn of the past was held once, parked, told and had something follow, and somebody is to be told of each.
WAITED = """
    insert into sink.hold (
        turn, seal, attempt, payload_hash, demanded_by, strict, on_deadline, held_at, deadline_at, decision,
        decided_at, decided_by
    )
    select id, 1, 1, sha256('x'), 'queue', false, 'escalate', created_at, created_at, 'approve', created_at, 'ada'
    from sink.turn;
    insert into sink.wait (turn, attempt, name, asked_at, deadline_at, ended, ended_at)
    select id, 1, 'answer', created_at, created_at, 'deadline', created_at from sink.turn;
    insert into sink.signal (turn, name, number, is_decision, sent_with, request_hash, sent_at)
    select id, 'answer', 1, false, 'key', sha256('x'), created_at from sink.turn;
    insert into sink.follow_up (
        turn, seal, position, state, child, inbound, queue, conversation, scope, key, content_type, strict_json, hash
    )
    select id, 1, 0, 'accepted', gen_random_uuid(), gen_random_uuid(), queue, conversation, 'follow_up', id::text,
        'text/plain', false, sha256('x')
    from sink.turn;
    insert into sink.notice (turn, queue, kind, reason, noted_at)
    select id, queue, 'escalation', 'dead', created_at from sink.turn;
    update sink.turn set about = gen_random_uuid() where right(id::text, 1) in ('2', '3');
"""


async def _story(sink: Sink, clock: Clock) -> None:
    """A walk with small steps, and an erasure."""
    await clock.travel(40 * DAY)
    purged = await purge(sink.pool, windows=WINDOWS, after=FIRST, rows_max=BATCH)
    key, turn = await clock.admin.fetchrow(  # type: ignore[misc]
        "select key, turn from sink.idempotency_key where turn in (select id from sink.tombstone) limit 1"
    )
    assert purged.counts["turn"] > BATCH // 2
    await clock.admin.execute("vacuum (analyze)")
    assert (await sink.accept_one(key)).duplicate
    assert await find_tombstone(sink.pool, turn)
    keys = await extent_of(sink.pool, "idempotency_key")
    for table in ("idempotency_key", "lane", "delivery_lane"):
        await expire_pages(sink.pool, table, first=1, behind=1 + PAGES)
    await expire_tombstones(sink.pool, until=keys.at, rows_max=BATCH)
    await expire_timed(sink.pool, "loopback", seconds=DAY, rows_max=BATCH)
    erased = await erase(
        sink.pool, Conversation("default", "p7", is_open=False), windows=WINDOWS, cancel=False, by="ada"
    )  # fmt: skip
    assert erased


async def _behind(server: Server, *, turns: int) -> Runs:
    """How every statement runs behind so many finished turns, and as many tombstones."""

    async def prepare(admin: object, *, turns: int) -> None:
        await load_past(admin, turns=turns)  # type: ignore[arg-type]
        await admin.execute(  # type: ignore[attr-defined]
            "insert into sink.tombstone select gen_random_uuid(), gen_random_uuid(), 'default', 'replied', "
            "sink.now(), sink.now() + interval '10 days' + n * interval '1 hour' "
            f"from generate_series(1, {turns}) as n"
        )
        await admin.execute(WAITED)  # type: ignore[attr-defined]
        await admin.execute("vacuum (analyze)")  # type: ignore[attr-defined]

    return await explained(server, partial(prepare, turns=turns), _story)


@pytest.fixture(scope="module")
async def seen(postgres: Server) -> Runs:
    return await _behind(postgres, turns=PAST_TURNS)


@pytest.fixture(scope="module")
async def seen_before(postgres: Server) -> Runs:
    """The same with a tenth of the past."""
    return await _behind(postgres, turns=PAST_TURNS // 10)


@pytest.mark.parametrize("name", INDEXES)
def test_a_statement_of_retention_finds_its_rows_by_index_and_reads_little(
    seen: Runs, name: str
) -> None:
    assert seen[name], "the story does not run it"
    for run in seen[name]:
        assert run.scanned & GROWING == set()
        assert run.buffers <= BUFFERS_MAX
    assert set().union(*(run.indexes for run in seen[name])) >= INDEXES[name]


# A walk over pages reads what hangs on all rows in them, the more the fuller they are.
@pytest.mark.parametrize("name", [name for name in INDEXES if "idle" not in name])
def test_ten_times_the_past_costs_retention_no_more(
    seen: Runs, seen_before: Runs, name: str
) -> None:
    now, before = (max(run.buffers for run in runs[name]) for runs in (seen, seen_before))
    assert now <= before * 2 + 5 * BATCH
