"""No list, and no operation over many, reads more of a long past than a page or a batch may."""

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.database import Clock, Server
from tests.engine.finding import KIN, LOOK_MAX, change_by_the_many, look_for_everything
from tests.engine.history import load_past
from tests.engine.plans import Runs, explained
from tests.engine.stories import Sink

if TYPE_CHECKING:
    from tests.database import Admin

PAST_TURNS = 20_000
BATCH = 20
# A page or batch looks at LOOK_MAX rows at most, each perhaps on a page of its own, and some more pages to find them.
BUFFERS_MAX = 5 * LOOK_MAX

GROWING = {
    "turn",
    "inbound",
    "outbox",
    "outbox_payload",
    "event",
    "idempotency_key",
    "hold",
    "wait",
    "follow_up",
    "tombstone",
}

# What each statement finds its rows by, in the tables that grow.
INDEXES: dict[str, set[str]] = {
    "keyed_turns": {"idempotency_key_pkey", "turn_pkey"},
    "conversation_turns": {"inbound_conversation", "turn_pkey"},
    "related_turns": {"turn_root", "turn_about"},
    "kept_turns": {"turn_troubled", "turn_sealed", "turn_asking"},
    "live_turns": {"turn_queued", "turn_waiting", "turn_processing"},
    "near_turns": {"turn_pkey"},
    "turn_messages": {"outbox_set"},
    "troubled_messages": {"outbox_troubled"},
    "live_messages": {"outbox_due", "outbox_blocked", "outbox_sending"},
    "near_messages": {"outbox_pkey"},
    "show_messages": {"outbox_pkey", "outbox_payload_pkey"},
    "begin_operation": {"turn_pkey", "outbox_pkey"},
    "hold_operation": set(),
    "advance_operation": set(),
    "cancel_operation": set(),
    "running_operations": set(),
    "list_operations": set(),
    "queue_is_known": {"idempotency_key_pkey"},
    "next_turns": {"turn_pkey"},
    "next_kept_turns": {"turn_troubled", "turn_sealed", "turn_asking"},
    "next_messages": {"outbox_pkey"},
    "next_kept_messages": {"outbox_troubled"},
    "still_turns": {"turn_pkey"},
    "find_turns": {"turn_pkey", "inbound_turn", "hold_pkey", "wait_pkey", "follow_up_pkey"},
    "find_messages": {"turn_pkey", "outbox_set", "outbox_payload_pkey"},
    "find_follow_ups": {"follow_up_pkey", "turn_pkey"},
    "find_seal": {"turn_pkey", "hold_pkey"},
    "find_set_messages": {"outbox_set", "outbox_payload_pkey"},
    "find_set_follow_ups": {"follow_up_pkey", "turn_pkey"},
    "still_messages": {"outbox_pkey"},
}


# Every turn of the past was held once, parked, and had something follow; a part of it waits for people to this day.
WAITED = """
    insert into sink.hold (
        turn, seal, attempt, payload_hash, demanded_by, strict, on_deadline, held_at, deadline_at, decision,
        decided_at, decided_by
    )
    select id, 1, 1, sha256('x'), 'queue', false, 'escalate', created_at, created_at, 'approve', created_at, 'ada'
    from sink.turn;

    insert into sink.wait (turn, attempt, name, asked_at, deadline_at)
    select id, 1, 'answer', created_at, created_at from sink.turn;

    insert into sink.follow_up (
        turn, seal, position, state, child, inbound, queue, conversation, scope, key, content_type, strict_json, hash
    )
    select id, 1, 0, 'accepted', gen_random_uuid(), gen_random_uuid(), queue, conversation, 'follow_up', id::text,
        'text/plain', false, sha256('x')
    from sink.turn;

    insert into sink.tombstone
    select gen_random_uuid(), gen_random_uuid(), queue, 'replied', created_at, created_at from sink.turn;

    update sink.turn set root = '{kin}', depth = 1 where right(id::text, 1) in ('0', '1');
    update sink.turn set about = '{kin}' where right(id::text, 1) in ('2', '3');
    update sink.turn set state = 'parked', reason = null, deadline_at = 'infinity'
    where right(id::text, 1) in ('4', '5') and seal = 0;
    update sink.turn set state = case right(id::text, 1) when '6' then 'held' else 'escalated' end,
        deadline_at = 'infinity'
    where right(id::text, 1) in ('6', '7') and seal = 1;
"""


async def _load(admin: "Admin", *, turns: int) -> None:
    """A past in which a part has failed, for good and for all, and a part waits."""
    await load_past(admin, turns=turns)
    await admin.execute(WAITED.format(kin=KIN))
    await admin.execute(
        """
        update sink.outbox
        set state = 'dead', reason = 'rejected', delivered_at = null
        where position = 0 and right(id::text, 1) in ('0', '1');
        """
    )
    await admin.execute("vacuum (analyze)")


async def _story(sink: Sink, _clock: Clock) -> None:
    await look_for_everything(sink, BATCH)
    await change_by_the_many(sink, BATCH)


@pytest.fixture(scope="module")
async def seen(postgres: Server) -> Runs:
    return await explained(postgres, partial(_load, turns=PAST_TURNS), _story)


@pytest.mark.parametrize("name", INDEXES)
def test_a_page_and_a_batch_find_their_rows_by_index_and_read_no_more_than_they_may(
    seen: Runs, name: str
) -> None:
    assert seen[name], "the story does not run it"
    for run in seen[name]:
        assert run.scanned & GROWING == set()
        assert run.buffers <= BUFFERS_MAX
    assert set().union(*(run.indexes for run in seen[name])) >= INDEXES[name]
