"""The operator's calls: repeatable, refused with a stable code where there is nothing to do, and told to who waits."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.ids import MESSAGE_PREFIX, TURN_PREFIX, parse_id
from app.domain.model import Settlement, Slots, Verdict
from app.domain.outcome import Answer as Said
from app.engine.keys import create_key
from app.engine.resend import ResendSettlement, settle_resends, take_resends
from app.engine.settle import settle
from app.engine.take import take
from app.engine.wake import queue_topic, turn_topic
from tests.api.conftest import Answer, Service

if TYPE_CHECKING:
    from tests.database import Admin

MESSAGE = {"destination": "loopback", "payload": 1}
NOBODYS_TURN = f"/v1/turns/{TURN_PREFIX}{'0' * 26}"
NOBODYS_MESSAGE = f"/v1/outbox/{MESSAGE_PREFIX}{'0' * 26}"


async def _sealed(service: Service, count: int = 1) -> tuple[str, list[str]]:
    turn = await service.claimed(conversation="c")
    sealed = (await service.seal(turn, [MESSAGE] * count)).json
    return turn["id"], [one["id"] for one in sealed["messages"]]


async def _settle(service: Service, state: str, **verdict: Any) -> None:
    """What the delivery worker does, by hand."""
    (taken,) = (await take(service.core.pool, [Slots("loopback", 1, 30.0)])).messages
    done = Settlement(taken.message, taken.attempt_id, Verdict(state, **verdict))
    await settle(service.core.pool, [done])


async def _unknown(service: Service, count: int = 1) -> tuple[str, list[str]]:
    turn, messages = await _sealed(service, count)
    await _settle(service, "unknown", reason="timeout", may_have_arrived=True)
    return turn, messages


async def _failed(service: Service) -> str:
    turn = await service.claimed(conversation="c")
    body = {"lease_token": turn["lease_token"], "reason": "no", "final": True}
    assert (await service.post(f"/v1/turns/{turn['id']}/release", body)).json["state"] == "failed"
    return str(turn["id"])


async def _ask(service: Service, path: str, verb: str) -> Answer:
    return await service.call("POST", f"{path}/{verb}")


async def _somebody_waits(service: Service, topic: str) -> None:
    waiting = service.core.wakes._waiting  # noqa: SLF001 - nothing else tells that somebody waits
    async with asyncio.timeout(10):
        while not waiting.get(topic):
            await asyncio.sleep(0.005)


async def test_a_turn_is_cancelled_and_its_holder_is_told(service: Service) -> None:
    turn = await service.claimed()
    path = f"/v1/turns/{turn['id']}"
    for _ in range(2):
        answer = await _ask(service, path, "cancel")
        assert (answer.status, answer.json) == (200, {"turn": turn["id"], "state": "cancelled"})
    renewed = await service.post(f"{path}/renew", {"lease_token": turn["lease_token"]})
    assert (renewed.status, renewed.code) == (409, "lease_lost")
    assert (renewed.json["reason"], renewed.json["turn_state"]) == ("cancelled", "cancelled")
    shown = (await service.get(path)).json
    assert (shown["state"], shown["reason"]) == ("cancelled", "cancelled")


async def test_the_story_names_the_key_that_did_it(service: Service) -> None:
    accepted = (await service.accept("k1")).json
    await _ask(service, f"/v1/turns/{accepted['turn']}", "cancel")
    events = (await service.get(f"/v1/turns/{accepted['turn']}/events")).json["items"]
    assert events[-1]["verb"] == "cancel"
    assert events[-1]["detail"]["by"] in service.keys["admin"]


async def test_a_sealed_turn_has_its_messages_cancelled(service: Service) -> None:
    turn, messages = await _sealed(service, 2)
    answer = await _ask(service, f"/v1/turns/{turn}", "cancel")
    assert answer.json == {"turn": turn, "state": "undelivered"}
    shown = (await service.get(f"/v1/turns/{turn}")).json["messages"]
    assert [one["state"] for one in shown] == ["cancelled"] * 2
    again = await _ask(service, f"/v1/outbox/{messages[0]}", "cancel")
    assert (again.status, again.json) == (200, {"id": messages[0], "state": "cancelled"})


async def test_what_has_arrived_is_not_cancellable(service: Service) -> None:
    turn, (message,) = await _sealed(service)
    await _settle(service, "delivered")
    answer = await _ask(service, f"/v1/turns/{turn}", "cancel")
    assert (answer.status, answer.code) == (409, "not_cancellable")
    assert answer.json["turn_state"] == "replied"
    answer = await _ask(service, f"/v1/outbox/{message}", "cancel")
    assert (answer.status, answer.code) == (409, "not_cancellable")
    assert answer.json["message_state"] == "delivered"


async def test_a_message_that_is_being_sent_stays_so_and_gets_no_next_attempt(
    service: Service,
) -> None:
    turn, (message,) = await _sealed(service)
    (taken,) = (await take(service.core.pool, [Slots("loopback", 1, 30.0)])).messages
    for _ in range(2):
        answer = await _ask(service, f"/v1/outbox/{message}", "cancel")
        assert (answer.status, answer.json) == (200, {"id": message, "state": "sending"})
    later = Settlement(taken.message, taken.attempt_id, Verdict("pending", reason="busy"))
    await settle(service.core.pool, [later])
    assert (await service.get(f"/v1/turns/{turn}")).json["messages"][0]["state"] == "cancelled"


async def test_a_failed_turn_is_redriven_once_however_often_it_is_asked(service: Service) -> None:
    turn = await _failed(service)
    for _ in range(2):
        answer = await _ask(service, f"/v1/turns/{turn}", "redrive")
        assert (answer.status, answer.json) == (200, {"turn": turn, "state": "queued"})
    (claimed,) = (await service.claim()).json["turns"]
    assert (claimed["id"], claimed["attempt"]) == (turn, 2)
    answer = await _ask(service, f"/v1/turns/{turn}", "redrive")
    assert (answer.status, answer.json["state"]) == (200, "processing")


async def test_what_never_failed_is_not_redrivable(service: Service) -> None:
    accepted = (await service.accept("k1")).json
    answer = await _ask(service, f"/v1/turns/{accepted['turn']}", "redrive")
    assert (answer.status, answer.code, answer.json["turn_state"]) == (
        409,
        "not_redrivable",
        "queued",
    )
    await _ask(service, f"/v1/turns/{accepted['turn']}", "cancel")
    answer = await _ask(service, f"/v1/turns/{accepted['turn']}", "redrive")
    assert (answer.status, answer.json["turn_state"]) == (409, "cancelled")


async def test_an_undelivered_turn_with_nothing_left_to_send_is_not_redrivable(
    service: Service,
) -> None:
    turn, (message,) = await _unknown(service)
    await _ask(service, f"/v1/turns/{turn}", "redrive")
    await _settle(service, "unknown", reason="timeout", may_have_arrived=True)
    await _ask(service, f"/v1/outbox/{message}", "cancel")
    answer = await _ask(service, f"/v1/turns/{turn}", "redrive")
    assert (answer.status, answer.code) == (409, "not_redrivable")
    assert answer.json["turn_state"] == "undelivered"
    answer = await _ask(service, f"/v1/outbox/{message}", "redrive")
    assert (answer.status, answer.json["message_state"]) == (409, "cancelled")


async def test_an_undelivered_turn_is_sent_again(service: Service) -> None:
    turn, _ = await _unknown(service)
    answer = await _ask(service, f"/v1/turns/{turn}", "redrive")
    assert (answer.status, answer.json) == (200, {"turn": turn, "state": "sealed"})
    await _settle(service, "delivered")
    answer = await _ask(service, f"/v1/turns/{turn}", "redrive")
    assert (answer.status, answer.json["state"]) == (200, "replied")


async def test_one_message_is_sent_again(service: Service) -> None:
    turn, (message,) = await _sealed(service)
    early = await _ask(service, f"/v1/outbox/{message}", "redrive")
    assert (early.status, early.code) == (409, "not_redrivable")
    assert early.json["message_state"] == "pending"
    await _settle(service, "dead", reason="http_400")
    for _ in range(2):
        answer = await _ask(service, f"/v1/outbox/{message}", "redrive")
        assert (answer.status, answer.json) == (200, {"id": message, "state": "pending"})
    await _settle(service, "delivered")
    assert (await service.get(f"/v1/turns/{turn}")).json["state"] == "replied"


@pytest.mark.parametrize(
    ("said", "other", "turn_state"),
    [("delivered", "cancelled", "replied"), ("cancelled", "delivered", "undelivered")],
)
async def test_an_unknown_message_is_resolved_by_the_first_who_looked(
    service: Service, said: str, other: str, turn_state: str
) -> None:
    turn, (message,) = await _unknown(service)
    for _ in range(2):
        answer = await service.post(f"/v1/outbox/{message}/resolve", {"state": said})
        assert (answer.status, answer.json) == (200, {"id": message, "state": said})
    answer = await service.post(f"/v1/outbox/{message}/resolve", {"state": other})
    assert (answer.status, answer.code) == (409, "not_resolvable")
    assert answer.json["message_state"] == said
    assert (await service.get(f"/v1/turns/{turn}")).json["state"] == turn_state


async def test_what_is_not_unknown_is_not_resolvable(service: Service) -> None:
    _, (message,) = await _sealed(service)
    answer = await service.post(f"/v1/outbox/{message}/resolve", {"state": "cancelled"})
    assert (answer.status, answer.code) == (409, "not_resolvable")


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        (b"", "json_invalid", ""),
        (b"{}", "required", "/state"),
        (b'{"state": "dead"}', "state_unknown", "/state"),
        (b'{"state": 1}', "wrong_type", "/state"),
        (b'{"state": "delivered", "by": "me"}', "unknown_field", "/by"),
    ],
)
async def test_a_resolve_says_what_was_found(
    service: Service, body: bytes, code: str, pointer: str
) -> None:
    _, (message,) = await _unknown(service)
    answer = await service.call("POST", f"/v1/outbox/{message}/resolve", body=body)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer
    assert (await service.get(f"/v1/outbox/{message}")).json["state"] == "unknown"


async def test_a_delivered_message_is_sent_once_more_and_stays_delivered(
    service: Service,
) -> None:
    turn, (message,) = await _sealed(service)
    early = await _ask(service, f"/v1/outbox/{message}", "resend")
    assert (early.status, early.code) == (409, "not_resendable")
    assert early.json["message_state"] == "pending"
    await _settle(service, "delivered", receipt="r-1")
    for _ in range(2):
        answer = await _ask(service, f"/v1/outbox/{message}", "resend")
        assert (answer.status, answer.json) == (200, {"id": message, "state": "delivered"})
    (resend,) = await take_resends(service.core.pool, [Slots("loopback", 9, 30.0)])
    later = ResendSettlement(
        resend.id,
        resend.taken.attempt_id,
        Verdict("pending", reason="busy", answer=Said(503, "full")),
    )
    await settle_resends(service.core.pool, [later])
    await take_resends(service.core.pool, [Slots("loopback", 9, 30.0)])
    shown = (await service.get(f"/v1/outbox/{message}")).json
    assert (shown["state"], shown["attempts"], shown["receipt"]) == ("delivered", 1, "r-1")
    assert (await service.get(f"/v1/turns/{turn}")).json["state"] == "replied"
    log = [(one["resend"], one["attempt"], one["state"]) for one in shown["attempt_log"]]
    assert log == [(False, 1, "delivered"), (True, 1, "pending"), (True, 2, None)]
    again = shown["attempt_log"][1]
    assert (again["status"], again["reason"], again["answer"]) == (503, "busy", "full")
    assert again["started_at"] <= again["ended_at"]
    events = (await service.get(f"/v1/turns/{turn}/events")).json["items"]
    steps = [event["detail"]["step"] for event in events if event["verb"] == "resend"]
    assert steps == ["asked", "begun", "ended", "begun"]


CALLS = [
    (NOBODYS_TURN, "cancel"),
    (NOBODYS_TURN, "redrive"),
    (NOBODYS_MESSAGE, "cancel"),
    (NOBODYS_MESSAGE, "redrive"),
    (NOBODYS_MESSAGE, "resend"),
]


@pytest.mark.parametrize(("path", "verb"), [*CALLS, (NOBODYS_MESSAGE, "resolve")])
async def test_what_does_not_exist_is_not_found(service: Service, path: str, verb: str) -> None:
    answer = await service.post(
        f"{path}/{verb}", {"state": "delivered"} if verb == "resolve" else {}
    )
    assert (answer.status, answer.code) == (404, "not_found")
    for scope in ("accept", "agent", "approve", "read"):
        answer = await service.call("POST", f"{path}/{verb}", scope=scope)
        assert (answer.status, answer.code) == (403, "scope_missing")


@pytest.mark.parametrize(("path", "verb"), CALLS)
@pytest.mark.parametrize(
    ("body", "code"),
    [(b'{"force": true}', "unknown_field"), (b"[]", "wrong_type"), (b"x", "json_invalid")],
)
async def test_a_call_without_parameters_takes_none(
    service: Service, path: str, verb: str, body: bytes, code: str
) -> None:
    answer = await service.call("POST", f"{path}/{verb}", body=body)
    assert (answer.status, answer.code) == (422, code)
    answer = await service.call("POST", f"{path}/{verb}?force=1")
    assert (answer.status, answer.code) == (422, "unknown_field")


async def test_an_admin_of_one_queue_sees_nothing_of_another(service: Service) -> None:
    key = await create_key(service.core.pool, name="a", scopes=["admin"], queues=["support"])
    turn, (message,) = await _unknown(service)
    for path in (f"/v1/turns/{turn}", f"/v1/outbox/{message}"):
        verbs = ("cancel", "redrive", *(["resend"] if "outbox" in path else []))
        for verb in verbs:
            answer = await service.call("POST", f"{path}/{verb}", scope=key)
            assert (answer.status, answer.code) == (404, "not_found")
    body = {"state": "delivered"}
    assert (await service.post(f"/v1/outbox/{message}/resolve", body, scope=key)).status == 404
    assert (await service.get(f"/v1/turns/{turn}")).json["state"] == "undelivered"


async def test_who_waits_for_the_end_of_a_turn_hears_of_its_cancel_at_once(
    service: Service,
) -> None:
    accepted = (await service.accept("k1")).json
    path = f"/v1/turns/{accepted['turn']}"
    turn = parse_id(TURN_PREFIX, accepted["turn"])
    assert turn is not None
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.get(f"{path}?wait=replied&timeout_seconds=30"))
        await _somebody_waits(service, turn_topic(turn))
        began = time.monotonic()
        await _ask(service, path, "cancel")
        answer = await waiting
    assert answer.json["state"] == "cancelled"
    assert time.monotonic() - began < 0.9


async def test_who_waits_for_work_gets_the_lane_that_a_cancel_freed(
    service: Service, admin: "Admin"
) -> None:
    first = await service.claimed("k1", conversation="c")
    second = (await service.accept("k2", conversation="c")).json
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(service.claim(wait_seconds=20))
        await _somebody_waits(service, queue_topic("default"))
        await _ask(service, f"/v1/turns/{first['id']}", "cancel")
        (claimed,) = (await waiting).json["turns"]
    assert claimed["id"] == second["turn"]
    assert await admin.fetchval("select count(*) from sink.turn where state = 'cancelled'") == 1
