"""Parks over HTTP: what is refused, how long they last, how often there may be one, and what ends them."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.engine.wake_parked import wake_parked
from app.settings import Limits, Queue
from tests.api.conftest import Service, opened
from tests.api.parking import history, park, tell
from tests.database import Server

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_a_park_answers_where_the_turn_is_and_until_when(
    service: Service, admin: "Admin"
) -> None:
    turn = await service.claimed()
    answer = await park(service, turn, seconds=90.5, note="may I?")
    assert answer.status == 200
    assert set(answer.json) == {"turn", "state", "deadline_at"}
    assert (answer.json["turn"], answer.json["state"]) == (turn["id"], "parked")
    asked_at = await admin.fetchval("select asked_at from sink.wait")
    until = datetime.fromisoformat(answer.json["deadline_at"])
    assert until - asked_at == timedelta(seconds=90.5)
    assert (await park(service, turn)).json == answer.json
    seen = (await service.get(f"/v1/turns/{turn['id']}?wait=parked")).json
    assert (seen["state"], seen["attempt"]) == ("parked", 1)


async def test_without_seconds_a_park_lasts_as_long_as_its_queue_says(
    service: Service, admin: "Admin"
) -> None:
    assert (await park(service, await service.claimed())).status == 200
    lasts = await admin.fetchval("select deadline_at - asked_at from sink.wait")
    assert lasts == timedelta(days=1)


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"name": None}, "/name", "required"),
        ({"name": ""}, "/name", "name_invalid"),
        ({"name": "a\u0000"}, "/name", "name_invalid"),
        ({"name": "\ud800"}, "/name", "name_invalid"),
        ({"name": "x" * 256}, "/name", "name_invalid"),
        ({"name": 1}, "/name", "wrong_type"),
        ({"seconds": -1}, "/seconds", "out_of_range"),
        ({"seconds": 31_536_001}, "/seconds", "out_of_range"),
        ({"seconds": "60"}, "/seconds", "wrong_type"),
        ({"seconds": True}, "/seconds", "wrong_type"),
        ({"payload_hash": ""}, "/payload_hash", "name_invalid"),
        ({"payload_hash": 7}, "/payload_hash", "wrong_type"),
        ({"note": "x" * 4001}, "/note", "text_invalid"),
        ({"note": "\u0000"}, "/note", "text_invalid"),
        ({"lease_token": None}, "/lease_token", "required"),
        ({"until": "tomorrow"}, "/until", "unknown_field"),
    ],
)
async def test_a_park_with_something_wrong_changes_nothing(
    service: Service, fields: dict[str, Any], pointer: str, code: str
) -> None:
    turn = await service.claimed()
    answer = await park(service, turn, **fields)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer
    assert (await service.get(f"/v1/turns/{turn['id']}")).json["state"] == "processing"


async def test_a_token_after_its_park_is_released(service: Service) -> None:
    turn = await service.claimed()
    await park(service, turn)
    for answer in (
        await service.seal(turn, []),
        await park(service, turn, name="other"),
        await service.post(f"/v1/turns/{turn['id']}/renew", {"lease_token": turn["lease_token"]}),
    ):
        assert (answer.status, answer.code) == (409, "lease_lost")
        assert (answer.json["reason"], answer.json["turn_state"]) == ("released", "parked")


async def test_what_a_deadline_ended_has_no_payload(service: Service, travel: "Travel") -> None:
    await park(service, await service.claimed(), seconds=5)
    await travel(6)
    assert (await wake_parked(service.core.pool, turns_max=10)).states == {"queued": 1}
    (entry,) = await history(service)
    assert (entry["ended"], entry["reason"]) == ("parked", "deadline")
    assert set(entry["wait"]) == {"name", "by", "at"}
    assert entry["wait"]["by"] is None


async def test_a_parked_turn_is_cancelled_and_tells_nobody_later(service: Service) -> None:
    turn = await service.claimed(conversation="c")
    behind = (await service.accept("k2", conversation="c")).json
    await park(service, turn)
    assert behind["state"] == "waiting"
    answer = await service.call("POST", f"/v1/turns/{turn['id']}/cancel")
    assert (answer.status, answer.json["state"]) == (200, "cancelled")
    assert (await service.get(f"/v1/turns/{behind['turn']}")).json["state"] == "queued"
    assert (await tell(service, turn)).code == "turn_ended"


async def test_a_service_that_starts_anew_finds_who_waits(postgres: Server) -> None:
    """Nothing of a wait is in memory."""
    async with postgres.database() as url:
        async with opened(url) as before:
            turn = await before.claimed()
            await park(before, turn, seconds=3_600)
            keys = before.keys
        async with opened(url) as after:
            after.keys = keys
            assert (await tell(after, turn, payload=1)).json["state"] == "queued"
            (entry,) = await history(after)
            assert entry["wait"]["payload"] == 1


async def test_how_often_a_turn_parks_is_bounded_and_its_lease_survives_that(
    postgres: Server,
) -> None:
    limits = Limits(parks_max=1, park_seconds_max=100)
    queues = {"default": Queue(park_seconds=5_000)}
    async with postgres.database() as url, opened(url, limits=limits, queues=queues) as service:
        turn = await service.claimed()
        await tell(service, turn)
        assert (await park(service, turn)).json["state"] == "queued"
        (turn,) = (await service.claim()).json["turns"]
        answer = await park(service, turn)
        assert (answer.status, answer.code) == (409, "parks_exhausted")
        assert answer.json["parks_max"] == 1
        assert (await service.seal(turn, [])).json["state"] == "replied"
        # No longer than anybody may.
        assert (await park(service, await service.claimed("k2"), seconds=101)).status == 422


async def test_a_queue_that_is_not_configured_here_has_no_time_to_give(postgres: Server) -> None:
    async with postgres.database() as url:
        async with opened(url, queues={"old": Queue(), "default": Queue()}) as before:
            turn = await before.claimed(queue="old")
            keys = before.keys
        async with opened(url, queues={"default": Queue()}) as after:
            after.keys = keys
            answer = await park(after, turn)
            assert (answer.status, answer.code) == (503, "queue_not_configured")
            assert answer.headers["Retry-After"] == "5"
            parked = await park(after, turn, seconds=5)
            assert parked.json["state"] == "parked"
            # What it did the row tells, whatever is configured here.
            assert (await park(after, turn)).json == parked.json
            assert (await park(after, turn, name="other")).code == "lease_lost"


async def test_an_answer_stays_within_its_limit_however_much_was_said(
    service: Service,
) -> None:
    turns = []
    for n in range(6):
        turn = await service.claimed(f"k{n}")
        await park(service, turn)
        turns.append(turn)
    for turn in turns:
        assert (await tell(service, turn, payload="x" * 40_000)).status == 200
    limit = service.core.settings.limits.answer_bytes_max
    seen: list[str] = []
    for _ in range(3):
        answer = await service.claim(max_turns=10)
        assert len(answer.body) <= limit
        seen += [one["id"] for one in answer.json["turns"]]
        assert all(
            len(one["history"][0]["wait"]["payload"]) == 40_000 for one in answer.json["turns"]
        )
    assert sorted(seen) == sorted(turn["id"] for turn in turns)
