"""A message without a destination goes back where its conversation came from; nobody else's place is guessed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from app.core import Draining, build_routes
from app.domain.model import Slots
from app.engine.accept import accept
from app.engine.take import take
from app.settings import Destination, Queue, Source
from tests.api.conftest import Service, serving
from tests.database import Clock
from tests.engine.stories import arrival

if TYPE_CHECKING:
    from tests.database import Admin

HI = {"payload": {"text": "hi"}}
URL = "https://hooks.slack.com/commands/T01/1/secret-capability"


@asynccontextmanager
async def chatting(service: Service, **slack: Any) -> AsyncIterator[Service]:
    """A service with a source `chat` of Slack's, answered by the destination `slack`."""
    changes: dict[str, Any] = {
        "sources": {
            "chat": Source(kind="slack", reply_to="slack"),
            "mute": Source(kind="slack"),
        },
        "destinations": {
            "slack": Destination(kind="slack", **{"token": "env:NOWHERE", **slack}),
            "loopback": Destination(kind="loopback", to_allow=("*",)),
        },
        "queues": {"default": Queue(), "open": Queue(conversations="any")},
    }
    settings = service.core.settings.model_copy(update=changes)
    routes = build_routes(settings)
    core = replace(service.core, settings=settings, routes=routes, draining=Draining())
    async with serving(core) as changed:
        changed.keys = service.keys
        yield changed


async def turned(
    service: Service, *, source: str = "chat", key: str = "C01/1700000000.000100", **changes: Any
) -> dict[str, Any]:
    """A claimed turn of a conversation of this source."""
    fields = {"source": source, "conversation": f"{source}:T01/{key}", **changes}
    [_] = await accept(
        service.core.pool, [arrival("k1", **fields)], ids=service.core.ids, key_seconds=3600
    )
    queue = fields.get("queue", "default")
    (turn,) = (await service.claim(queue=queue, wait_seconds=0)).json["turns"]
    claimed: dict[str, Any] = turn
    return claimed


async def addresses(admin: "Admin") -> list[dict[str, str]]:
    rows = await admin.fetch(
        "select p.address from sink.outbox_payload as p"
        " inner join sink.outbox as o on o.id = p.message order by o.position"
    )
    return [json.loads(row["address"] or "{}") for row in rows]


async def sealed(service: Service, turn: dict[str, Any], *messages: Any) -> None:
    answer = await service.seal(turn, list(messages))
    assert answer.status == 200, answer.body


async def refused(service: Service, turn: dict[str, Any], *messages: Any) -> set[tuple[str, str]]:
    answer = await service.seal(turn, list(messages))
    assert answer.status == 422
    return {(one["pointer"], one["code"]) for one in answer.json["errors"]}


async def test_a_message_without_a_destination_goes_to_the_thread_of_its_turn(
    service: Service, admin: "Admin"
) -> None:
    async with chatting(service) as chat:
        await sealed(chat, await turned(chat), HI, {**HI, "destination": "slack"})
        thread = {"channel": "C01", "thread_ts": "1700000000.000100"}
        assert await addresses(admin) == [thread, thread]
        rows = await admin.fetch("select destination, pace_seconds from sink.outbox")
        assert {(row["destination"], row["pace_seconds"]) for row in rows} == {("slack", 1.0)}


async def test_whoever_approves_is_shown_where_a_message_goes(
    service: Service, admin: "Admin"
) -> None:
    async with chatting(service) as chat:
        turn = await turned(chat)
        answer = await chat.seal(turn, [HI, {**HI, "destination": "loopback"}], hold={})
        thread = {"channel": "C01", "thread_ts": "1700000000.000100"}
        whole = (await chat.get(f"/v1/turns/{turn['id']}/set", scope="approve")).json
        assert [one["address"] for one in whole["messages"]] == [thread, {}]
        path = f"/v1/outbox/{answer.json['messages'][0]['id']}"
        assert (await chat.get(path, scope="approve")).json["address"] == thread
        await admin.execute("update sink.outbox_payload set address = '[not' where address <> '{}'")
        spoiled = (await chat.get(path, scope="approve")).json
        assert spoiled["address"] == {"unreadable": "[not"}


async def test_without_a_source_that_says_where_it_is_422(service: Service) -> None:
    async with chatting(service) as chat:
        turn = await turned(chat, source="mute")
        wrong = {("/messages/0/destination", "destination_missing")}
        assert await refused(chat, turn, HI) == wrong
        await sealed(chat, turn, {**HI, "destination": "slack"})


async def test_what_came_over_the_plain_api_is_in_no_conversation_of_a_source(
    service: Service,
) -> None:
    async with chatting(service) as chat:
        turn = await chat.claimed(conversation="chat:T01/C01")
        assert await refused(chat, turn, HI, {**HI, "destination": "slack"}) == {
            ("/messages/0/destination", "destination_missing"),
            ("/messages/1/to", "to_missing"),
        }


async def test_a_follow_up_is_in_the_conversation_of_the_turn_that_asked_for_it(
    service: Service, admin: "Admin"
) -> None:
    async with chatting(service) as chat:
        turn = await turned(chat, source="follow_up", conversation="chat:T01/C01/1.2")
        await sealed(chat, turn, HI)
        assert await addresses(admin) == [{"channel": "C01", "thread_ts": "1.2"}]


async def test_another_place_is_for_the_configuration_to_allow(
    service: Service, admin: "Admin"
) -> None:
    async with chatting(service) as chat:
        turn = await turned(chat, key="D01")
        other = {**HI, "destination": "slack", "to": "C09"}
        assert await refused(chat, turn, other) == {("/messages/0/to", "to_not_allowed")}
        # Whom it answers anyway it may name.
        await sealed(chat, turn, {**other, "to": "D01"})
    async with chatting(service, to_allow=("C09",)) as chat:
        turn = await turned(chat, key="C02/1.1", scope="other")
        await sealed(chat, turn, other)
        assert (await addresses(admin))[-1] == {"channel": "C09"}


async def test_a_queue_that_lets_messages_into_other_conversations_lets_them_go_there(
    service: Service, admin: "Admin"
) -> None:
    async with chatting(service) as chat:
        turn = await turned(chat, queue="open")
        await sealed(chat, turn, {**HI, "conversation": "chat:T01/C07/9.9"})
        assert await addresses(admin) == [{"channel": "C07", "thread_ts": "9.9"}]


async def test_the_same_seal_again_is_the_same_whatever_has_ended_meanwhile(
    service: Service, admin: "Admin", clock: Clock
) -> None:
    now = await admin.fetchval("select sink.now()")
    reply = {
        "reply": json.dumps({"response_url": URL}).encode(),
        "reply_expires_at": now + timedelta(minutes=30),
    }
    async with chatting(service, answer_by="response_url") as chat:
        turn = await turned(chat, **reply)
        first = await chat.seal(turn, [HI])
        assert first.status == 200
        assert await addresses(admin) == [
            {"channel": "C01", "thread_ts": "1700000000.000100", "via": "response_url"}
        ]
        (row,) = await admin.fetch("select expires_at from sink.outbox")
        assert row["expires_at"] == reply["reply_expires_at"]
        await clock.travel(3600)
        again = await chat.seal(turn, [HI])
        assert (again.status, again.json) == (200, first.json)
        other = await chat.seal(turn, [{**HI, "payload": {"text": "ho"}}])
        assert other.code == "already_sealed"


async def test_a_capability_is_in_no_answer(service: Service, admin: "Admin") -> None:
    now = await admin.fetchval("select sink.now()")
    reply = {
        "reply": json.dumps({"response_url": URL}).encode(),
        "reply_expires_at": now + timedelta(minutes=30),
    }
    async with chatting(service, answer_by="response_url") as chat:
        turn = await turned(chat, **reply)
        seal = await chat.seal(turn, [HI])
        (message,) = seal.json["messages"]
        shown = [
            json.dumps(turn).encode(),
            seal.body,
            *[
                (await chat.get(path)).body
                for path in (
                    f"/v1/turns/{turn['id']}",
                    f"/v1/turns/{turn['id']}/events",
                    f"/v1/outbox/{message['id']}",
                    f"/v1/inbound/{turn['inbound'][0]['id']}",
                )
            ],
        ]
    assert all(b"secret-capability" not in one for one in shown)


@pytest.mark.parametrize("what", ["address", "reply_of"])
async def test_an_address_that_was_changed_is_never_sent_to(
    service: Service, admin: "Admin", what: str
) -> None:
    async with chatting(service) as chat:
        await sealed(chat, await turned(chat), HI)
    forged = {"address": '\'{"channel":"C99"}\'', "reply_of": "gen_random_uuid()"}[what]
    await admin.execute(f"update sink.outbox_payload set {what} = {forged}")

    taken = await take(service.core.pool, [Slots("slack", 10, 30.0)])
    assert list(taken.messages) == []
    (row,) = await admin.fetch("select state, reason from sink.outbox")
    assert (row["state"], row["reason"]) == ("dead", "integrity")
