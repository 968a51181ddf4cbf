"""What a seal asks for later, over HTTP: where it may go, when, how deep, and what is refused."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.engine.due import due
from app.engine.keys import create_key
from app.settings import Limits, Queue
from tests.api.conftest import Service
from tests.api.test_seals import reconfigured
from tests.database import Clock

ONE = {"destination": "loopback", "payload": {"text": "hi"}}
LATER: dict[str, Any] = {"payload": {"text": "later"}}


@pytest.fixture
async def wide(service: Service) -> AsyncIterator[Service]:
    """Queues that may ask each other."""
    queues = {
        "default": Queue(follow_up_queues=("next", "gone")),
        "next": Queue(),
        "open": Queue(conversations="any"),
    }
    limits = Limits(follow_ups_max=3, depth_max=2, set_bytes_max=2048, delay_seconds_max=3600)
    async with reconfigured(service, queues=queues, limits=limits) as other:
        yield other


async def test_a_follow_up_is_answered_with_its_handle(service: Service) -> None:
    turn = await service.claimed("k1", conversation="c")
    sealed = (await service.seal(turn, [ONE], follow_ups=[LATER, {**LATER, "key": "k"}])).json
    own, named = sealed["follow_ups"]
    assert set(own) == {"turn", "inbound", "state", "queue", "key", "duplicate"}
    assert (own["state"], own["queue"], own["duplicate"]) == ("scheduled", "default", False)
    assert named["key"] == "k"
    child = (await service.get(f"/v1/turns/{own['turn']}")).json
    assert (child["inbound"], child["conversation"]) == (own["inbound"], "c")
    assert (child["root"], child["depth"]) == (turn["id"], 1)
    parent = (await service.get(f"/v1/turns/{turn['id']}")).json
    assert [one["turn"] for one in parent["follow_ups"]] == [own["turn"], named["turn"]]
    payload = await service.get(f"/v1/inbound/{own['inbound']}/payload")
    assert payload.body == b'{"text": "later"}'
    listed = (await service.get(f"/v1/turns?root={turn['id']}")).json["items"]
    assert {one["id"] for one in listed} == {own["turn"], named["turn"]}


async def test_the_same_seal_again_answers_the_same(service: Service) -> None:
    turn = await service.claimed()
    asked = [{**LATER, "delay_seconds": 5}, {**LATER, "not_before": "2020-01-01T00:00:00+01:00"}]
    first = await service.seal(turn, [], follow_ups=asked)
    asked[1]["not_before"] = "2019-12-31T23:00:00Z"
    again = await service.seal(turn, [], follow_ups=asked)
    assert (again.status, again.json) == (200, first.json)
    for other in ([], asked[:1], asked[::-1], [{**LATER, "delay_seconds": 6}, asked[1]]):
        answer = await service.seal(turn, [], follow_ups=other)
        assert (answer.status, answer.code) == (409, "already_sealed")


async def test_the_first_instant_that_can_be_written_is_a_time_like_any_other(
    service: Service,
) -> None:
    # It is what some languages write for "no time", and what a driver may take for minus infinity.
    turn = await service.claimed()
    asked = [{**LATER, "not_before": "0001-01-01T00:00:00Z"}]
    sealed = (await service.seal(turn, [ONE], follow_ups=asked, hold={})).json
    (shown,) = (await service.get(f"/v1/turns/{turn['id']}")).json["follow_ups"]
    assert shown["not_before"].endswith("Z")
    decision = {"decision": "approve", "payload_hash": sealed["payload_hash"], "by": "Ada"}
    answer = await service.post(f"/v1/turns/{turn['id']}/decision", decision, scope="approve")
    assert (answer.status, answer.json["follow_ups"][0]["state"]) == (200, "scheduled")


async def test_no_follow_ups_and_an_empty_list_are_the_same(service: Service) -> None:
    turn = await service.claimed()
    first = await service.seal(turn, [ONE])
    assert (await service.seal(turn, [ONE], follow_ups=[])).json == first.json


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"queue": "nowhere"}, "queue", "queue_unknown"),
        ({"queue": "open"}, "queue", "queue_unknown"),
        ({"queue": "gone"}, "queue", "queue_unknown"),
        ({"queue": 5}, "queue", "wrong_type"),
        ({"queue": "\ud800"}, "queue", "queue_unknown"),
        ({"conversation": "other"}, "conversation", "conversation_not_allowed"),
        ({"conversation": ""}, "conversation", "conversation_invalid"),
        ({"conversation": "\ud800"}, "conversation", "conversation_invalid"),
        ({"payload": None}, "payload", "payload_missing"),
        ({"payload_base64": "eA=="}, "payload", "payload_ambiguous"),
        ({"delay_seconds": -1}, "delay_seconds", "out_of_range"),
        ({"delay_seconds": 3601}, "delay_seconds", "out_of_range"),
        ({"delay_seconds": "5"}, "delay_seconds", "wrong_type"),
        ({"not_before": "2030-01-01T00:00:00"}, "not_before", "time_zone_missing"),
        ({"not_before": "tomorrow"}, "not_before", "time_invalid"),
        ({"not_before": "2999-01-01T00:00:00Z"}, "not_before", "out_of_range"),
        (
            {"not_before": "2020-01-01T00:00:00Z", "delay_seconds": 5},
            "not_before",
            "delay_ambiguous",
        ),
        ({"key": ""}, "key", "idempotency_key_invalid"),
        ({"key": "a b"}, "key", "idempotency_key_invalid"),
        ({"key": "x" * 256}, "key", "idempotency_key_invalid"),
        ({"key": "\ud800"}, "key", "idempotency_key_invalid"),
        ({"key": 5}, "key", "wrong_type"),
        ({"dealy_seconds": 5}, "dealy_seconds", "unknown_field"),
    ],
)
async def test_what_cannot_follow_seals_nothing(
    wide: Service, changes: dict[str, Any], field: str, code: str
) -> None:
    turn = await wide.claimed("k1", conversation="c")
    answer = await wide.seal(turn, [ONE], follow_ups=[LATER, {**LATER, **changes}])
    assert answer.status == 422
    errors = [(one["pointer"], one["code"]) for one in answer.json["errors"]]
    assert (f"/follow_ups/1/{field}", code) in errors
    assert (await wide.seal(turn, [ONE], follow_ups=[LATER])).status == 200


@pytest.mark.parametrize(
    ("follow_ups", "code"),
    [
        ({}, "wrong_type"),
        ("x", "wrong_type"),
        ([5], "wrong_type"),
        ([LATER] * 4, "too_many"),
        ([{"payload": "x" * 1000}] * 3, "set_too_large"),
    ],
)
async def test_a_list_that_cannot_follow_seals_nothing(
    wide: Service, follow_ups: object, code: str
) -> None:
    turn = await wide.claimed()
    answer = await wide.seal(turn, [], follow_ups=follow_ups)
    assert (answer.status, answer.code) == (422, code)


async def test_another_queue_is_asked_where_that_is_allowed(wide: Service) -> None:
    turn = await wide.claimed("k1", conversation="c")
    asked = {**LATER, "queue": "next"}
    sealed = (await wide.seal(turn, [], follow_ups=[asked])).json
    child = (await wide.get(f"/v1/turns/{sealed['follow_ups'][0]['turn']}")).json
    assert (child["queue"], child["conversation"]) == ("next", "c")


async def test_a_key_that_does_not_see_a_queue_is_told_that_there_is_none(wide: Service) -> None:
    key = await create_key(wide.core.pool, name="bound", scopes=["agent"], queues=["default"])
    turn = await wide.claimed()
    body = {
        "lease_token": turn["lease_token"],
        "messages": [],
        "follow_ups": [{**LATER, "queue": "next"}],
    }
    answer = await wide.post(f"/v1/turns/{turn['id']}/seal", body, scope=key)
    assert (answer.status, answer.code) == (422, "queue_unknown")


async def test_another_conversation_is_asked_where_that_is_allowed(wide: Service) -> None:
    turn = await wide.claimed("k1", queue="open", conversation="c")
    sealed = (await wide.seal(turn, [], follow_ups=[{**LATER, "conversation": "d"}])).json
    child = (await wide.get(f"/v1/turns/{sealed['follow_ups'][0]['turn']}")).json
    assert child["conversation"] == "d"


async def test_a_chain_ends_at_its_depth_and_is_still_told_what_it_had(wide: Service) -> None:
    turn = await wide.claimed()
    for _ in range(2):
        answer = await wide.seal(turn, [], follow_ups=[LATER])
        assert answer.status == 200
        await due(wide.core.pool, turns_max=10)
        (turn,) = (await wide.claim()).json["turns"]
    answer = await wide.seal(turn, [ONE], follow_ups=[LATER])
    assert (answer.status, answer.code) == (422, "depth_exceeded")
    assert answer.json["errors"][0]["pointer"] == "/follow_ups"
    assert (await wide.seal(turn, [ONE])).status == 200


async def test_a_follow_up_that_was_sealed_is_answered_whatever_is_allowed_by_now(
    wide: Service, service: Service
) -> None:
    turn = await wide.claimed()
    asked = [{**LATER, "queue": "next"}]
    first = await wide.seal(turn, [], follow_ups=asked)
    async with reconfigured(service, queues={"default": Queue()}) as other:
        again = await other.seal(turn, [], follow_ups=asked)
        assert (again.status, again.json) == (200, first.json)


async def test_a_time_is_too_far_ahead_by_the_clock_of_the_database(
    wide: Service, admin: Any
) -> None:
    turn = await wide.claimed("k1")
    clock = Clock(admin)
    soon = {**LATER, "not_before": "2100-01-01T00:30:00Z"}
    assert (await wide.seal(turn, [], follow_ups=[soon])).code == "out_of_range"
    now = await admin.fetchval("select extract(epoch from timestamptz '2100-01-01' - now())::float")
    await clock.travel(float(now))
    (turn,) = (await wide.claim(request_id="x" * 16)).json["turns"] or [turn]
    assert (await wide.seal(turn, [], follow_ups=[soon])).status == 200
    await clock.travel(-float(now))
