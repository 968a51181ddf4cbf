"""No list, and no operation over many, reads more of a long past than a page or a batch may."""

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.database import Clock, Server
from tests.engine.finding import LOOK_MAX, change_by_the_many, look_for_everything
from tests.engine.history import load_past
from tests.engine.plans import Runs, explained
from tests.engine.stories import Sink

if TYPE_CHECKING:
    from tests.database import Admin

PAST_TURNS = 20_000
BATCH = 20
# A page or batch looks at LOOK_MAX rows at most, each perhaps on a page of its own, and some more pages to find them.
BUFFERS_MAX = 5 * LOOK_MAX

GROWING = {"turn", "inbound", "outbox", "outbox_payload", "event", "idempotency_key"}

# What each statement finds its rows by, in the tables that grow.
INDEXES: dict[str, set[str]] = {
    "keyed_turns": {"idempotency_key_pkey", "turn_pkey"},
    "conversation_turns": {"inbound_conversation", "turn_pkey"},
    "kept_turns": {"turn_troubled", "turn_sealed"},
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
    "next_kept_turns": {"turn_troubled", "turn_sealed"},
    "next_messages": {"outbox_pkey"},
    "next_kept_messages": {"outbox_troubled"},
    "still_turns": {"turn_pkey"},
    "still_messages": {"outbox_pkey"},
}


async def _load(admin: "Admin", *, turns: int) -> None:
    """A past in which a part has failed, for good and for all."""
    await load_past(admin, turns=turns)
    await admin.execute(
        """
        update sink.outbox
        set state = 'dead', reason = 'rejected', delivered_at = null
        where position = 0 and right(id::text, 1) in ('0', '1');
        """
    )
    await admin.execute("vacuum (analyze) sink.outbox")


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
