"""Telling somebody reads what is to be told, whatever else waits, and a look for chores does not walk through it."""

from typing import TYPE_CHECKING

import pytest

from app.domain.notice import NoticeRoute
from app.engine.asking import ROWS_MAX, open_holds, waiting_notices
from app.engine.chores import find_chores
from app.engine.overview import names_in_use
from tests.database import Clock, Server
from tests.engine.plans import Runs, explained
from tests.engine.stories import DEAD, ONCALL, QUEUE, Sink, draft

if TYPE_CHECKING:
    from tests.database import Admin

WAITING = 20_000
BATCH = 10
BUFFERS_MAX = 80 * BATCH
# People look at so many, and the measures with them.
COUNTED = {"open_holds", "waiting_notices"}

CROWD = (
    """
    insert into sink.turn (
        id, queue, priority, state, created_at, due_at, deadline_at, input_bytes, seal, payload_hash
    )
    select
        gen_random_uuid(), 'busy', 0, case when n % 2 = 0 then 'held' else 'escalated' end, sink.now(), sink.now(),
        sink.now() + make_interval(secs => 3600 + n), 0, 1, sha256('')
    from generate_series(1, {waiting}) as n
    """,
    """
    insert into sink.turn (id, queue, priority, state, created_at, due_at, deadline_at, input_bytes)
    select gen_random_uuid(), 'default', 0, 'parked', sink.now(), sink.now(), sink.now() + interval '1 day', 0
    from generate_series(1, {waiting}) as n
    """,
    """
    insert into sink.notice (turn, queue, kind, reason, noted_at)
    select gen_random_uuid(), 'elsewhere', 'escalation', 'dead', sink.now() from generate_series(1, {waiting}) as n
    """,
    "analyze sink.turn, sink.notice",
)


async def _crowd(admin: "Admin") -> None:
    for statement in CROWD:
        await admin.execute(statement.format(waiting=WAITING))


async def _story(sink: Sink, clock: Clock) -> None:
    """A batch of what dies is told of, and everybody who looks on does."""
    del clock
    for key in "abcde":
        await sink.sealed(key, draft("1", f"c{key}"), draft("2", f"d{key}"))
    await sink.settle(*((one, DEAD) for one in await sink.take(BATCH)))
    assert set((await find_chores(sink.pool, [QUEUE])).due) == {"notices"}
    routes = {QUEUE: NoticeRoute(escalate_to=ONCALL)}
    assert await sink.escalate(BATCH, routes=routes) == {(QUEUE, "escalation", "told"): 5}
    assert (await find_chores(sink.pool, [QUEUE, "busy"])).due == []
    assert {one.count for one in await open_holds(sink.pool)} == {ROWS_MAX}
    assert [one.count for one in await waiting_notices(sink.pool)] == [ROWS_MAX]
    assert {"busy", "elsewhere"} <= (await names_in_use(sink.pool))["queue"]


@pytest.fixture(scope="module")
async def seen(postgres: Server) -> Runs:
    return await explained(postgres, _crowd, _story)


def test_beside_a_crowd_that_waits_telling_reads_no_more_than_it_needs(seen: Runs) -> None:
    told = {"find_chores", "find_notices", "take_notices", "find_told", "add_escalations"}
    assert told | {"find_told_messages", "settle_messages", "names_in_use"} <= set(seen)
    over = {
        name: [run.buffers for run in runs]
        for name, runs in seen.items()
        if name not in COUNTED and any(run.buffers > BUFFERS_MAX for run in runs)
    }
    assert over == {}


def test_what_people_look_at_is_counted_up_to_a_bound(seen: Runs) -> None:
    assert set(seen) >= COUNTED
    for name in COUNTED:
        assert all(run.buffers < 12 * ROWS_MAX for run in seen[name]), name


def test_nobody_walks_through_all_that_waits(seen: Runs) -> None:
    for name, runs in seen.items():
        for run in runs:
            assert run.scanned & {"turn", "notice"} == set(), name
