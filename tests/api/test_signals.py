"""Signals over HTTP: what is refused, who may tell a turn what, and how it arrives in the next claim."""

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.conftest import Answer, Service, opened
from tests.api.parking import HASH, OTHER, Turn, history, park, tell
from tests.database import Server

if TYPE_CHECKING:
    from tests.database import Admin


async def test_who_is_told_wakes_and_finds_it_byte_for_byte(service: Service) -> None:
    turn = await service.claimed()
    await park(service, turn)
    body = b'{"payload": {"amount":1.10,  "who": "\\u00e9"}, "by": "the till"}'
    answer = await service.call(
        "POST", f"/v1/turns/{turn['id']}/signals/answer", scope="accept", body=body
    )
    assert (answer.status, answer.json) == (
        200,
        {"turn": turn["id"], "name": "answer", "state": "queued", "duplicate": False},
    )
    claimed = await service.claim()
    assert b'"payload":{"amount":1.10,  "who": "\\u00e9"}' in claimed.body
    (entry,) = claimed.json["turns"][0]["history"]
    assert (entry["attempt"], entry["ended"], entry["reason"]) == (1, "parked", "signal")
    wait = entry["wait"]
    assert set(wait) == {"name", "by", "at", "content_type", "payload"}
    assert (wait["name"], wait["by"], wait["content_type"]) == (
        "answer",
        "the till",
        "application/json",
    )
    again = await service.call(
        "POST", f"/v1/turns/{turn['id']}/signals/answer", scope="agent", body=body
    )
    assert (again.status, again.json["duplicate"], again.json["state"]) == (
        200,
        True,
        "processing",
    )
    other = await tell(service, turn, payload=2)
    assert (other.status, other.code) == (409, "already_signalled")
    assert (other.json["turn_state"], other.json["by"]) == ("processing", "the till")


async def test_bytes_that_are_no_json_arrive_in_base64(service: Service) -> None:
    turn = await service.claimed()
    encoded = base64.b64encode(b"\x00\xff").decode()
    sent = {"payload_base64": encoded, "content_type": "application/octet-stream"}
    assert (await tell(service, turn, **sent)).json["state"] == "processing"
    answer = await park(service, turn)
    assert answer.json == {"turn": turn["id"], "state": "queued", "deadline_at": None}
    (entry,) = await history(service)
    assert entry["wait"]["payload_base64"] == encoded
    assert entry["wait"]["content_type"] == "application/octet-stream"


@pytest.mark.parametrize("body", [None, b"", b"{}", b'{"payload": null}'])
async def test_a_signal_may_be_nothing_but_its_name(service: Service, body: bytes | None) -> None:
    turn = await service.claimed()
    await park(service, turn)
    answer = await service.call(
        "POST", f"/v1/turns/{turn['id']}/signals/answer", scope="accept", body=body
    )
    assert (answer.status, answer.json["state"]) == (200, "queued")
    (entry,) = await history(service)
    assert set(entry["wait"]) == {"name", "by", "at"}


@pytest.mark.parametrize(
    ("in_path", "name"),
    [
        ("order%2F17", "order/17"),
        ("%C3%A9t%C3%A9", "été"),
        ("a%20b+c", "a b+c"),
        ("100%25", "100%"),
        ("%252F", "%2F"),
        ("a;b=c,d", "a;b=c,d"),
        ("%3Fx%23", "?x#"),
        ("..%2F..", "../.."),
        ("x" * 255, "x" * 255),
    ],
)
async def test_a_name_in_the_path_is_whatever_a_name_may_be(
    service: Service, in_path: str, name: str
) -> None:
    turn = await service.claimed()
    await park(service, turn, name=name)
    status, code = await _raw(service, f"/v1/turns/{turn['id']}/signals/{in_path}")
    assert (status, code) == (200, None)
    (entry,) = await history(service)
    assert entry["wait"]["name"] == name


@pytest.mark.parametrize(
    ("in_path", "status", "code"),
    [
        ("", 422, "name_invalid"),
        ("%00", 422, "name_invalid"),
        ("a%0Ab", 422, "name_invalid"),
        ("%7F", 422, "name_invalid"),
        ("%FF", 422, "name_invalid"),
        ("%ED%A0%80", 422, "name_invalid"),
        ("x" * 256, 422, "name_invalid"),
        ("a/b", 404, "not_found"),
        ("a/", 404, "not_found"),
    ],
)
async def test_what_is_no_name_tells_nobody_anything(
    service: Service, in_path: str, status: int, code: str
) -> None:
    turn = await service.claimed()
    assert await _raw(service, f"/v1/turns/{turn['id']}/signals/{in_path}") == (status, code)


async def _raw(service: Service, path: str) -> tuple[int, str | None]:
    """Post to a path exactly as it is spelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n"
    writer.write(f"{head}Authorization: Bearer {service.keys['accept']}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    document = json.loads(answer.partition(b"\r\n\r\n")[2])
    return int(answer.split()[1]), document.get("code")


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"payload": 1, "payload_base64": "eA=="}, "/payload", "payload_ambiguous"),
        ({"payload_base64": "eA=="}, "/content_type", "content_type_missing"),
        (
            {"payload_base64": "!", "content_type": "text/plain"},
            "/payload_base64",
            "base64_invalid",
        ),
        ({"content_type": "text/plain"}, "/payload", "payload_missing"),
        ({"payload_hash": 1}, "/payload_hash", "wrong_type"),
        ({"payload_hash": "\n"}, "/payload_hash", "name_invalid"),
        ({"by": ""}, "/by", "name_invalid"),
        ({"paylod": 1}, "/paylod", "unknown_field"),
    ],
)
async def test_a_signal_with_something_wrong_tells_nobody_anything(
    service: Service, fields: dict[str, Any], pointer: str, code: str
) -> None:
    turn = await service.claimed()
    await park(service, turn)
    answer = await tell(service, turn, **fields)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer
    assert (await service.get(f"/v1/turns/{turn['id']}")).json["state"] == "parked"


async def test_a_person_is_asked_and_nobody_else_answers(service: Service, admin: "Admin") -> None:
    turn = await service.claimed()
    await park(service, turn, payload_hash=HASH, note="refund 40?")
    for scope in ("accept", "agent", "admin"):
        answer = await tell(service, turn, scope=scope, payload=True, payload_hash=HASH)
        assert (answer.status, answer.code) == (403, "scope_missing")
    for wrong in (OTHER, None, HASH.upper()):
        answer = await tell(service, turn, scope="approve", payload=True, payload_hash=wrong)
        assert (answer.status, answer.code) == (409, "payload_changed")
        assert (answer.json["payload_hash"], answer.json["turn_state"]) == (HASH, "parked")
    assert await admin.fetchval("select count(*) from sink.signal") == 0
    fields: dict[str, Any] = {"payload": {"ok": True}, "payload_hash": HASH}
    first = await tell(service, turn, scope="approve", **fields, by="ada")
    assert (first.status, first.json["state"], first.json["duplicate"]) == (200, "queued", False)
    again = await tell(service, turn, scope="approve", **fields, by="bob")
    assert (again.status, again.json["duplicate"]) == (200, True)
    other = await tell(service, turn, scope="approve", payload={"ok": False}, payload_hash=HASH)
    assert (other.status, other.code, other.json["by"]) == (409, "already_signalled", "ada")
    (entry,) = await history(service)
    assert (entry["wait"]["by"], entry["wait"]["payload"]) == ("ada", {"ok": True})


async def test_an_agent_cannot_answer_its_own_question_before_it_asks(service: Service) -> None:
    turn = await service.claimed()
    forged = await tell(service, turn, scope="agent", payload=True, payload_hash=HASH, by="ada")
    assert forged.status == 200
    assert (await park(service, turn, payload_hash=HASH)).json["state"] == "parked"
    events = (await service.get(f"/v1/turns/{turn['id']}/events")).json["items"]
    dropped = events[-1]["detail"]["dropped"]
    assert events[-1]["detail"] == {"name": "answer", "payload_hash": HASH, "dropped": dropped}
    fields: dict[str, Any] = {"payload": False, "payload_hash": HASH}
    assert (await tell(service, turn, scope="approve", **fields)).json["state"] == "queued"
    (entry,) = await history(service)
    assert entry["wait"]["payload"] is False


async def test_a_turn_that_has_ended_is_told_nothing(service: Service) -> None:
    turn = await service.claimed()
    await service.seal(turn, [])
    answer = await tell(service, turn, payload=1)
    assert (answer.status, answer.code) == (409, "turn_ended")
    assert answer.json["turn_state"] == "replied"


async def test_a_turn_of_another_queue_is_not_there(service: Service) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "name": "answer"}
    for path, sent in (("signals/answer", {}), ("park", body)):
        answer = await service.post(f"/v1/turns/{turn['id']}/{path}", sent, scope="support")
        assert (answer.status, answer.code) == (404, "not_found")


async def test_a_waiting_claim_hears_of_a_signal_at_once(service: Service) -> None:
    turn = await service.claimed()
    await park(service, turn)
    async with asyncio.timeout(0.9), asyncio.TaskGroup() as group:
        # It would look again after a second.
        claim = group.create_task(service.claim(wait_seconds=10))
        await asyncio.sleep(0.1)
        await tell(service, turn)
    assert [one["id"] for one in claim.result().json["turns"]] == [turn["id"]]


async def test_of_two_replicas_both_hear_who_was_first(postgres: Server) -> None:
    async with postgres.database() as url, opened(url) as here, opened(url) as there:
        there.keys = here.keys
        for n in range(10):
            turn = await here.claimed(f"k{n}")
            answers: list[Answer] = []

            async def say(service: Service, what: str, turn: Turn = turn) -> None:
                answers.append(await tell(service, turn, payload=what))  # noqa: B023

            async with asyncio.TaskGroup() as group:
                group.create_task(say(here, "here"))
                group.create_task(park(there, turn))
                group.create_task(say(there, "there"))
            assert sorted(answer.status for answer in answers) == [200, 409]
            (entry,) = await history(there)
            assert entry["reason"] == "signal"
