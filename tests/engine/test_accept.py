"""One key is one inbound and one turn, whatever is sent again, and a lane keeps the order of its inputs."""

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from app.domain.errors import InvalidContent
from app.engine import inspect
from app.engine.transaction import Busy
from tests.engine.stories import DELIVERED, Sink, arrival, draft, short

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.domain.model import Arrival
    from tests.conftest import Freeze, Travel
    from tests.database import Admin


async def test_an_accepted_inbound_is_kept_byte_for_byte(sink: Sink) -> None:
    body = b'{"text": "\\u0000 \xc3\xa9"}  \n'
    accepted = await sink.accept_one(
        "a",
        "c",
        body=body,
        headers={"x-request": "1"},
        metadata='{"a": 1}',
        content_type="application/json; charset=utf-8",
    )
    kept = await inspect.find_inbound(sink.pool, accepted.inbound)
    assert kept is not None
    assert (kept.turn, kept.queue, kept.conversation) == (accepted.turn, "default", "c")
    content = kept.content
    assert (content.body, content.content_type) == (body, "application/json; charset=utf-8")
    assert (content.headers, content.metadata) == ({"x-request": "1"}, '{"a": 1}')
    assert content.source == "api"


async def test_a_body_that_is_no_text_is_kept_too(sink: Sink) -> None:
    body = bytes(range(256))
    accepted = await sink.accept_one("a", body=body, strict_json=False)
    kept = await inspect.find_inbound(sink.pool, accepted.inbound)
    assert kept is not None
    assert (kept.content.body, kept.content.strict_json) == (body, False)


async def test_the_same_key_and_body_is_the_same_turn(sink: Sink) -> None:
    first = await sink.accept_one("a")
    again = await sink.accept_one("a")
    assert (again.turn, again.inbound, again.state) == (first.turn, first.inbound, "queued")
    assert (first.duplicate, again.duplicate, again.same_body) == (False, True, True)
    assert again.key_expires_at == first.key_expires_at
    assert len(await sink.claim(5)) == 1


async def test_the_same_key_with_another_body_keeps_the_first(sink: Sink) -> None:
    first = await sink.accept_one("a", body=b"1")
    other = await sink.accept_one("a", body=b"2")
    assert (other.turn, other.duplicate, other.same_body) == (first.turn, True, False)
    kept = await inspect.find_inbound(sink.pool, first.inbound)
    assert kept is not None
    assert kept.content.body == b"1"


async def test_the_same_key_in_another_scope_is_another_turn(sink: Sink) -> None:
    first = await sink.accept_one("a")
    other = await sink.accept_one("a", scope="source/other")
    assert not other.duplicate
    assert other.turn != first.turn


async def test_twins_in_one_list_are_one_turn(sink: Sink) -> None:
    first, other, twin, changed = await sink.accept(
        arrival("a", "c"), arrival("b", "c"), arrival("a", "c"), arrival("a", "c", body=b"2")
    )
    assert (first.duplicate, other.duplicate) == (False, False)
    assert (twin.turn, twin.duplicate, twin.same_body) == (first.turn, True, True)
    assert (changed.turn, changed.duplicate, changed.same_body) == (first.turn, True, False)
    assert (first.state, other.state, twin.state) == ("queued", "waiting", "queued")


async def test_a_repeat_after_the_end_tells_where_the_turn_is(sink: Sink) -> None:
    turn, _ = await sink.sealed("a", draft())
    assert (await sink.accept_one("a")).state == "sealed"
    await sink.settle_next(DELIVERED)
    again = await sink.accept_one("a")
    assert (again.turn, again.state) == (turn, "replied")


async def test_a_key_that_outlived_its_turn_still_answers(sink: Sink, admin: "Admin") -> None:
    accepted = await sink.accept_one("a")
    await admin.execute("update sink.idempotency_key set last_state = 'replied'")
    async with admin.transaction():
        for table in ("turn", "inbound", "event"):
            await admin.execute(f"create table sink.kept_{table} as table sink.{table}")
            await admin.execute(f"delete from sink.{table}")
    again = await sink.accept_one("a")
    assert (again.turn, again.inbound, again.state) == (
        accepted.turn,
        accepted.inbound,
        "replied",
    )
    await admin.execute("delete from sink.idempotency_key")


async def test_a_key_is_remembered_for_its_time(
    sink: Sink, freeze: "Freeze", admin: "Admin"
) -> None:
    await freeze()
    accepted = await sink.accept_one("a")
    now = await admin.fetchval("select sink.now()")
    assert accepted.key_expires_at - now == timedelta(days=30)


async def test_a_list_is_answered_in_its_own_order(sink: Sink) -> None:
    await sink.accept_one("k5")
    answers = await sink.accept(*(arrival(f"k{n}") for n in range(20)))
    assert [answer.duplicate for answer in answers] == [n == 5 for n in range(20)]
    for n, answer in enumerate(answers):
        kept = await inspect.find_inbound(sink.pool, answer.inbound)
        assert kept is not None
        assert kept.content.body == b'"k%d"' % n


async def test_the_first_of_a_conversation_is_queued_and_the_others_wait(sink: Sink) -> None:
    assert [a.state for a in await sink.accept(*(arrival(f"a{n}", "c") for n in range(3)))] == [
        "queued",
        "waiting",
        "waiting",
    ]
    assert (await sink.accept_one("b", "c")).state == "waiting"
    assert (await sink.accept_one("c", "other")).state == "queued"
    assert (await sink.accept_one("d", "c", queue="elsewhere")).state == "queued"
    assert (await sink.accept_one("e")).state == "queued"
    assert (await sink.accept_one("f")).state == "queued"


async def test_a_conversation_runs_in_the_order_of_its_inputs(sink: Sink) -> None:
    accepted = await sink.accept(*(arrival(f"a{n}", "c") for n in range(3)))
    accepted += [await sink.accept_one("b", "c", priority=100)]
    ran = []
    for _ in accepted:
        held = await sink.claim_one()
        assert await sink.claim(5) == []
        ran.append(held.turn)
        await sink.seal_one(held)
    assert ran == [one.turn for one in accepted]


async def test_a_scheduled_turn_takes_no_lane(sink: Sink) -> None:
    scheduled = await sink.accept_one("a", "c", delay_seconds=60)
    now = await sink.accept_one("b", "c")
    assert (scheduled.state, now.state) == ("scheduled", "queued")
    assert [one.turn for one in await sink.claim(5)] == [now.turn]


async def test_not_before_wins_over_a_delay_and_the_past_is_now(sink: Sink, admin: "Admin") -> None:
    now = await admin.fetchval("select sink.now()")
    past = await sink.accept_one("a", not_before=now - timedelta(days=1), delay_seconds=60)
    later = await sink.accept_one("b", not_before=now + timedelta(days=1))
    assert (past.state, later.state) == ("queued", "scheduled")
    assert (await sink.look(later.turn)).due_at == now + timedelta(days=1)


async def test_a_lane_that_was_left_is_free_for_the_next(sink: Sink, travel: "Travel") -> None:
    await sink.seal_one(await sink.hold("a", "c"))
    await travel(3_600)
    assert (await sink.accept_one("b", "c")).state == "queued"


@pytest.mark.parametrize("count", [1, 50])
async def test_an_accept_writes_one_event_a_turn(sink: Sink, admin: "Admin", count: int) -> None:
    await sink.accept(*(arrival(f"k{n}", f"c{n % 7}") for n in range(count)))
    assert await admin.fetchval("select count(*) from sink.event where verb = 'accept'") == count


async def test_the_size_of_its_input_is_kept_with_a_turn(sink: Sink, admin: "Admin") -> None:
    body = b"x" * 12_345
    await sink.accept_one("a", body=body, body_hash=hashlib.sha256(body).digest())
    assert await admin.fetchval("select input_bytes from sink.turn") == len(body)


@pytest.mark.parametrize("build", [arrival, short])
async def test_a_lock_that_is_held_ends_the_patience_of_a_batch_and_of_nobody_after_it(
    sink: Sink, admin: "Admin", build: "Callable[..., Arrival]"
) -> None:
    await sink.accept_one("first", "c")
    async with admin.transaction():
        await admin.execute("select from sink.lane where conversation = 'c' for update")
        with pytest.raises(Busy):
            await sink.accept(build("a", "c"), build("b", "free"), lock_wait_ms=10)
    assert await admin.fetchval("select count(*) from sink.idempotency_key") == 1
    async with sink.pool.acquire(timeout=5.0) as connection:
        assert await connection.fetchval("show lock_timeout") == "5s"
    assert len(await sink.accept(build("a", "c"), build("b", "free"), lock_wait_ms=10)) == 2


async def test_times_are_kept_for_each_of_a_batch(sink: Sink, admin: "Admin") -> None:
    now = await admin.fetchval("select sink.now()")
    accepted = await sink.accept(
        arrival("far", "c", not_before=now + timedelta(days=2)),
        arrival("now", "c", priority=7),
        arrival("soon", "c", delay_seconds=60.0),
        arrival("next", "c"),
    )
    assert [one.state for one in accepted] == ["scheduled", "queued", "scheduled", "waiting"]
    rows = await admin.fetch(
        "select id, lane_seq, priority, due_at - created_at as ahead from sink.turn"
    )
    turns = {row["id"]: row for row in rows}
    told = [turns[one.turn] for one in accepted]
    assert [row["lane_seq"] for row in told] == [None, 1, None, 2]
    assert [row["priority"] for row in told] == [0, 7, 0, 0]
    assert [row["ahead"] for row in told[1:]] == [timedelta(0), timedelta(seconds=60), timedelta(0)]
    assert timedelta(days=1) < told[0]["ahead"] < timedelta(days=2)


async def test_one_that_is_too_far_ahead_is_told_and_its_repeat_is_none_of_it(
    sink: Sink, admin: "Admin"
) -> None:
    now = await admin.fetchval("select sink.now()")
    ahead = now + timedelta(days=2)
    first = await sink.accept_one("a", not_before=ahead)
    again = await sink.accept_one("a", not_before=ahead, delay_seconds_max=86_400.0)
    assert (again.turn, again.duplicate) == (first.turn, True)
    with pytest.raises(InvalidContent, match="out_of_range"):
        await sink.accept(arrival("b", delay_seconds=61.0, delay_seconds_max=60.0), arrival("c"))


async def test_what_is_all_or_nothing_leaves_nothing_where_one_is_refused(
    sink: Sink, admin: "Admin"
) -> None:
    ahead = await admin.fetchval("select sink.now()") + timedelta(days=2)
    far = arrival("b", not_before=ahead, delay_seconds_max=86_400.0)
    with pytest.raises(InvalidContent, match="out_of_range"):
        await sink.accept(arrival("a"), far, lock_wait_ms=100)
    assert await admin.fetchval("select count(*) from sink.idempotency_key") == 0
