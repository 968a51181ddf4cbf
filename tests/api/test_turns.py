import asyncio
import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import app.api.waits as waits_module
from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX, parse_id
from app.domain.model import Settlement, Slots, Verdict
from app.domain.outcome import Answer as Said
from app.engine.settle import settle
from app.engine.sweep import sweep_turns
from app.engine.take import take
from app.engine.wake import EVERYBODY, turn_topic
from tests.api.conftest import Answer, Service

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def settle_one(service: Service, state: str, **verdict: Any) -> None:
    """What the delivery worker does, by hand."""
    core = service.core
    (taken,) = (await take(core.pool, [Slots("loopback", 1, 30.0)])).messages
    verdicts = [Settlement(taken.message, taken.attempt_id, Verdict(state, **verdict))]
    await settle(core.pool, verdicts)
    core.wakes.tell(turn_topic(taken.turn))


async def test_a_turn_shows_how_it_stands(service: Service) -> None:
    turn = await service.claimed(conversation="c")
    shown = await service.get(f"/v1/turns/{turn['id']}")
    assert shown.json == {
        "id": turn["id"],
        "inbound": turn["inbound"][0]["id"],
        "queue": "default",
        "conversation": "c",
        "state": "processing",
        "reason": None,
        "attempt": 1,
        "created_at": shown.json["created_at"],
        "due_at": None,
        "hold": None,
        "wait": None,
        "payload_hash": None,
        "about": None,
        "root": None,
        "depth": 0,
        "messages": [],
        "follow_ups": [],
        "seals": [],
    }


async def test_a_scheduled_turn_shows_when_it_comes(service: Service) -> None:
    accepted = (await service.accept("later", delay_seconds=3600)).json
    shown = (await service.get(f"/v1/turns/{accepted['turn']}")).json
    due, created = (datetime.fromisoformat(shown[name]) for name in ("due_at", "created_at"))
    assert (shown["state"], (due - created).total_seconds()) == ("scheduled", 3600)


async def test_messages_show_what_comes_next_and_who_stops_them(service: Service) -> None:
    turn = await service.claimed(conversation="c")
    message = {"destination": "loopback", "payload": 1}
    sealed = (await service.seal(turn, [message, message])).json
    shown = (await service.get(f"/v1/turns/{turn['id']}")).json
    first, second = shown["messages"]
    assert shown["payload_hash"] == sealed["payload_hash"]
    assert [one["id"] for one in shown["messages"]] == [one["id"] for one in sealed["messages"]]
    assert first["next_attempt_at"].endswith("Z")
    assert (first["blocked_by"], second["blocked_by"]) == (None, first["id"])
    assert second["next_attempt_at"] is None
    assert set(first) == {
        "id", "destination", "state", "attempts", "next_attempt_at", "blocked_by",
        "idempotency_key", "receipt", "reason",
    }  # fmt: skip


async def test_a_message_shows_its_body_and_every_attempt(service: Service) -> None:
    turn = await service.claimed(conversation="c")
    message = {
        "destination": "loopback",
        "to": "ann",
        "payload": {"hello":  1},
        "headers": {"X-Tag": "t"},
    }  # fmt: skip
    (sealed,) = (await service.seal(turn, [message])).json["messages"]
    await settle_one(service, "pending", reason="http_503", answer=Said(503, "busy"))
    await settle_one(service, "delivered", receipt="r-1", answer=Said(200))
    shown = (await service.get(f"/v1/outbox/{sealed['id']}", scope="read")).json
    assert (shown["state"], shown["attempts"], shown["receipt"]) == ("delivered", 2, "r-1")
    assert (shown["turn"], shown["queue"], shown["to"]) == (turn["id"], "default", "ann")
    assert (shown["headers"], shown["payload"]) == ({"X-Tag": "t"}, {"hello": 1})
    first, second = shown["attempt_log"]
    assert (first["attempt"], first["state"], first["reason"]) == (1, "pending", "http_503")
    assert (first["status"], first["answer"]) == (503, "busy")
    assert (second["attempt"], second["state"], second["receipt"]) == (2, "delivered", "r-1")
    assert first["started_at"] <= first["ended_at"] <= second["started_at"]
    assert parse_id(MESSAGE_PREFIX, shown["id"]) is not None


async def test_the_story_of_a_turn_is_told_in_pages(service: Service) -> None:
    turn = await service.claimed()
    await service.seal(turn, [{"destination": "loopback", "payload": 1}])
    path = f"/v1/turns/{turn['id']}/events"
    whole = (await service.get(path)).json
    assert [one["verb"] for one in whole["items"]] == ["accept", "claim", "seal", "seal"]
    assert whole["next_cursor"] is None
    told: list[Any] = []
    cursor = 0
    for _ in range(10):
        page = (await service.get(f"{path}?cursor={cursor}&limit=1")).json
        told += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert told == whole["items"]
    assert turn["lease_token"] not in str(whole)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("cursor=x", "wrong_type"),
        ("cursor=-1", "wrong_type"),
        ("cursor=9223372036854775808", "out_of_range"),
        ("cursor=" + "9" * 5000, "out_of_range"),
        ("limit=0", "out_of_range"),
        ("limit=1001", "out_of_range"),
        ("limit=1&limit=1", "unknown_field"),
        ("limitt=1", "unknown_field"),
        ("%ff=1", "unknown_field"),
    ],
)
async def test_a_query_that_makes_no_sense_is_422(service: Service, query: str, code: str) -> None:
    turn = await service.claimed()
    answer = await service.get(f"/v1/turns/{turn['id']}/events?{query}")
    assert (answer.status, answer.code) == (422, code)


async def wait(service: Service, turn: str, state: str, seconds: float = 10) -> Answer:
    return await service.get(f"/v1/turns/{turn}?wait={state}&timeout_seconds={seconds}")


async def test_a_wait_ends_when_the_state_is_reached(service: Service) -> None:
    turn = await service.claimed()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait(service, turn["id"], "replied"))
        await service.seal(turn, [{"destination": "loopback", "payload": 1}])
        await settle_one(service, "delivered")
        settled = time.monotonic()
    assert waiting.result().json["state"] == "replied"
    assert time.monotonic() - settled < 1.0


async def test_a_wait_for_a_state_that_has_been_ends_at_once(service: Service) -> None:
    turn = await service.claimed()
    started = time.monotonic()
    assert (await wait(service, turn["id"], "queued")).json["state"] == "processing"
    assert time.monotonic() - started < 1.0


async def test_a_wait_ends_when_the_turn_ends_otherwise(service: Service) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "reason": "cannot", "final": True}
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait(service, turn["id"], "replied"))
        await service.post(f"/v1/turns/{turn['id']}/release", body)
    shown = waiting.result().json
    assert (shown["state"], shown["reason"]) == ("failed", "cannot")


async def test_a_wait_ends_at_its_timeout(service: Service) -> None:
    turn = await service.claimed()
    started = time.monotonic()
    answer = await wait(service, turn["id"], "replied", 0.3)
    assert (answer.status, answer.json["state"]) == (200, "processing")
    assert 0.3 <= time.monotonic() - started < 2


async def test_an_inbound_can_be_waited_for_like_its_turn(service: Service) -> None:
    accepted = (await service.accept("k1")).json
    path = f"/v1/inbound/{accepted['id']}?wait=processing"
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.get(path))
        await service.claim()
    assert waiting.result().json["state"] == "processing"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("wait=nope", "state_unknown"),
        ("wait=", "state_unknown"),
        ("timeout_seconds=1", "unknown_field"),
        ("wait=replied&timeout_seconds=nan", "wrong_type"),
        ("wait=replied&timeout_seconds=-1", "wrong_type"),
        ("wait=replied&timeout_seconds=61", "out_of_range"),
        ("wait=replied&wait=replied", "unknown_field"),
    ],
)
async def test_a_wait_that_makes_no_sense_is_422(service: Service, query: str, code: str) -> None:
    turn = await service.claimed()
    answer = await service.get(f"/v1/turns/{turn['id']}?{query}")
    assert (answer.status, answer.code) == (422, code)


async def test_what_happens_to_other_turns_wakes_nobody(service: Service) -> None:
    """Of many turns each has waiters of its own."""
    turns = [await service.claimed(f"k{n}") for n in range(3)]
    names = [turn_topic(parse_id(TURN_PREFIX, turn["id"]) or uuid4()) for turn in turns]
    assert len(set(names)) == len(names)
    wakes = service.core.wakes
    with wakes.waiting(names[0]) as first, wakes.waiting(names[1]) as second:
        wakes.tell(names[0])
        assert (first.is_set(), second.is_set()) == (True, False)


async def test_a_waiter_reads_the_whole_turn_once_at_the_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def counting(name: str) -> None:
        real = getattr(waits_module, name)

        async def count(*given: Any) -> object:
            looks.append(name)
            return await real(*given)

        monkeypatch.setattr(waits_module, name, count)

    counting("find_progress")
    counting("find_turn")
    turn = await service.claimed()
    name = turn_topic(parse_id(TURN_PREFIX, turn["id"]) or uuid4())
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait(service, turn["id"], "replied", 0.6))
        while not waiting.done():
            service.core.wakes.tell(name)
            await asyncio.sleep(0.02)
    assert waiting.result().json["state"] == "processing"
    assert looks.count("find_progress") > 2
    assert looks.count("find_turn") == 1
    assert looks[-1] == "find_turn"


async def test_waiting_holds_no_connection(fresh: Service) -> None:
    turn = await fresh.claimed()
    pool = fresh.core.pool
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(wait(fresh, turn["id"], "replied", 3)) for _ in range(50)]
        topic = fresh.core.wakes._waiting  # noqa: SLF001 - nothing else tells that all of them wait
        name = turn_topic(parse_id(TURN_PREFIX, turn["id"]) or uuid4())
        async with asyncio.timeout(5):
            while len(topic.get(name, ())) < 50 or pool.get_idle_size() != pool.get_size():
                await asyncio.sleep(0.01)
        assert pool.get_idle_size() == pool.get_size()
        assert (await fresh.get("/readyz")).status == 200
        fresh.core.draining.start()
        # Only this process drains: the others wait on.
        told = fresh.core.wakes._untold  # noqa: SLF001 - what the others will be told
        assert EVERYBODY not in told
    assert {one.result().status for one in waiting} == {200}


async def test_renewing_restores_the_lease(service: Service, travel: "Travel") -> None:
    turn = await service.claimed()
    await travel(30)
    answer = await service.post(
        f"/v1/turns/{turn['id']}/renew", {"lease_token": turn["lease_token"]}
    )
    assert answer.json == {"lease_expires_in_seconds": 60.0, "stop": None, "newer_inbound": 0}


async def test_of_what_was_used_the_greatest_total_ever_told_is_kept(
    service: Service, admin: "Admin"
) -> None:
    turn = await service.claimed()
    told: list[dict[str, object]] = [{"calls": 3}, {"calls": 2, "money": "0.50"}, {"money": 0.25}]
    for usage in told:
        body = {"lease_token": turn["lease_token"], "usage": usage}
        assert (await service.post(f"/v1/turns/{turn['id']}/renew", body)).status == 200
    kept = json.loads(await admin.fetchval("select usage from sink.attempt"))
    assert kept == {"calls": 3, "money": 0.5}


async def test_new_names_each_time_do_not_make_a_usage_without_end(
    service: Service, admin: "Admin"
) -> None:
    turn = await service.claimed()
    for n in range(4):
        usage = {f"field_{7 * n + m:02}": 1 for m in range(7)} | {"field_00": n + 1}
        body = {"lease_token": turn["lease_token"], "usage": usage}
        assert (await service.post(f"/v1/turns/{turn['id']}/renew", body)).status == 200
    kept = json.loads(await admin.fetchval("select usage from sink.attempt"))
    # Those that were told first, and what was told of them last.
    assert sorted(kept) == [f"field_{n:02}" for n in range(20)]
    assert kept["field_00"] == 4


@pytest.mark.parametrize(
    "usage",
    [
        "3",
        [3],
        {"calls": -1},
        {"calls": True},
        {"calls": None},
        {"calls": "many"},
        {"calls": 1e300},
        {"": 1},
        {"a\x00b": 1},
        {f"field_{n}": 1 for n in range(21)},
    ],
)
async def test_a_usage_that_is_no_total_is_refused(service: Service, usage: object) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "usage": usage}
    answer = await service.post(f"/v1/turns/{turn['id']}/renew", body)
    assert answer.status == 422
    assert answer.json["errors"][0]["pointer"] == "/usage"


async def test_a_release_is_free_and_can_be_repeated(service: Service) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "reason": "later\nplease"}
    for _ in range(2):
        answer = await service.post(f"/v1/turns/{turn['id']}/release", body)
        assert answer.json == {"turn": turn["id"], "state": "queued"}
    (again,) = (await service.claim()).json["turns"]
    assert again["attempt"] == 2
    assert [(one["attempt"], one["ended"], one["reason"]) for one in again["history"]] == [
        (1, "released", "later\nplease")
    ]


async def test_a_failed_attempt_backs_off_and_a_final_one_ends_the_turn(service: Service) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "reason": "error", "failed": True}
    answer = await service.post(f"/v1/turns/{turn['id']}/release", body)
    assert answer.json["state"] == "queued"
    (again,) = (await service.claim(wait_seconds=5)).json["turns"]
    assert again["history"][0]["ended"] == "failed"
    body = {"lease_token": again["lease_token"], "reason": "for good", "final": True}
    answer = await service.post(f"/v1/turns/{turn['id']}/release", body)
    assert answer.json["state"] == "failed"


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"reason": None}, "/reason", "required"),
        ({"reason": ""}, "/reason", "text_invalid"),
        ({"reason": "\u0000"}, "/reason", "text_invalid"),
        ({"reason": "\udfff"}, "/reason", "text_invalid"),
        ({"reason": "x" * 1001}, "/reason", "text_invalid"),
        ({"delay_seconds": -1}, "/delay_seconds", "out_of_range"),
        ({"failed": 1}, "/failed", "wrong_type"),
        ({"final": "yes"}, "/final", "wrong_type"),
        ({"lease_token": None}, "/lease_token", "required"),
        ({"lease_token": 5}, "/lease_token", "wrong_type"),
    ],
)
async def test_a_release_that_makes_no_sense_is_422(
    service: Service, fields: dict[str, Any], pointer: str, code: str
) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "reason": "r", **fields}
    answer = await service.post(f"/v1/turns/{turn['id']}/release", body)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer


BODIES: dict[str, dict[str, Any]] = {
    "renew": {},
    "release": {"reason": "r"},
    "seal": {"messages": []},
}


@pytest.mark.parametrize("verb", BODIES)
@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "\u0000",
        "\ud800",
        "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
        "{6f9619ff-8b86-4d01-b42d-00cf4fc964ff}",
    ],
)
async def test_a_token_that_never_was_is_409(service: Service, verb: str, token: str) -> None:
    turn = await service.claimed()
    body = {"lease_token": token, **BODIES[verb]}
    answer = await service.post(f"/v1/turns/{turn['id']}/{verb}", body)
    assert (answer.status, answer.code) == (409, "lease_lost")
    assert answer.json["turn_state"] == "processing"


@pytest.mark.parametrize("verb", BODIES)
async def test_a_swept_holder_is_told_so(service: Service, travel: "Travel", verb: str) -> None:
    turn = await service.claimed()
    await travel(120)
    core = service.core
    await sweep_turns(core.pool, policies=core.turn_policies, jitter=core.jitter, turns_max=10)
    body = {"lease_token": turn["lease_token"], **BODIES[verb]}
    answer = await service.post(f"/v1/turns/{turn['id']}/{verb}", body)
    assert (answer.status, answer.code, answer.json["reason"]) == (409, "lease_lost", "swept")
    assert answer.json["turn_state"] == "queued"


@pytest.mark.parametrize("verb", BODIES)
async def test_a_turn_that_does_not_exist_is_404(service: Service, verb: str) -> None:
    body = {"lease_token": str(uuid4()), **BODIES[verb]}
    answer = await service.post(f"/v1/turns/turn_{'0' * 26}/{verb}", body)
    assert (answer.status, answer.code) == (404, "not_found")
