"""Who joins and who claims meet: whatever was acknowledged is in the claim that runs its turn.

First it is shown how an inbound is lost, by statements that do without a part of the rule; then that the verbs do not.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from app.domain.model import Accepted, Claimed
from tests.database import wait_for_lock
from tests.engine.stories import Sink, only, short, still_holds, wish
from tests.engine.suspense import Suspend, Suspended

if TYPE_CHECKING:
    from app.engine.statements import Link
    from tests.conftest import Travel
    from tests.database import Admin

# Finds a turn, leases it and reads its inbound, all as of one snapshot.
NAIVE_CLAIM = """
    with found as materialized (
        select id from sink.turn
        where queue = 'default' and state = 'queued' and due_at <= sink.now()
        order by due_at, id limit 1
        for update skip locked
    ),
    claimed as (
        update sink.turn as t
        set state = 'processing', attempt = attempt + 1, attempts_used = attempts_used + 1,
            token = gen_random_uuid(), lease_seconds = 60, lease_expires_at = sink.now() + interval '60 seconds'
        from found where t.id = found.id
        returning t.id
    )
    select i.body from claimed inner join sink.inbound as i on i.turn = claimed.id order by i.position
"""
# Adds to the turn that it found, whatever has become of that.
NAIVE_JOIN = """
    with joined as (
        update sink.turn set inbound_count = inbound_count + 1, input_bytes = input_bytes + octet_length($1::bytea)
        where id = (select id from sink.turn where conversation = 'c' and state = 'queued' and attempt = 0)
        returning id, queue, inbound_count
    )
    insert into sink.inbound (
        id, turn, position, queue, source, received_at, content_type, headers, body, strict_json
    )
    select gen_random_uuid(), id, inbound_count - 1, queue, 'api', sink.now(), 'text/plain', '{}', $1, false
    from joined
    returning turn
"""
# A clock that goes ahead in one session, and there stands still in the middle of a statement while the lock is held.
STOPPING_CLOCK = """
    create or replace function sink.now() returns timestamptz language plpgsql stable as $$
    begin
        if current_setting('test.stops', true) = 'on' then
            perform pg_advisory_xact_lock_shared(7);
            return statement_timestamp() + interval '20 seconds';
        end if;
        return statement_timestamp();
    end $$
"""


async def _say(sink: Sink, *keys: str) -> list[Accepted]:
    return [only(await sink.accept(short(key))) for key in keys]


def _said(held: Claimed) -> list[bytes]:
    return [one.body or b"" for one in held.inbound]


@asynccontextmanager
async def _stopped(first: Suspended, admin: "Admin", statement: str) -> "AsyncIterator[Link]":
    """The replica's session, whose next statement stops between its snapshot and its first row."""
    connection: Link = getattr(first.sink.pool, "connection")  # noqa: B009
    await admin.execute(STOPPING_CLOCK)
    # What is planned at its first run would take its snapshot only after the stop.
    await connection.execute("set local plan_cache_mode = force_generic_plan")
    if statement:
        await connection.fetch(statement)
    else:
        await first.sink.claim_for(wish(queue="nothing"))
    await connection.execute("set local test.stops = on")
    await admin.execute("select pg_advisory_lock(7)")
    try:
        yield connection
    finally:
        await admin.execute("select pg_advisory_unlock(7)")


async def test_a_claim_that_reads_inbound_as_of_when_it_looked_loses_one(
    sink: Sink, suspend: Suspend, admin: "Admin"
) -> None:
    """The naive way: the joined inbound is acknowledged, committed, in the turn, and not in its claim."""
    async with suspend() as first:
        # Planned, before there is anything to claim.
        async with _stopped(first, admin, NAIVE_CLAIM) as connection:
            await _say(sink, "a")
            claim = first.others.create_task(connection.fetch(NAIVE_CLAIM))
            await wait_for_lock(admin)
            (joined,) = await _say(sink, "b")
        assert [row["body"] for row in await claim] == [b'"a"']
        inbound = await connection.fetch("select turn from sink.inbound")
        assert [row["turn"] for row in inbound] == [joined.turn] * 2
        first.roll_back()


async def test_a_claim_reads_its_inbound_after_it_has_locked_its_turn(
    sink: Sink, suspend: Suspend, admin: "Admin"
) -> None:
    """The same moment, with the verb."""
    async with suspend() as first:
        async with _stopped(first, admin, ""):
            await _say(sink, "a")
            claim = first.others.create_task(first.sink.claim(1))
            await wait_for_lock(admin)
            (joined,) = await _say(sink, "b")
        (held,) = await claim
    assert (held.turn, _said(held)) == (joined.turn, [b'"a"', b'"b"'])


async def test_a_join_that_only_found_its_turn_adds_to_one_that_runs(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    """The naive way: it waits for the claim, and then adds what the claim does not have."""
    await _say(sink, "a")
    await travel(2)
    async with suspend() as first:
        (held,) = await first.sink.claim(1)
        second = await first.blocks(_naive_join(sink, b"lost"))
    assert second.result() == held.turn
    assert _said(held) == [b'"a"']
    assert await sink.state(held.turn) == "processing"


async def _naive_join(sink: Sink, body: bytes) -> object:
    async with sink.pool.acquire() as connection:
        return await connection.fetchval(NAIVE_JOIN, body)


async def test_a_claim_passes_over_a_turn_that_is_being_joined_and_then_has_it_all(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    await _say(sink, "a")
    await travel(20)
    async with suspend() as first:
        await first.sink.accept(short("b"))
        assert await sink.claim(1) == []
    assert _said(await sink.claim_one()) == [b'"a"', b'"b"']


async def test_a_join_behind_a_claim_begins_a_turn_of_its_own(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    """The same moment, with the verb."""
    await _say(sink, "a")
    await travel(2)
    async with suspend() as first:
        (held,) = await first.sink.claim(1)
        second = await first.blocks(sink.accept(short("b")))
    (accepted,) = second.result()
    assert (accepted.turn != held.turn, accepted.state) == (True, "waiting")
    assert _said(held) == [b'"a"']
    assert still_holds(only(await sink.renew(held)))


async def test_a_join_behind_a_claim_that_is_given_up_joins(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    (first_said,) = await _say(sink, "a")
    await travel(2)
    async with suspend() as first:
        await first.sink.claim(1)
        second = await first.blocks(sink.accept(short("b")))
        first.roll_back()
    assert only(second.result()).turn == first_said.turn


async def test_two_who_join_at_once_both_do(sink: Sink, suspend: Suspend, travel: "Travel") -> None:
    (first_said,) = await _say(sink, "a")
    async with suspend() as first:
        mine = only(await first.sink.accept(short("b")))
        second = await first.blocks(sink.accept(short("d")))
    assert mine.turn == only(second.result()).turn == first_said.turn
    await travel(2)
    assert _said(await sink.claim_one()) == [b'"a"', b'"b"', b'"d"']


async def test_two_who_begin_a_conversation_at_once_share_its_turn(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    async with suspend() as first:
        mine = only(await first.sink.accept(short("a")))
        second = await first.blocks(sink.accept(short("b")))
    assert mine.turn == only(second.result()).turn
    await travel(2)
    assert _said(await sink.claim_one()) == [b'"a"', b'"b"']


async def test_a_join_behind_a_rolled_back_first_begins_the_turn(
    sink: Sink, suspend: Suspend
) -> None:
    async with suspend() as first:
        mine = only(await first.sink.accept(short("a")))
        second = await first.blocks(sink.accept(short("b")))
        first.roll_back()
    assert only(second.result()).turn != mine.turn
    assert only(second.result()).state == "queued"


async def test_a_join_behind_a_cancel_begins_a_turn_of_its_own(
    sink: Sink, suspend: Suspend
) -> None:
    (first_said,) = await _say(sink, "a")
    async with suspend() as first:
        await first.sink.cancel(first_said.turn)
        second = await first.blocks(sink.accept(short("b")))
    accepted = only(second.result())
    assert (accepted.turn != first_said.turn, accepted.state) == (True, "queued")


async def test_a_cancel_behind_a_join_cancels_what_was_gathered(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    (first_said,) = await _say(sink, "a")
    async with suspend() as first:
        await first.sink.accept(short("b"))
        second = await first.blocks(sink.cancel(first_said.turn))
    second.result()
    await travel(2)
    assert await sink.claim(5) == []


async def test_a_twin_of_a_joined_inbound_waits_and_finds_the_turn_it_joined(
    sink: Sink, suspend: Suspend
) -> None:
    (first_said,) = await _say(sink, "a")
    async with suspend() as first:
        joined = only(await first.sink.accept(short("b")))
        second = await first.blocks(sink.accept(short("b")))
    twin = only(second.result())
    assert (twin.inbound, twin.turn, twin.duplicate) == (joined.inbound, first_said.turn, True)
