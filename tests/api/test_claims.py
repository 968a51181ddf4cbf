"""A claim gives turns under leases, each to one, and says the same again to a request that is repeated."""

import asyncio
import time
from typing import Any

import pytest

from app.api.desk import ClaimDesk
from app.domain.model import ClaimRequest
from tests.api.conftest import Here, Service


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


async def test_many_claims_at_once_share_what_there_is(service: Service) -> None:
    for n in range(20):
        await service.accept(f"k{n}")
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(service.claim(max_turns=3)) for _ in range(15)]
    ids = [turn["id"] for one in claims for turn in one.result().json["turns"]]
    assert len(ids) == len(set(ids)) == 20


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
