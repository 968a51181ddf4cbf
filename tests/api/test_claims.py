import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from app.api import desk as desk_module
from app.api.desk import ClaimDesk
from app.domain.model import Claimed, ClaimRequest
from app.engine.accept import accept
from app.engine.claim import claim as real_claim
from app.engine.marks import Marks
from app.engine.wake import queue_topic
from tests.api.conftest import Answer, Here, Service
from tests.engine.stories import KEY_SECONDS, arrival, wish

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

Wanted = Callable[[int], bool]


async def test_a_claim_gives_the_turn_its_token_and_its_inbound(service: Service) -> None:
    accepted = (await service.accept("k1", conversation="c", metadata={"a": 1})).json
    answer = await service.claim(lease_seconds=7, code_version="v1")
    (turn,) = answer.json["turns"]
    assert set(turn) == {
        "id", "lease_token", "attempt", "lease_expires_in_seconds", "conversation", "inbound",
        "steps", "history",
    }  # fmt: skip
    assert (turn["id"], turn["attempt"], turn["conversation"]) == (accepted["turn"], 1, "c")
    assert turn["lease_expires_in_seconds"] == pytest.approx(7)
    assert (turn["steps"], turn["history"]) == ([], [])
    (inbound,) = turn["inbound"]
    assert set(inbound) == {
        "id", "source", "received_at", "content_type", "headers", "metadata", "view", "payload",
    }  # fmt: skip
    assert (inbound["id"], inbound["payload"], inbound["metadata"]) == (
        accepted["id"],
        {"n": 1},
        {"a": 1},
    )


async def test_nothing_to_do_is_an_empty_list_at_once(service: Service) -> None:
    started = time.monotonic()
    answer = await service.claim()
    assert (answer.status, answer.json) == (200, {"turns": []})
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"queue": None}, "/queue", "required"),
        ({"queue": "nope"}, "/queue", "queue_unknown"),
        ({"queue": ["default"]}, "/queue", "wrong_type"),
        ({"agent": None}, "/agent", "required"),
        ({"agent": ""}, "/agent", "name_invalid"),
        ({"agent": "a\u0000"}, "/agent", "name_invalid"),
        ({"agent": "\ud800"}, "/agent", "name_invalid"),
        ({"max_turns": 0}, "/max_turns", "out_of_range"),
        ({"max_turns": 51}, "/max_turns", "out_of_range"),
        ({"max_turns": True}, "/max_turns", "wrong_type"),
        ({"lease_seconds": 0}, "/lease_seconds", "out_of_range"),
        ({"lease_seconds": 3601}, "/lease_seconds", "out_of_range"),
        ({"lease_seconds": 1.5}, "/lease_seconds", "wrong_type"),
        ({"wait_seconds": 31}, "/wait_seconds", "out_of_range"),
        ({"wait_seconds": -1}, "/wait_seconds", "out_of_range"),
        ({"request_id": "short"}, "/request_id", "request_id_invalid"),
        ({"request_id": "ä" * 15}, "/request_id", "request_id_invalid"),
        ({"request_id": "x" * 256}, "/request_id", "request_id_invalid"),
        ({"code_version": "\n"}, "/code_version", "name_invalid"),
        ({"turns_max": 1}, "/turns_max", "unknown_field"),
    ],
)
async def test_a_claim_that_makes_no_sense_is_422(
    service: Service, fields: dict[str, Any], pointer: str, code: str
) -> None:
    answer = await service.claim(**fields)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer


async def test_an_accept_wakes_a_waiting_claim(service: Service) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.claim(wait_seconds=20))
        await seated(service, "default")
        await service.accept("k1")
        accepted = time.monotonic()
    assert len(waiting.result().json["turns"]) == 1
    assert time.monotonic() - accepted < 0.5


async def seated(service: Service, queue: str) -> None:
    """Return once somebody serves the line of a queue."""
    waiting = service.core.wakes._waiting  # noqa: SLF001 - nothing else tells that somebody waits
    async with asyncio.timeout(5):
        while not waiting.get(f"queue/{queue}"):
            await asyncio.sleep(0.005)


async def test_a_wait_ends_with_nothing_at_its_time(service: Service) -> None:
    started = time.monotonic()
    answer = await service.claim(wait_seconds=0.4)
    assert answer.json == {"turns": []}
    assert 0.4 <= time.monotonic() - started < 2


async def test_waiting_claims_get_one_turn_each_in_any_number(service: Service) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(service.claim(wait_seconds=20)) for _ in range(30)]
        await seated(service, "default")
        for n in range(30):
            await service.accept(f"k{n}")
    ids = [turn["id"] for one in waiting for turn in one.result().json["turns"]]
    assert len(ids) == len(set(ids)) == 30


async def test_many_claims_at_once_share_what_there_is(service: Service) -> None:
    for n in range(20):
        await service.accept(f"k{n}")
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(service.claim(max_turns=3)) for _ in range(15)]
    ids = [turn["id"] for one in claims for turn in one.result().json["turns"]]
    assert len(ids) == len(set(ids)) == 20


async def test_what_comes_at_once_is_claimed_at_once_for_all_who_wait(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    async def counting(
        pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        answers = await real_claim(pool, requests, still_wanted=still_wanted, marks=marks)
        given.append(sum(len(answer or ()) for answer in answers))
        return answers

    monkeypatch.setattr(desk_module, "claim", counting)
    core = service.core
    desk = ClaimDesk(core)
    async with asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(desk.claim(desk.seat(wish(2), Here(), wait_seconds=20.0)))
            for _ in range(32)
        ]
        await seated(service, "default")
        arrivals = [arrival(f"k{n}") for n in range(64)]
        await accept(core.pool, arrivals, ids=core.ids, key_seconds=KEY_SECONDS)
        core.wakes.tell(queue_topic("default"))
    assert sum(len(one.result()) for one in waiting) == 64
    # Two where a poll was on its way.
    assert len([count for count in given if count]) <= 2


async def test_idle_waiters_cost_about_one_query_a_second_and_no_connection(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = busiest = 0
    pool = service.core.pool

    async def counting(
        pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        nonlocal asked
        asked += len(requests)
        return await real_claim(pool, requests, still_wanted=still_wanted, marks=marks)

    monkeypatch.setattr(desk_module, "claim", counting)
    async with asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(
                service.claim(wait_seconds=4, agent=f"a{n}", request_id=f"request-of-agent-{n}")
                if n % 2
                else service.claim(wait_seconds=4, agent=f"a{n}")
            )
            for n in range(100)
        ]
        await seated(service, "default")
        # Every request that may be a repeat is looked up once; then the line is idle.
        idle = asked
        async with asyncio.timeout(5):
            while True:
                await asyncio.sleep(0.5)
                if asked - idle <= 1:
                    break
                idle = asked
        before = asked
        for _ in range(200):
            busiest = max(busiest, pool.get_size() - pool.get_idle_size())
            await asyncio.sleep(0.01)
        queries = asked - before
    assert {json.dumps(one.result().json) for one in waiting} == {'{"turns": []}'}
    assert 1 <= queries <= 4
    assert busiest <= 1


async def test_a_request_id_repeats_the_answer(service: Service) -> None:
    for n in range(3):
        await service.accept(f"k{n}")
    wish: dict[str, Any] = {"request_id": "0123456789abcdef", "max_turns": 2}
    first = await service.claim(**wish)
    again = await service.claim(**wish)
    ids = [(turn["id"], turn["lease_token"]) for turn in first.json["turns"]]
    assert len(ids) == 2
    assert [(turn["id"], turn["lease_token"]) for turn in again.json["turns"]] == ids
    other = await service.claim(**{**wish, "max_turns": 1})
    assert (other.status, other.code) == (422, "request_id_reused")
    assert len((await service.claim(**wish, agent="agent-2")).json["turns"]) == 1


async def test_concurrent_requests_with_one_id_get_one_answer(service: Service) -> None:
    for n in range(20):
        await service.accept(f"k{n}")
    async with asyncio.TaskGroup() as group:
        twins = [group.create_task(service.claim(request_id="0123456789abcdef")) for _ in range(10)]
    assert {one.result().status for one in twins} == {200}
    assert len({one.result().json["turns"][0]["lease_token"] for one in twins}) == 1


async def test_twins_that_wait_together_get_one_answer(service: Service) -> None:
    desk = ClaimDesk(service.core)
    wish = ClaimRequest(
        queue="default",
        agent="a",
        turns_max=1,
        lease_seconds=60,
        answer_bytes_max=1 << 20,
        principal="p",
        request_id="0123456789abcdef",
        parameters="same",
    )
    for n in range(20):
        await service.accept(f"k{n}")
    async with asyncio.TaskGroup() as group:
        twins = [
            group.create_task(desk.claim(desk.seat(wish, Here(), wait_seconds=5)))
            for _ in range(10)
        ]
    assert len({one.token for twin in twins for one in twin.result()}) == 1
    assert {len(twin.result()) for twin in twins} == {1}


async def test_a_wrong_repeat_takes_nobody_with_it(service: Service) -> None:
    for n in range(9):
        await service.accept(f"k{n}")
    await service.claim(request_id="0123456789abcdef")
    async with asyncio.TaskGroup() as group:
        right = [group.create_task(service.claim(agent=f"a{n}")) for n in range(8)]
        wrong = group.create_task(service.claim(request_id="0123456789abcdef", max_turns=2))
    assert (wrong.result().status, wrong.result().code) == (422, "request_id_reused")
    assert [len(one.result().json["turns"]) for one in right] == [1] * 8


async def test_an_answer_has_a_size_and_at_least_one_turn(service: Service) -> None:
    big = "x" * 60_000
    for n in range(4):
        await service.accept(f"k{n}", payload=big)
    counts = [len((await service.claim(max_turns=4)).json["turns"]) for _ in range(3)]
    assert counts == [2, 2, 0]


class Client:
    """A client that can leave at any moment."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def claim(self, **fields: Any) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._service.port)
        body = json.dumps({"queue": "default", "agent": "leaver", **fields}).encode()
        head = (
            "POST /v1/turns/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self._service.keys['agent']}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)

    async def leave(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@pytest.mark.parametrize("heard", [False, True])
async def test_who_leaves_while_waiting_is_given_nothing(
    service: Service, admin: "Admin", monkeypatch: pytest.MonkeyPatch, *, heard: bool
) -> None:
    """And is soon forgotten, also where the queue would be looked at much later."""
    wakes = type(service.core.wakes)
    monkeypatch.setattr(wakes, "listening", property(lambda _wakes: heard))
    client = Client(service)
    await client.claim(wait_seconds=30)
    await seated(service, "default")
    await client.leave()
    waiting = service.core.wakes._waiting  # noqa: SLF001 - nothing else tells that nobody waits
    async with asyncio.timeout(5):
        while waiting.get("queue/default"):
            await asyncio.sleep(0.01)
    await service.accept("k1")
    assert await admin.fetchval("select count(*) from sink.attempt") == 0
    (turn,) = (await service.claim()).json["turns"]
    assert turn["attempt"] == 1


async def test_a_claim_commits_only_for_who_is_still_there(
    service: Service, admin: "Admin", monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(service)
    left = asyncio.Event()

    async def leaving(
        pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        def wanted(position: int) -> bool:
            # Asked before the transaction and just before its commit: gone by the second time.
            answer = still_wanted(position) and not asked
            asked.append(position)
            return answer or len(asked) == 1

        asked: list[int] = []
        found = await real_claim(pool, requests, still_wanted=wanted, marks=marks)
        left.set()
        return found

    monkeypatch.setattr(desk_module, "claim", leaving)
    await service.accept("k1")
    await client.claim()
    async with asyncio.timeout(5):
        await left.wait()
    assert await admin.fetchval("select state from sink.turn") == "queued"
    assert await admin.fetchval("select count(*) from sink.attempt") == 0
    await client.leave()


async def test_a_claim_whose_answer_nobody_reads_is_given_back_free(
    service: Service, admin: "Admin", monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(service)

    async def leaving(
        pool: "Pool", requests: Sequence[ClaimRequest], *, still_wanted: Wanted, marks: Marks
    ) -> list[list[Claimed] | None]:
        found = await real_claim(pool, requests, still_wanted=still_wanted, marks=marks)
        await client.leave()
        async with asyncio.timeout(5):
            while still_wanted(0):
                await asyncio.sleep(0.005)
        return found

    monkeypatch.setattr(desk_module, "claim", leaving)
    await service.accept("k1")
    await client.claim(request_id="request-of-16-or-more")
    async with asyncio.timeout(5):
        while not await admin.fetchval("select ended from sink.attempt"):
            await asyncio.sleep(0.01)
        while await admin.fetchval("select count(*) from sink.claim_request"):
            await asyncio.sleep(0.01)
    row = await admin.fetchrow("select state, attempts_used, releases from sink.turn")
    assert row is not None
    # Nobody ever heard of it: not even a release.
    assert tuple(row) == ("queued", 0, 0)
    monkeypatch.undo()
    # Who asks again for what never came gets it.
    again = await service.claim(scope="agent", agent="leaver", request_id="request-of-16-or-more")
    (turn,) = again.json["turns"]
    assert [(one["ended"], one["reason"]) for one in turn["history"]] == [
        ("released", "client_gone")
    ]


async def test_a_client_that_closes_after_its_answer_keeps_its_turn(
    service: Service, admin: "Admin"
) -> None:
    for n in range(20):
        await service.accept(f"k{n}", payload="x" * (n * 3000))
    for _ in range(20):
        client = Client(service)
        await client.claim()
        head = await client.reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        await client.reader.readexactly(length)
        await client.leave()
    await service.get("/livez")
    assert await admin.fetchval("select count(*) from sink.turn where state = 'processing'") == 20


async def test_a_drain_ends_waits_and_claims_nothing(fresh: Service) -> None:
    async def waiting_turn() -> Answer:
        return await fresh.get(f"/v1/turns/{accepted['turn']}?wait=replied&timeout_seconds=60")

    accepted = (await fresh.accept("k1", delay_seconds=1000)).json
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(fresh.claim(wait_seconds=30)) for _ in range(5)]
        turn = group.create_task(waiting_turn())
        await seated(fresh, "default")
        started = time.monotonic()
        fresh.core.draining.start()
    assert time.monotonic() - started < 1.5
    assert {json.dumps(one.result().json) for one in claims} == {'{"turns": []}'}
    assert turn.result().json["state"] == "scheduled"
    assert (await fresh.accept("k2")).status == 202
    assert (await fresh.claim(wait_seconds=5)).json == {"turns": []}
    assert (await fresh.get("/readyz")).status == 503
