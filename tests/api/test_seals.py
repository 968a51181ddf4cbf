import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from app.api.seals import body_bytes_max
from app.core import Draining, build_routes
from app.settings import Destination, Limits, Queue
from tests.api.conftest import Service, serving

ONE = {"destination": "loopback", "payload": {"text": "hi"}}


async def test_a_seal_answers_with_the_set_and_its_hash(service: Service) -> None:
    turn = await service.claimed()
    answer = await service.seal(turn, [ONE, {**ONE, "delay_seconds": 2.5}])
    assert answer.status == 200
    sealed = answer.json
    assert set(sealed) == {"turn", "state", "payload_hash", "messages", "follow_ups", "hold"}
    assert (sealed["turn"], sealed["state"], sealed["follow_ups"]) == (turn["id"], "sealed", [])
    assert sealed["hold"] is None
    assert sealed["payload_hash"].startswith("sha256:")
    assert [set(one) for one in sealed["messages"]] == [{"id", "idempotency_key", "state"}] * 2
    assert {one["state"] for one in sealed["messages"]} == {"pending"}


async def test_the_empty_set_ends_the_turn(service: Service) -> None:
    turn = await service.claimed()
    sealed = (await service.seal(turn, [])).json
    assert (sealed["state"], sealed["messages"]) == ("replied", [])


async def test_the_same_seal_again_answers_the_same_whatever_its_spelling(service: Service) -> None:
    turn = await service.claimed(conversation="c")
    path, token = f"/v1/turns/{turn['id']}/seal", turn["lease_token"]
    first = await service.seal(turn, [ONE])
    spelled = (
        f'  {{"messages": [ {{ "delay_seconds": 0.0, "headers": null, "payload": {{"text": "hi"}} ,'
        f'"conversation": "c", "destination": "loopback"}} ], "lease_token": "{token}", "hold": null}}'
    )
    again = await service.call("POST", path, body=spelled.encode())
    assert (again.status, again.json) == (200, first.json)


async def test_another_seal_is_409_with_the_first_hash(service: Service) -> None:
    turn = await service.claimed()
    first = (await service.seal(turn, [ONE])).json
    for other in ([], [{**ONE, "payload": {"text": "hi "}}], [{**ONE, "delay_seconds": 1}]):
        answer = await service.seal(turn, other)
        assert (answer.status, answer.code) == (409, "already_sealed")
        assert answer.json["payload_hash"] == first["payload_hash"]
    body = {"lease_token": turn["lease_token"]}
    renewed = await service.post(f"/v1/turns/{turn['id']}/renew", body)
    assert (renewed.code, renewed.json["reason"]) == ("lease_lost", "sealed")


@asynccontextmanager
async def reconfigured(service: Service, **changed: Any) -> AsyncIterator[Service]:
    """Another replica on the same database, under a configuration that has changed."""
    settings = service.core.settings.model_copy(update=changed)
    core = replace(service.core, settings=settings, routes=build_routes(settings))
    async with serving(replace(core, draining=Draining())) as other:
        other.keys = service.keys
        yield other


async def test_a_seal_that_is_repeated_is_answered_whatever_the_configuration_allows_by_now(
    service: Service,
) -> None:
    messages = [{**ONE, "to": "ann", "headers": {"x-tag": "a"}}, ONE]
    destinations = dict(service.core.settings.destinations)
    changes: list[dict[str, Any]] = [
        {"destinations": {name: destinations[name] for name in ("crm", "other")}},
        {"destinations": destinations | {"loopback": Destination(kind="loopback")}},
        {"queues": {name: Queue() for name in ("support", "chatty")}},
        {"queues": {"default": Queue(destinations=("crm",))}},
        {"limits": Limits(set_bytes_max=1024)},
    ]
    for n, change in enumerate(changes):
        messages[1] = {**ONE, "payload": "x" * 2000}
        turn = await service.claimed(f"k{n}")
        fresh = await service.claimed(f"l{n}")
        first = await service.seal(turn, messages)
        assert first.status == 200
        async with reconfigured(service, **change) as other:
            again = await other.seal(turn, messages)
            assert (again.status, again.json) == (200, first.json), change
            another = await other.seal(turn, [*messages, ONE])
            assert (another.status, another.code) == (409, "already_sealed"), change
            assert another.json["payload_hash"] == first.json["payload_hash"]
            refused = await other.seal(fresh, messages)
            assert refused.status == (503 if refused.code == "queue_not_configured" else 422)
            lost = {**turn, "lease_token": str(uuid4())}
            assert (await other.seal(lost, messages)).status == refused.status
            half = [{**ONE, "headers": {"x-\ud800": "a"}}]
            assert (await other.seal(turn, half)).status in (422, 503)
        shown = (await service.get(f"/v1/turns/{fresh['id']}")).json
        assert shown["state"] == "processing"


async def test_the_slice_of_a_payload_is_what_is_sent(service: Service) -> None:
    turn = await service.claimed()
    payload = b'{ "b":1, "a":2, "b":3, "n":12345678901234567890123 }'
    body = b'{"lease_token":"%b","messages":[{"destination":"loopback","payload": %b }]}' % (
        turn["lease_token"].encode(),
        payload,
    )
    sealed = await service.call("POST", f"/v1/turns/{turn['id']}/seal", body=body)
    message = sealed.json["messages"][0]["id"]
    shown = await service.get(f"/v1/outbox/{message}")
    assert b'"payload":' + payload in shown.body


async def test_bytes_are_sealed_in_base64_with_their_type(service: Service) -> None:
    turn = await service.claimed()
    encoded = base64.b64encode(b"\x00\xff").decode()
    message = {"destination": "loopback", "payload_base64": encoded, "content_type": "a/b"}
    sealed = (await service.seal(turn, [message])).json
    shown = (await service.get(f"/v1/outbox/{sealed['messages'][0]['id']}")).json
    assert (shown["payload_base64"], shown["content_type"]) == (encoded, "a/b")


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"destination": None}, "/messages/0/destination", "destination_missing"),
        ({"destination": "nope"}, "/messages/0/destination", "destination_unknown"),
        ({"destination": 5}, "/messages/0/destination", "wrong_type"),
        ({"payload": None}, "/messages/0/payload", "payload_missing"),
        ({"payload_base64": "YQ=="}, "/messages/0/payload", "payload_ambiguous"),
        ({"content_type": "text/plain"}, "/messages/0/content_type", "content_type_invalid"),
        ({"headers": []}, "/messages/0/headers", "wrong_type"),
        ({"headers": {"x-tag": 1}}, "/messages/0/headers/x-tag", "wrong_type"),
        ({"headers": {"x-other": "a"}}, "/messages/0/headers/x-other", "header_not_allowed"),
        ({"headers": {"x-tag": "a\r\nb: c"}}, "/messages/0/headers/x-tag", "header_value_invalid"),
        ({"delay_seconds": -0.1}, "/messages/0/delay_seconds", "out_of_range"),
        ({"delay_seconds": 31_536_001}, "/messages/0/delay_seconds", "out_of_range"),
        ({"conversation": "other"}, "/messages/0/conversation", "conversation_not_allowed"),
        ({"conversation": "a\u0000"}, "/messages/0/conversation", "conversation_invalid"),
        ({"to": ""}, "/messages/0/to", "text_invalid"),
        ({"to": "\ud800"}, "/messages/0/to", "text_invalid"),
        ({"destination": "crm", "to": "bob"}, "/messages/0/to", "to_not_allowed"),
        ({"destination": "other", "to": "bob"}, "/messages/0/to", "to_not_allowed"),
        ({"url": "http://x"}, "/messages/0/url", "unknown_field"),
    ],
)
async def test_a_message_that_cannot_be_sent_changes_nothing(
    service: Service, change: dict[str, Any], pointer: str, code: str
) -> None:
    turn = await service.claimed()
    answer = await service.seal(turn, [{**ONE, **change}])
    assert answer.status == 422
    problems = [(one["pointer"], one["code"]) for one in answer.json["errors"]]
    assert (pointer, code) in problems
    if len(problems) == 1:
        assert answer.code == code
    shown = (await service.get(f"/v1/turns/{turn['id']}")).json
    assert (shown["state"], shown["messages"]) == ("processing", [])
    assert (await service.seal(turn, [ONE])).status == 200


async def test_headers_that_belong_to_the_channel_are_refused_even_if_allowed(
    service: Service,
) -> None:
    turn = await service.claimed()
    for name in ("Authorization", "webhook-id", "Host", "X-\ud800"):
        answer = await service.seal(turn, [{**ONE, "headers": {name: "a"}}])
        codes = {one["code"] for one in answer.json["errors"]}
        assert answer.status == 422
        assert codes & {"header_reserved", "header_name_invalid"}


async def test_the_order_of_a_set_is_strict_or_left_out(service: Service) -> None:
    turn = await service.claimed()
    for value, code in (("", "order_unknown"), ("loose", "order_unknown"), (False, "wrong_type")):
        answer = await service.seal(turn, [ONE], order=value)
        assert (answer.status, answer.code) == (422, code)
        assert answer.json["errors"][0]["pointer"] == "/order"
    assert (await service.seal(turn, [ONE], order=None)).status == 200


async def test_strict_order_is_part_of_what_was_sealed(service: Service) -> None:
    turn = await service.claimed()
    first = (await service.seal(turn, [ONE, ONE], order="strict")).json
    one, other = first["messages"]
    assert (await service.get(f"/v1/outbox/{other['id']}")).json["blocked_by"] == one["id"]
    assert (await service.seal(turn, [ONE, ONE], order="strict")).json == first
    answer = await service.seal(turn, [ONE, ONE])
    assert (answer.status, answer.code) == (409, "already_sealed")
    assert answer.json["payload_hash"] == first["payload_hash"]


async def test_a_misspelt_field_seals_nothing(service: Service) -> None:
    turn = await service.claimed()
    assert (await service.seal(turn, [ONE], hould={})).code == "unknown_field"
    assert (await service.seal(turn, [ONE])).status == 200


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        (None, "required"),
        ({}, "wrong_type"),
        ("x", "wrong_type"),
        ([5], "wrong_type"),
        ([ONE] * 6, "too_many"),
        ([{**ONE, "payload": "x" * 25_000}] * 4, "set_too_large"),
    ],
)
async def test_a_set_that_is_none_is_refused(service: Service, messages: Any, code: str) -> None:
    turn = await service.claimed()
    answer = await service.seal(turn, messages)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"].startswith("/messages")


async def test_everything_that_is_wrong_with_a_set_is_told_at_once(service: Service) -> None:
    turn = await service.claimed()
    wrong = [
        {**ONE, "destination": "nope"},
        ONE,
        {"destination": "crm", "to": "bob", "headers": {"x-tag": "a"}},
    ]
    answer = await service.seal(turn, wrong, order="loose")
    assert answer.code == "invalid_content"
    assert {(one["pointer"], one["code"]) for one in answer.json["errors"]} >= {
        ("/order", "order_unknown"),
        ("/messages/0/destination", "destination_unknown"),
        ("/messages/2/payload", "payload_missing"),
    }


async def test_a_queue_keeps_its_turns_to_its_destinations(service: Service) -> None:
    turn = await service.claimed(queue="support")
    answer = await service.seal(turn, [{**ONE, "destination": "other"}])
    assert answer.code == "destination_unknown"
    allowed = [{**ONE, "destination": "crm", "to": "ann@example.org"}, {**ONE, "to": "anybody"}]
    assert (await service.seal(turn, allowed)).status == 200


async def test_a_message_stays_in_its_turns_conversation_unless_the_queue_allows_any(
    service: Service,
) -> None:
    turn = await service.claimed(conversation="c")
    sealed = (await service.seal(turn, [ONE, {**ONE, "conversation": "c"}])).json
    for one in sealed["messages"]:
        assert (await service.get(f"/v1/outbox/{one['id']}")).json["conversation"] == "c"
    free = await service.claimed("k2", queue="open", conversation="c")
    sealed = (await service.seal(free, [{**ONE, "conversation": "d"}])).json
    (one,) = sealed["messages"]
    assert (await service.get(f"/v1/outbox/{one['id']}")).json["conversation"] == "d"


async def test_the_seal_of_a_conversation_wakes_who_waits_for_the_next_turn(
    service: Service,
) -> None:
    turn = await service.claimed("k1", conversation="c")
    await service.accept("k2", conversation="c")
    assert (await service.claim()).json == {"turns": []}
    assert (await service.seal(turn, [])).status == 200
    (following,) = (await service.claim()).json["turns"]
    assert following["conversation"] == "c"


def test_a_whole_set_in_base64_fits_into_the_body_of_a_seal() -> None:
    limits = Limits()
    assert body_bytes_max(limits) >= limits.set_bytes_max * 4 / 3 + limits.messages_max * 4200
    small = Limits(set_bytes_max=1024, messages_max=1)
    assert body_bytes_max(small) == small.body_bytes_max
