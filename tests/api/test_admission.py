"""Full queues and rates: refused with a time to come again, never what is known, and over all replicas together."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

import asyncpg
import pytest

from app.core import open_core
from app.settings import Queue
from tests.api.conftest import Answer, Service, opened, serving, settings_for
from tests.database import Clock, Server

QUEUES = {
    "default": Queue(),
    "short": Queue(length_max=3),
    "slow": Queue(rate_per_second=0.5, rate_burst=3),
    "both": Queue(length_max=2, rate_per_second=1000),
    "brisk": Queue(rate_per_second=100, rate_burst=20),
}


@pytest.fixture(scope="module")
async def limited(postgres: Server) -> AsyncIterator[tuple[Service, Service]]:
    """Two replicas over one database."""
    async with postgres.database() as url, opened(url, queues=QUEUES) as one:
        settings = settings_for(url, queues=QUEUES)
        async with open_core(settings, application_name="second") as core, serving(core) as two:
            two.keys = one.keys
            yield one, two


async def _statuses(service: Service, queue: str, *keys: str) -> list[int]:
    return [(await service.accept(key, queue=queue)).status for key in keys]


async def _at_once(calls: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


async def test_a_full_queue_refuses_what_is_new_and_answers_what_is_known(
    limited: tuple[Service, Service],
) -> None:
    one, two = limited
    assert await _statuses(one, "short", "a", "b", "c") == [202] * 3
    refused = await one.accept("d", queue="short")
    assert (refused.status, refused.code) == (503, "queue_full")
    assert int(refused.headers["Retry-After"]) >= 1
    again = await one.accept("a", queue="short")
    assert (again.status, again.json["duplicate"]) == (200, True)
    other = await one.accept("a", queue="short", payload={"n": 2})
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    # The other replica counts by itself.
    assert await _statuses(two, "short", "d", "b") == [503, 200]
    # What an agent has begun no longer waits. A queue that seems full is counted again soon.
    assert len((await one.claim(queue="short", max_turns=2)).json["turns"]) == 2
    await asyncio.sleep(0.3)
    assert await _statuses(one, "short", "d", "e", "f") == [202, 202, 503]


async def test_what_is_scheduled_fills_a_queue_and_a_duplicate_does_not(
    limited: tuple[Service, Service],
) -> None:
    one, _ = limited
    assert (await one.accept("s", queue="both", delay_seconds=60)).status == 202
    assert await _statuses(one, "both", "s2", "s2", "s2", "s3") == [202, 200, 200, 503]


async def test_many_at_once_do_not_overfill_a_queue(postgres: Server) -> None:
    queues = {"default": Queue(length_max=10)}
    async with postgres.database() as url, opened(url, queues=queues) as service:
        answers = await _at_once(service.accept(f"k{n}") for n in range(40))
        assert sorted(answer.status for answer in answers) == [202] * 10 + [503] * 30


async def test_a_rate_holds_over_all_replicas_and_tells_when_to_come_again(
    limited: tuple[Service, Service],
) -> None:
    one, two = limited
    statuses = [
        *await _statuses(one, "slow", "a", "b"),
        *await _statuses(two, "slow", "c", "d"),
        *await _statuses(one, "slow", "e"),
    ]
    assert statuses == [202, 202, 202, 429, 429]
    refused = await one.accept("f", queue="slow")
    assert refused.code == "rate_limited"
    assert int(refused.headers["Retry-After"]) in (1, 2)
    assert await _statuses(two, "slow", "a", "c") == [200, 200]


async def test_a_rate_adds_up_again_and_not_over_its_burst(postgres: Server) -> None:
    queues = {"default": Queue(rate_per_second=1, rate_burst=2)}
    async with postgres.database() as url, opened(url, queues=queues) as service:
        assert await _statuses(service, "default", "a", "b", "c") == [202, 202, 429]
        admin = await asyncpg.connect(url)
        await Clock(admin).travel(600)
        # Until then nobody asks: it was told that there is nothing.
        await asyncio.sleep(0.6)
        assert await _statuses(service, "default", "d", "e", "f") == [202, 202, 429]
        await admin.close()


async def test_duplicates_cost_nothing_of_a_rate(postgres: Server) -> None:
    queues = {"default": Queue(rate_per_second=0.01, rate_burst=2)}
    async with postgres.database() as url, opened(url, queues=queues) as service:
        assert await _statuses(service, "default", "a", "a", "a", "b") == [202, 200, 200, 202]


async def test_every_refusal_tells_when_there_is_room_and_not_only_the_first(
    postgres: Server,
) -> None:
    queues = {"default": Queue(rate_per_second=0.01, rate_burst=1)}
    async with postgres.database() as url, opened(url, queues=queues) as service:
        assert await _statuses(service, "default", "a") == [202]
        refused = [await service.accept(key) for key in ("b", "c", "d")]
    assert {answer.status for answer in refused} == {429}
    assert all(90 <= int(answer.headers["Retry-After"]) <= 100 for answer in refused)


async def test_many_at_once_get_a_burst_and_ask_for_it_in_lots(
    limited: tuple[Service, Service],
) -> None:
    one, two = limited
    answers = await _at_once((one, two)[n % 2].accept(f"k{n}", queue="brisk") for n in range(120))
    passed = sum(answer.status == 202 for answer in answers)
    assert {answer.status for answer in answers} == {202, 429}
    # The burst, and what was added while they were answered.
    assert 20 <= passed <= 110


async def test_refusals_are_counted(limited: tuple[Service, Service]) -> None:
    one, _ = limited
    text = (await one.get("/metrics", scope=None)).body.decode()
    assert 'sinksweep_accepts_total{queue="slow",result="rate_limited"}' in text
    assert 'sinksweep_accepts_total{queue="short",result="queue_full"}' in text
