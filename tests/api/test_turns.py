"""A turn and a message over HTTP: how they stand, and their story."""

from datetime import datetime
from typing import Any

import pytest

from app.domain.ids import MESSAGE_PREFIX, parse_id
from app.domain.outcome import Answer as Said
from tests.api.conftest import Service
from tests.api.deliveries import settle_one


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
