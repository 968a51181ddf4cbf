"""Lists of turns and messages: what somebody on call looks for, in pages, and nothing that is not theirs to see."""

from typing import Any
from urllib.parse import urlencode

import pytest

from app.domain.ids import INBOUND_PREFIX, TURN_PREFIX
from tests.api.conftest import Service

MESSAGE = {"destination": "loopback", "payload": 1}
PAGES_MAX = 50


async def everything(
    service: Service, path: str, *, scope: str = "admin", **query: object
) -> list[dict[str, Any]]:
    """All pages of a list."""
    items: list[dict[str, Any]] = []
    for _ in range(PAGES_MAX):
        answer = await service.get(f"{path}?{urlencode(query)}", scope=scope)
        assert answer.status == 200
        items += answer.json["items"]
        if answer.json["next_cursor"] is None:
            return items
        query["cursor"] = answer.json["next_cursor"]
    raise AssertionError("the pages do not end")


async def sealed(service: Service, key: str, **fields: Any) -> tuple[str, list[str]]:
    turn = await service.claimed(key, **fields)
    answer = (await service.seal(turn, [MESSAGE, {**MESSAGE, "destination": "crm"}])).json
    return turn["id"], [one["id"] for one in answer["messages"]]


async def test_turns_are_listed_newest_first_in_pages(service: Service) -> None:
    turns = [(await service.accept(f"k{n}")).json["turn"] for n in range(5)]
    listed = await everything(service, "/v1/turns", limit=2)
    assert [one["id"] for one in listed] == turns[::-1]
    shown = (await service.get(f"/v1/turns/{turns[-1]}")).json
    assert {**listed[0], "messages": [], "follow_ups": [], "seals": []} == shown


async def test_turns_are_found_by_state_queue_conversation_and_key(service: Service) -> None:
    held = await service.claimed("k1", conversation="c")
    waiting = (await service.accept("k2", conversation="c")).json["turn"]
    other = (await service.accept("k1", queue="support", conversation="c")).json["turn"]
    for query, turns in (
        ({"state": "processing"}, [held["id"]]),
        ({"state": "waiting,queued"}, [other, waiting]),
        ({"state": "replied"}, []),
        ({"queue": "support"}, [other]),
        ({"queue": "no-such-queue"}, []),
        ({"conversation": "c"}, [other, waiting, held["id"]]),
        ({"conversation": "c", "queue": "default", "state": "waiting"}, [waiting]),
        ({"key": "k1"}, [other, held["id"]]),
        ({"key": "k1", "queue": "default"}, [held["id"]]),
        ({"key": "k3"}, []),
    ):
        listed = await everything(service, "/v1/turns", **query)
        assert [one["id"] for one in listed] == turns, query
    assert (await everything(service, "/v1/turns", key="k2"))[0]["inbound"].startswith(
        INBOUND_PREFIX
    )


async def test_messages_are_found_by_state_queue_destination_and_turn(service: Service) -> None:
    turn, messages = await sealed(service, "k1")
    _, other = await sealed(service, "k2", queue="support")
    await service.post(f"/v1/outbox/{messages[0]}/cancel", {})
    for query, wanted in (
        ({}, [*other[::-1], *messages[::-1]]),
        ({"state": "cancelled"}, messages[:1]),
        ({"state": "pending", "queue": "default"}, messages[1:]),
        ({"destination": "crm"}, [other[1], messages[1]]),
        ({"turn": turn}, messages[::-1]),
        ({"turn": turn, "state": "dead"}, []),
        ({"state": "delivered,sending"}, []),
    ):
        listed = await everything(service, "/v1/outbox", limit=1, **query)
        assert [one["id"] for one in listed] == wanted, query
    (listed_one,) = await everything(service, "/v1/outbox", state="cancelled")
    shown = (await service.get(f"/v1/outbox/{messages[0]}")).json
    assert listed_one.items() <= shown.items()
    assert shown.keys() - listed_one.keys() == {"headers", "address", "attempt_log", "payload"}


async def test_a_key_of_a_queue_finds_nothing_of_another(service: Service) -> None:
    await service.accept("k1", conversation="c")
    own = (await service.accept("k1", queue="support", conversation="c")).json["turn"]
    _, messages = await sealed(service, "k2")
    for query in ({}, {"key": "k1"}, {"conversation": "c"}, {"state": "queued"}):
        listed = await everything(service, "/v1/turns", scope="support", **query)
        assert [one["id"] for one in listed] == [own]
    for query in ({"queue": "default"}, {"queue": "default", "key": "k1"}, {"key": "k2"}):
        assert await everything(service, "/v1/turns", scope="support", **query) == []
    message = (await service.get(f"/v1/outbox/{messages[0]}")).json
    for query in ({}, {"queue": "default"}, {"turn": message["turn"]}, {"state": "pending"}):
        assert await everything(service, "/v1/outbox", scope="support", **query) == []


async def test_who_may_list(service: Service) -> None:
    for scope, turns, messages in (
        ("read", 200, 200),
        ("agent", 200, 403),
        ("accept", 200, 403),
        ("approve", 200, 200),
        (None, 401, 401),
    ):
        assert (await service.get("/v1/turns", scope=scope)).status == turns
        assert (await service.get("/v1/outbox", scope=scope)).status == messages


@pytest.mark.parametrize(
    ("path", "query", "code", "pointer"),
    [
        ("/v1/turns", "state=lost", "state_unknown", "/state"),
        ("/v1/turns", "state=", "state_unknown", "/state"),
        ("/v1/turns", "state=queued,dead", "state_unknown", "/state"),
        ("/v1/turns", "queue=", "name_invalid", "/queue"),
        ("/v1/turns", "queue=%00", "name_invalid", "/queue"),
        ("/v1/turns", "conversation=%ed%a0%80%01", "conversation_invalid", "/conversation"),
        ("/v1/turns", "key=a%20b", "idempotency_key_invalid", "/key"),
        ("/v1/turns", "key=", "idempotency_key_invalid", "/key"),
        ("/v1/turns", "root=turn_x", "id_invalid", "/root"),
        ("/v1/turns", "about=", "id_invalid", "/about"),
        ("/v1/turns", "limit=0", "out_of_range", "/limit"),
        ("/v1/turns", "limit=201", "out_of_range", "/limit"),
        ("/v1/turns", "limit=x", "wrong_type", "/limit"),
        ("/v1/turns", "cursor=x", "cursor_invalid", "/cursor"),
        ("/v1/turns", "cursor=", "cursor_invalid", "/cursor"),
        ("/v1/turns", f"cursor={'A' * 32}", "cursor_invalid", "/cursor"),
        ("/v1/turns", "cursor=%ff", "cursor_invalid", "/cursor"),
        ("/v1/turns", "destination=crm", "unknown_field", "/destination"),
        ("/v1/turns", "state=queued&state=failed", "unknown_field", "/state"),
        ("/v1/outbox", "state=failed", "state_unknown", "/state"),
        ("/v1/outbox", "turn=x", "id_invalid", "/turn"),
        ("/v1/outbox", f"turn={INBOUND_PREFIX}{'0' * 26}", "id_invalid", "/turn"),
        ("/v1/outbox", "conversation=c", "unknown_field", "/conversation"),
    ],
)
async def test_what_is_wrong_with_a_question_is_said(
    service: Service, path: str, query: str, code: str, pointer: str
) -> None:
    answer = await service.get(f"{path}?{query}")
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer


async def test_everything_that_is_wrong_is_said_at_once(service: Service) -> None:
    answer = await service.get("/v1/turns?state=lost&queue=&key=")
    assert answer.code == "invalid_content"
    assert {one["code"] for one in answer.json["errors"]} == {
        "state_unknown",
        "name_invalid",
        "idempotency_key_invalid",
    }


async def test_a_cursor_is_good_for_its_own_question_and_key_alone(service: Service) -> None:
    for n in range(3):
        await service.accept(f"k{n}", queue="support")
    answer = await service.get("/v1/turns?state=queued&limit=1", scope="support")
    cursor = answer.json["next_cursor"]
    assert TURN_PREFIX not in cursor
    # How much a page shows is no part of the question.
    answer = await service.get(f"/v1/turns?limit=5&state=queued&cursor={cursor}", scope="support")
    assert len(answer.json["items"]) == 2
    for query, scope in (
        (f"state=waiting&cursor={cursor}", "support"),
        (f"cursor={cursor}", "support"),
        (f"state=queued&queue=support&cursor={cursor}", "support"),
        (f"state=queued&cursor={cursor}", "admin"),
        (f"state=queued&cursor={cursor[:-4]}AAAA", "support"),
    ):
        answer = await service.get(f"/v1/turns?{query}", scope=scope)
        assert (answer.status, answer.code) == (422, "cursor_invalid")
    answer = await service.get(f"/v1/outbox?cursor={cursor}", scope="read")
    assert (answer.status, answer.code) == (422, "cursor_invalid")
