"""A crowd delays nobody else: beside 100,000 that wait in one conversation, in one queue, or for one source, every
other conversation, queue and source is served as if they were not there.
"""

from typing import TYPE_CHECKING

import pytest

from app.engine.chores import find_chores
from app.engine.inspect import oldest_queued_seconds
from app.engine.overview import (
    COUNT_MAX,
    count_waiting,
    destination_load,
    names_in_use,
    oldest_turn_seconds,
    queue_load,
    source_load,
)
from tests.database import Clock, Server
from tests.engine.plans import Runs, explained
from tests.engine.stories import QUEUE, Sink, arrival, draft, sealing, short, wish

if TYPE_CHECKING:
    from tests.database import Admin

CROWD = 100_000

# Pages that one run of a statement may read. To walk past a crowd would take thousands.
BUFFERS_MAX = 300
# What is counted is counted up to a bound.
COUNTED = {
    "queue_load",
    "count_waiting",
    "source_load",
    "destination_load",
    "names_in_use",
    "oldest_turns",
}

LOAD = (
    # One conversation: its head, and all the others behind it.
    "insert into sink.lane (queue, conversation, tail) values ('default', 'crowd', {crowd})",
    """
    insert into sink.turn (id, queue, conversation, lane_seq, priority, state, created_at, due_at, input_bytes)
    select
        gen_random_uuid(), 'default', 'crowd', n, 100, case n when 1 then 'queued' else 'waiting' end,
        sink.now(), sink.now(), 2
    from generate_series(1, {crowd}) as n
    """,
    """
    update sink.lane set holder = (select id from sink.turn where lane_seq = 1 and conversation = 'crowd')
    where conversation = 'crowd'
    """,
    # One queue, of turns without a conversation; half of them back off, with the higher priority.
    """
    insert into sink.turn (id, queue, priority, state, created_at, due_at, input_bytes)
    select
        gen_random_uuid(), 'busy', n % 2, 'queued', sink.now(),
        sink.now() + make_interval(hours => n % 2), 2
    from generate_series(1, {crowd}) as n
    """,
    # One queue of turns that wait for people.
    """
    insert into sink.turn (
        id, queue, priority, state, created_at, due_at, attempt, attempts_used, seal, payload_hash, deadline_at,
        input_bytes
    )
    select gen_random_uuid(), 'asked', 0, 'held', sink.now(), sink.now(), 1, 1, 1, sha256('x'), 'infinity', 2
    from generate_series(1, {crowd}) as n
    """,
    # One source, paused.
    "insert into sink.pause values ('source', 'flood', sink.now(), 'ada', null)",
    """
    insert into sink.turn (id, queue, priority, state, created_at, due_at, held_source, input_bytes)
    select gen_random_uuid(), 'default', 0, 'scheduled', sink.now(), 'infinity', 'flood', 2
    from generate_series(1, {crowd}) as n
    """,
    """
    insert into sink.inbound (
        id, turn, queue, source, conversation, received_at, content_type, headers, body, strict_json
    )
    select gen_random_uuid(), id, queue, 'api', conversation, created_at, 'application/json', '{{}}', '{{}}', true
    from sink.turn
    """,
    "vacuum (analyze)",
)


async def _crowd(admin: "Admin") -> None:
    for statement in LOAD:
        await admin.execute(statement.format(crowd=CROWD))


async def _story(sink: Sink, clock: Clock) -> None:
    """What others do beside the crowd, and what moves the crowd itself."""
    first = await sink.accept_one("a", "quiet", queue="other")
    await sink.accept_one("b", "quiet", queue="other")
    held = (await sink.claim_for(wish(queue="other")))[0][0]
    assert held.turn == first.turn
    await sink.seal(sealing(held, draft("1", "quiet")))
    assert len((await sink.claim_for(wish(queue="other")))[0]) == 1
    # Another conversation of the same queue, behind the crowd's head.
    beside = await sink.accept_one("c", "quiet")
    crowd, quiet = await sink.claim(2)
    assert (crowd.conversation, quiet.turn) == ("crowd", beside.turn)
    # The lane of the crowd goes on by one, and takes one more.
    await sink.seal(sealing(crowd))
    assert (await sink.accept_one("d", "crowd")).state == "waiting"
    await sink.accept(short("e", "crowd"))
    assert len(await sink.claim(2)) == 1
    # The crowded queue gives what is due, whatever backs off before it.
    assert len((await sink.claim_for(wish(10, queue="busy")))[0]) == 10
    # Nobody waits for a source that is still paused, and another source is let go past it.
    await sink.pause("source", "api")
    await sink.accept(arrival("f"), arrival("g", delay_seconds=5))
    await sink.resume("source", "api")
    assert "held" in (await find_chores(sink.pool, [QUEUE])).due
    assert len(await sink.due_after_pause()) == 2
    await clock.travel(6)
    assert await sink.due() == ["default"]
    assert "held" not in (await find_chores(sink.pool, [QUEUE])).due
    await _looks(sink)


async def _looks(sink: Sink) -> None:
    load = await queue_load(sink.pool, ["default", "busy", "other", "asked"])
    counts = [load["default"]["waiting"], load["default"]["scheduled"], load["busy"]["queued"]]
    assert [*counts, load["asked"]["held"]] == [COUNT_MAX] * 4
    assert (await source_load(sink.pool, ["flood"]))["flood"].held == COUNT_MAX
    assert (await destination_load(sink.pool, ["crm"]))["crm"]["pending"] == 1
    assert await count_waiting(sink.pool, "default", count_max=500) == 500
    assert await names_in_use(sink.pool) == {
        "queue": {"default", "busy", "other", "asked"},
        "source": {"flood"},
        "destination": {"crm"},
    }
    ages = await oldest_turn_seconds(sink.pool, ["default", "busy", "other", "asked"])
    assert {
        ("default", "waiting"), ("default", "processing"), ("other", "sealed"), ("asked", "held"),
    } <= set(ages)  # fmt: skip
    assert set(await oldest_queued_seconds(sink.pool, ["default", "busy"])) == {"default", "busy"}


@pytest.fixture(scope="module")
async def seen(postgres: Server) -> Runs:
    return await explained(postgres, _crowd, _story)


def test_beside_a_crowd_no_statement_reads_more_than_it_needs(seen: Runs) -> None:
    over = {
        name: [run.buffers for run in runs]
        for name, runs in seen.items()
        if name not in COUNTED and any(run.buffers > BUFFERS_MAX for run in runs)
    }
    assert over == {}
    assert {"claim_turns", "accept_inbound", "record_sets", "find_held", "find_chores"} <= set(seen)


def test_what_is_counted_for_people_is_counted_up_to_a_bound(seen: Runs) -> None:
    assert set(seen) >= COUNTED
    for name in COUNTED:
        assert all(run.buffers < 12 * COUNT_MAX for run in seen[name]), name


def test_nobody_walks_through_all_turns(seen: Runs) -> None:
    scanning = {name for name, runs in seen.items() if any("turn" in run.scanned for run in runs)}
    assert scanning == set()


async def test_priority_orders_the_heads_of_lanes_and_nothing_inside_of_one(sink: Sink) -> None:
    low = await sink.accept_one("a", "c", priority=-10)
    high_behind_it = await sink.accept_one("b", "c", priority=100)
    other = await sink.accept_one("d", "e", priority=10)
    alone = await sink.accept_one("f", priority=50)
    assert [one.turn for one in await sink.claim(10)] == [alone.turn, other.turn, low.turn]
    assert await sink.state(high_behind_it.turn) == "waiting"
