"""A person decides over HTTP about the set that he saw, once; no agent, administrator or other call does it for him."""

from typing import TYPE_CHECKING, Any

import pytest

from app.engine.keys import create_key
from app.settings import Queue
from tests.api.conftest import Answer, Service
from tests.api.test_seals import reconfigured

if TYPE_CHECKING:
    from tests.database import Admin

ONE = {"destination": "loopback", "payload": {"text": "hi"}}
TWO = {"destination": "crm", "payload": {"text": "ho"}}


async def _held(
    service: Service, *messages: dict[str, Any], key: str = "k1", **fields: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A claimed turn, and what its held seal answered."""
    turn = await service.claimed(key)
    answer = await service.seal(turn, [*messages] or [ONE], **{"hold": {}, **fields})
    assert answer.status == 200, answer.json
    sealed: dict[str, Any] = answer.json
    return turn, sealed


async def _decide(service: Service, sealed: dict[str, Any], decision: str, **fields: Any) -> Answer:
    body = {
        "decision": decision,
        "payload_hash": sealed["payload_hash"],
        "by": "Ada",
        **fields,
    }
    return await service.post(f"/v1/turns/{sealed['turn']}/decision", body, scope="approve")


async def test_a_held_seal_says_what_holds(service: Service) -> None:
    _, sealed = await _held(service, ONE, TWO, hold={"note": "a refund", "deadline_seconds": 60})
    assert sealed["state"] == "held"
    assert {one["state"] for one in sealed["messages"]} == {"held"}
    hold = sealed["hold"]
    assert (hold["note"], hold["on_deadline"], hold["demanded_by"]) == (
        "a refund",
        "escalate",
        "seal",
    )
    assert hold["payload_hash"] == sealed["payload_hash"]
    assert (hold["state"], hold["decision"]) == ("open", None)


async def test_an_approval_is_answered_with_what_leaves(service: Service) -> None:
    _, sealed = await _held(service, ONE)
    answer = await _decide(service, sealed, "approve", comment="fine")
    assert answer.status == 200, answer.json
    said = answer.json
    assert (said["decision"], said["by"], said["comment"], said["state"]) == (
        "approve",
        "Ada",
        "fine",
        "sealed",
    )
    assert [one["state"] for one in said["messages"]] == ["pending"]
    again = await _decide(service, sealed, "approve", by="Bob", comment="me too")
    assert (again.status, again.json) == (200, said)
    other = await _decide(service, sealed, "reject")
    assert (other.status, other.code) == (409, "already_decided")
    assert (other.json["decision"], other.json["by"]) == ("approve", "Ada")


@pytest.mark.parametrize("scope", ["admin", "agent", "accept", "read"])
async def test_no_other_key_decides(service: Service, scope: str) -> None:
    turn, sealed = await _held(service)
    body = {"decision": "approve", "payload_hash": sealed["payload_hash"], "by": "Ada"}
    answer = await service.post(f"/v1/turns/{turn['id']}/decision", body, scope=scope)
    assert (answer.status, answer.code) == (403, "scope_missing")


async def test_another_hash_is_never_decided_about(service: Service) -> None:
    _, sealed = await _held(service)
    for wrong in (
        "sha256:" + "0" * 64,
        "x",
        sealed["payload_hash"].upper(),
        sealed["payload_hash"][7:],
    ):
        answer = await _decide(service, sealed, "approve", payload_hash=wrong)
        assert (answer.status, answer.code) == (409, "payload_changed")
        assert answer.json["payload_hash"] == sealed["payload_hash"]


async def test_there_is_no_second_door(service: Service, admin: "Admin") -> None:
    turn, sealed = await _held(service)
    message = sealed["messages"][0]["id"]
    for path, body, code in (
        (f"/v1/turns/{turn['id']}/redrive", None, "not_redrivable"),
        (f"/v1/outbox/{message}/redrive", None, "not_redrivable"),
        (f"/v1/outbox/{message}/resend", None, "not_resendable"),
        (f"/v1/outbox/{message}/resolve", {"state": "delivered"}, "not_resolvable"),
        (f"/v1/outbox/{message}/cancel", None, "not_cancellable"),
    ):
        answer = await service.call("POST", path, json_body=body)
        assert (answer.status, answer.code) == (409, code), path
    again = await service.seal(turn, [ONE])
    assert (again.status, again.code) == (409, "already_sealed")
    states = await admin.fetch("select state from sink.outbox")
    assert [row["state"] for row in states] == ["held"]


async def test_a_reviewer_may_send_something_else(service: Service) -> None:
    _, sealed = await _held(service, ONE, TWO)
    first, second = sealed["messages"]
    messages = [
        {**TWO, "payload": "better", "id": second["id"]},
        {**ONE, "to": "ann"},
        {**ONE, "payload": "added"},
    ]
    answer = await _decide(service, sealed, "approve", messages=messages)
    assert answer.status == 200, answer.json
    said = answer.json
    assert (said["decision"], said["payload_hash"]) == ("edit", sealed["payload_hash"])
    assert said["new_hash"] not in (None, sealed["payload_hash"])
    keys = [one["idempotency_key"] for one in said["messages"]]
    assert keys[0] == second["idempotency_key"]
    assert first["idempotency_key"] in keys[1:]
    shown = (await service.get(f"/v1/turns/{sealed['turn']}", scope="approve")).json
    assert (shown["state"], shown["payload_hash"]) == ("sealed", said["new_hash"])
    assert (await _decide(service, sealed, "approve", messages=messages)).json == said
    for other in (None, messages[:1], []):
        refused = await _decide(service, sealed, "approve", messages=other)
        assert (refused.code, refused.json["decision"]) == ("already_decided", "edit")


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"decision": None}, "/decision", "required"),
        ({"decision": "aprove"}, "/decision", "decision_unknown"),
        ({"decision": 5}, "/decision", "wrong_type"),
        ({"payload_hash": None}, "/payload_hash", "required"),
        ({"payload_hash": 5}, "/payload_hash", "wrong_type"),
        ({"payload_hash": "\ud800"}, "/payload_hash", "text_invalid"),
        ({"by": None}, "/by", "required"),
        ({"by": ""}, "/by", "name_invalid"),
        ({"by": "system"}, "/by", "name_invalid"),
        ({"by": " System "}, "/by", "name_invalid"),
        ({"by": "\u3000\uff33YSTEM\u200b"}, "/by", "name_invalid"),
        ({"by": "a\u0000"}, "/by", "name_invalid"),
        ({"comment": "x" * 4001}, "/comment", "text_invalid"),
        ({"comment": 5}, "/comment", "wrong_type"),
        ({"decision": "reject", "messages": [ONE]}, "/messages", "messages_not_allowed"),
        ({"decision": "revise", "messages": []}, "/messages", "messages_not_allowed"),
        ({"messages": "x"}, "/messages", "wrong_type"),
        ({"messages": [ONE] * 6}, "/messages", "too_many"),
        ({"messages": [{**ONE, "id": "msg_x"}]}, "/messages/0/id", "id_invalid"),
        ({"messages": [{**ONE, "id": 5}]}, "/messages/0/id", "wrong_type"),
        ({"messages": [{**ONE, "id": "msg_" + "0" * 26}]}, "/messages/0/id", "message_unknown"),
        ({"messages": [{"payload": 1}]}, "/messages/0/destination", "destination_missing"),
        (
            {"messages": [{**ONE, "destination": "no"}]},
            "/messages/0/destination",
            "destination_unknown",
        ),
        ({"messages": [{**TWO, "to": "eve"}]}, "/messages/0/to", "to_not_allowed"),
        (
            {"messages": [{**ONE, "headers": {"x-other": "1"}}]},
            "/messages/0/headers/x-other",
            "header_not_allowed",
        ),
        (
            {"messages": [{**ONE, "conversation": "d"}]},
            "/messages/0/conversation",
            "conversation_not_allowed",
        ),
        ({"messages": [{**ONE, "payload": "x" * 50_000}] * 2}, "/messages", "set_too_large"),
        ({"follow_ups": []}, "/follow_ups", "unknown_field"),
        ({"descision": "approve"}, "/descision", "unknown_field"),
    ],
)
async def test_a_decision_that_is_not_understood_decides_nothing(
    service: Service, changes: dict[str, Any], pointer: str, code: str
) -> None:
    _, sealed = await _held(service, ONE)
    body = {"decision": "approve", "payload_hash": sealed["payload_hash"], "by": "Ada", **changes}
    path = f"/v1/turns/{sealed['turn']}/decision"
    answer = await service.post(path, body, scope="approve")
    assert answer.status == 422, answer.json
    errors = [(one["pointer"], one["code"]) for one in answer.json["errors"]]
    assert (pointer, code) in errors
    shown = (await service.get(f"/v1/turns/{sealed['turn']}")).json
    assert shown["state"] == "held"


async def test_what_was_never_held_is_not_decided_about(service: Service) -> None:
    turn = await service.claimed()
    sealed = (await service.seal(turn, [ONE])).json
    answer = await _decide(service, sealed, "approve")
    assert (answer.status, answer.code) == (409, "not_held")
    assert answer.json["turn_state"] == "sealed"


async def test_a_key_that_does_not_see_the_queue_finds_nothing(service: Service) -> None:
    _, sealed = await _held(service)
    key = await create_key(service.core.pool, name="x", scopes=["approve"], queues=["support"])
    body = {"decision": "approve", "payload_hash": sealed["payload_hash"], "by": "Ada"}
    answer = await service.post(f"/v1/turns/{sealed['turn']}/decision", body, scope=key)
    assert (answer.status, answer.code) == (404, "not_found")
    absent = await service.post("/v1/turns/turn_" + "0" * 26 + "/decision", body, scope="approve")
    assert (absent.status, absent.code) == (404, "not_found")


async def test_revisions_run_out(service: Service) -> None:
    queues = {"default": Queue(revisions_max=1)}
    async with reconfigured(service, queues=queues) as other:
        _, sealed = await _held(other)
        said = await _decide(other, sealed, "revise", comment="shorter")
        assert (said.status, said.json["state"]) == (200, "queued")
        (turn,) = (await other.claim()).json["turns"]
        again = (await other.seal(turn, [ONE], hold={})).json
        refused = await _decide(other, again, "revise")
        assert (refused.status, refused.code) == (409, "revisions_exhausted")
        assert (refused.json["revisions_max"], refused.json["turn_state"]) == (1, "held")
        stale = await _decide(other, sealed, "approve")
        assert (stale.code, stale.json["payload_hash"]) == (
            "payload_changed",
            again["payload_hash"],
        )
        assert (await _decide(other, again, "approve")).status == 200


async def test_where_the_queue_is_not_known_only_what_needs_nothing_of_it_is_decided(
    service: Service,
) -> None:
    _, sealed = await _held(service)
    async with reconfigured(service, queues={"support": Queue()}) as other:
        for decision, fields in (("revise", {}), ("approve", {"messages": [ONE]})):
            answer = await _decide(other, sealed, decision, **fields)
            assert (answer.status, answer.code) == (503, "queue_not_configured")
        assert (await _decide(other, sealed, "approve")).status == 200


async def test_an_edit_is_answered_again_whatever_is_allowed_by_now(service: Service) -> None:
    _, sealed = await _held(service)
    edited = [{**ONE, "to": "ann"}]
    first = await _decide(service, sealed, "approve", messages=edited)
    queues = {"default": Queue(destinations=("crm",))}
    async with reconfigured(service, queues=queues) as other:
        again = await _decide(other, sealed, "approve", messages=edited)
        assert (again.status, again.json) == (200, first.json)


async def test_what_is_stored_is_what_was_sealed_or_nothing_leaves(
    service: Service, admin: "Admin"
) -> None:
    _, sealed = await _held(service)
    await admin.execute("update sink.outbox_payload set body = 'forged'")
    answer = await _decide(service, sealed, "approve")
    assert (answer.status, answer.code) == (409, "integrity")
    assert await admin.fetchval("select count(*) from sink.notice where reason = 'integrity'") == 1
    assert (await _decide(service, sealed, "reject")).json["state"] == "cancelled"


async def test_a_cancel_of_the_turn_decides_it(service: Service) -> None:
    turn, sealed = await _held(service, follow_ups=[{"payload": 1}])
    answer = await service.call("POST", f"/v1/turns/{turn['id']}/cancel")
    assert (answer.status, answer.json["state"]) == (200, "cancelled")
    refused = await _decide(service, sealed, "approve")
    assert (refused.code, refused.json["decision"]) == ("already_decided", "cancel")
    shown = (await service.get(f"/v1/turns/{turn['id']}")).json
    assert [one["state"] for one in shown["follow_ups"]] == ["cancelled"]


async def test_held_turns_are_cancelled_in_bulk_and_redriven_never(service: Service) -> None:
    turn, _ = await _held(service)
    for verb, found in (("redrive", 0), ("cancel", 1)):
        body = {"verb": verb, "filter": {"all": True}, "dry_run": True}
        counted = (await service.post("/v1/turns/bulk", body)).json
        assert counted["found"] == found, counted
    assert turn
