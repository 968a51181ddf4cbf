"""Requests that meet share a transaction: each has its own answer, and what holds up one holds up nobody else."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg

from app.engine.gather import LOCK_WAIT_MS
from tests.api.conftest import Answer, Service
from tests.database import close_database, open_database, wait_for_lock

if TYPE_CHECKING:
    from tests.database import Admin

COMMITS = "select count(distinct xmin::text) from sink.turn"
HOLD_LANE = "select from sink.lane where queue = 'default' and conversation = $1 for update"


async def _at_once(service: Service, *keys: str) -> dict[str, Answer]:
    async with asyncio.TaskGroup() as group:
        tasks = {key: group.create_task(service.accept(key)) for key in keys}
    return {key: task.result() for key, task in tasks.items()}


async def test_accepts_that_meet_share_transactions_and_have_answers_of_their_own(
    service: Service, admin: "Admin"
) -> None:
    keys = [f"k{n}" for n in range(60)]
    answers = await _at_once(service, *keys)
    assert {answer.status for answer in answers.values()} == {202}
    assert len({answer.json["turn"] for answer in answers.values()}) == len(keys)
    assert await admin.fetchval(COMMITS) < len(keys) / 2
    again = await _at_once(service, *keys)
    for key in keys:
        assert (again[key].status, again[key].json["duplicate"]) == (200, True)
        assert again[key].json["turn"] == answers[key].json["turn"]


async def test_one_key_in_one_batch_is_one_inbound(service: Service, admin: "Admin") -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(service.accept("same")) for _ in range(30)]
    answers = [task.result() for task in tasks]
    assert sorted(answer.status for answer in answers) == [200] * 29 + [202]
    assert len({answer.json["turn"] for answer in answers}) == 1
    assert await admin.fetchval("select count(*) from sink.inbound") == 1


async def test_what_only_the_database_can_refuse_is_told_to_that_request_alone(
    service: Service,
) -> None:
    far = (datetime(2200, 1, 1, tzinfo=UTC) + timedelta(days=1)).isoformat()
    async with asyncio.TaskGroup() as group:
        wrong = group.create_task(service.accept("wrong", not_before=far))
        right = [group.create_task(service.accept(f"k{n}")) for n in range(20)]
    assert (wrong.result().status, wrong.result().code) == (422, "out_of_range")
    answers = [task.result() for task in right]
    # None of them is told that it was known: nothing of the batch that failed is left.
    assert [(one.status, one.json["duplicate"]) for one in answers] == [(202, False)] * 20


async def test_a_lane_that_somebody_holds_holds_up_its_own_conversation_alone(
    service: Service, admin: "Admin"
) -> None:
    await service.accept("first", conversation="held")
    transaction = admin.transaction()
    await transaction.start()
    await admin.execute(HOLD_LANE, "held")
    async with asyncio.TaskGroup() as group:
        stuck = group.create_task(service.accept("second", conversation="held"))
        began = time.monotonic()
        answers = await _at_once(service, *(f"k{n}" for n in range(40)))
        took = time.monotonic() - began
        assert {answer.status for answer in answers.values()} == {202}
        assert not stuck.done()
        # A batch waits for a lock for a moment; a call by itself for two seconds and more.
        assert took < 2.0, f"{took:.2f} s; a batch waits {LOCK_WAIT_MS} ms for a lock"
        await wait_for_lock(admin)
        await transaction.rollback()
    assert stuck.result().status == 202


async def test_seals_that_meet_are_each_whole_and_each_answered(
    service: Service, admin: "Admin"
) -> None:
    await _at_once(service, *(f"k{n}" for n in range(20)))
    turns = (await service.claim(max_turns=20)).json["turns"]
    other = {**turns[0], "lease_token": turns[1]["lease_token"]}
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                service.seal(turn, [{"destination": "loopback", "payload": {"turn": turn["id"]}}])
            )
            for turn in turns
        ]
        lost = group.create_task(service.seal(other, []))
    for turn, task in zip(turns, tasks, strict=True):
        assert task.result().status == 200
        assert task.result().json["turn"] == turn["id"]
    assert (lost.result().status, lost.result().code) == (409, "lease_lost")
    commits = "select count(distinct xmin::text) from sink.outbox"
    assert await admin.fetchval(commits) < len(turns)


async def test_a_database_that_goes_away_leaves_nobody_half_answered(fresh: Service) -> None:
    url = fresh.core.settings.database_url
    assert url is not None
    admin = await asyncpg.connect(url.get_secret_value())
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {
                f"k{n}": group.create_task(fresh.accept(f"k{n}", conversation=f"c{n % 5}"))
                for n in range(60)
            }
            await asyncio.sleep(0.02)
            await close_database(admin)
        answers = {key: task.result() for key, task in tasks.items()}
        assert {answer.status for answer in answers.values()} <= {202, 503}
        await open_database(admin)
        rows = await admin.fetch("select key, turn::text from sink.idempotency_key")
        kept = {row["key"] for row in rows}
        assert {key for key, answer in answers.items() if answer.status == 202} <= kept
        for key in answers:
            again = await fresh.accept(key, conversation=f"c{int(key[1:]) % 5}")
            assert again.status == (200 if key in kept else 202)
    finally:
        await admin.close()
