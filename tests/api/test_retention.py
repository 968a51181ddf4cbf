"""What was removed after its time is 410 for who may see its queue, and a conversation is erased on demand."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.core import retention_windows
from app.domain.ids import MESSAGE_PREFIX, parse_id
from app.domain.model import Settlement, Slots, Verdict
from app.engine import erase
from app.engine.expire import expire_tombstones
from app.engine.keys import create_key
from app.engine.purge import FIRST, purge
from app.engine.settle import settle
from app.engine.take import take
from tests.api.conftest import Answer, Service

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

DAY = 86_400.0
MESSAGE = {"destination": "crm", "payload": 1}
ERASE = "/v1/conversations/erase"


async def _deliver(service: Service) -> None:
    """What the delivery worker does, by hand."""
    (taken,) = (await take(service.core.pool, [Slots("crm", 1, 30.0)])).messages
    done = Settlement(taken.message, taken.attempt_id, Verdict("delivered"))
    await settle(service.core.pool, [done])


async def _replied(service: Service, **fields: Any) -> dict[str, Any]:
    turn = await service.claimed(**{"conversation": "c", **fields})
    sealed = (await service.seal(turn, [MESSAGE])).json
    await _deliver(service)
    return turn | {"message": sealed["messages"][0]["id"]}


async def _purged(service: Service, travel: "Travel", **fields: Any) -> dict[str, Any]:
    turn = await _replied(service, **fields)
    await travel(31 * DAY)
    done = await purge(
        service.core.pool,
        windows=retention_windows(service.core.settings),
        after=FIRST,
        rows_max=100,
    )
    assert done.counts["turn"] == 1
    return turn


def _reads(turn: dict[str, Any]) -> list[str]:
    inbound = turn["inbound"][0]["id"]
    return [
        f"/v1/turns/{turn['id']}",
        f"/v1/turns/{turn['id']}?wait=replied&timeout_seconds=5",
        f"/v1/turns/{turn['id']}/events",
        f"/v1/inbound/{inbound}",
        f"/v1/inbound/{inbound}/payload",
        f"/v1/outbox/{turn['message']}",
    ]


async def test_whoever_asks_for_what_was_purged_is_told_so(
    service: Service, travel: "Travel"
) -> None:
    turn = await _purged(service, travel)
    for path in _reads(turn):
        answer = await service.get(path)
        assert (answer.status, answer.code) == (410, "purged"), path
        assert answer.json["turn"] == turn["id"]
        assert answer.json["purged_at"].endswith("Z")
        state = "delivered" if "outbox" in path else "replied"
        assert answer.json["state"] == state


async def test_a_key_of_another_queue_is_told_nothing_of_what_was_purged(
    service: Service, travel: "Travel"
) -> None:
    turn = await _purged(service, travel)
    for path in _reads(turn):
        answer = await service.get(path, scope="support")
        assert (answer.status, answer.code) == (404, "not_found"), path
    own = await _purged(service, travel, key="own", queue="support")
    for path in _reads(own):
        assert (await service.get(path, scope="support")).status == 410, path


async def test_what_an_operator_or_an_agent_wants_of_what_was_purged_is_410(
    service: Service, travel: "Travel"
) -> None:
    turn = await _purged(service, travel)
    path, token = f"/v1/turns/{turn['id']}", {"lease_token": turn["lease_token"]}
    answers: list[Answer] = [
        await service.post(f"{path}/cancel", {}),
        await service.post(f"{path}/redrive", {}),
        await service.post(f"{path}/renew", token),
        await service.post(f"{path}/release", token | {"reason": "late"}),
        await service.post(f"{path}/seal", token | {"messages": []}),
        await service.post(f"/v1/outbox/{turn['message']}/cancel", {}),
        await service.post(f"/v1/outbox/{turn['message']}/redrive", {}),
        await service.post(f"/v1/outbox/{turn['message']}/resend", {}),
        await service.post(f"/v1/outbox/{turn['message']}/resolve", {"state": "delivered"}),
    ]
    assert [(answer.status, answer.code) for answer in answers] == [(410, "purged")] * 9


async def test_an_id_of_another_kind_is_not_found(service: Service, travel: "Travel") -> None:
    turn = await _purged(service, travel)
    inbound = turn["inbound"][0]["id"]
    for path in (f"/v1/turns/{inbound}", f"/v1/outbox/{turn['id']}", f"/v1/inbound/{turn['id']}"):
        assert (await service.get(path)).status == 404
    disguised = "turn_" + inbound.removeprefix("in_")
    assert (await service.get(f"/v1/turns/{disguised}")).status == 404


async def test_a_duplicate_of_what_was_purged_gets_its_handle_and_final_state(
    service: Service, travel: "Travel"
) -> None:
    turn = await _purged(service, travel, key="k9")
    again = await service.accept("k9", conversation="c")
    assert (again.status, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert (again.json["turn"], again.json["state"]) == (turn["id"], "replied")
    assert again.json["id"] == turn["inbound"][0]["id"]
    other = await service.accept("k9", conversation="c", payload=2)
    assert (other.status, other.code) == (422, "idempotency_key_reused")


async def test_after_its_tombstone_it_is_not_found(
    service: Service, travel: "Travel", admin: "Admin"
) -> None:
    turn = await _purged(service, travel)
    await admin.execute("delete from sink.idempotency_key")
    now = await admin.fetchval("select sink.now() + interval '31 days'")
    assert await expire_tombstones(service.core.pool, until=now, rows_max=10) == 3
    for path in _reads(turn):
        assert (await service.get(path)).status == 404


async def test_a_conversation_is_erased(service: Service) -> None:
    turn = await _replied(service)
    answer = await service.post(ERASE, {"queue": "default", "conversation": "c"})
    assert answer.status == 200
    counts = {"turns": 1, "inbound": 1, "attempts": 1, "messages": 1, "loopback": 0}
    assert counts.items() <= answer.json.items()
    assert (answer.json["done"], answer.json["next_cursor"]) == (True, None)
    for path in _reads(turn):
        assert (await service.get(path)).code == "purged"
    again = await service.post(ERASE, {"conversation": "c"})
    assert (again.status, again.json["turns"]) == (200, 0)


async def test_a_conversation_that_lives_is_erased_only_if_it_may_be_cancelled(
    service: Service,
) -> None:
    turn = await service.claimed(conversation="c")
    answer = await service.post(ERASE, {"conversation": "c"})
    assert (answer.status, answer.code) == (409, "conversation_live")
    assert (answer.json["live"], answer.json["sending"]) == (1, 0)
    assert (await service.get(f"/v1/turns/{turn['id']}")).json["state"] == "processing"
    answer = await service.post(ERASE, {"conversation": "c", "cancel": True})
    assert (answer.status, answer.json["turns"]) == (200, 1)
    seal = await service.seal(turn, [])
    assert (seal.status, seal.code) == (410, "purged")


async def test_what_is_being_sent_right_now_is_tried_again(service: Service) -> None:
    turn = await service.claimed(conversation="c")
    await service.seal(turn, [MESSAGE])
    (taken,) = (await take(service.core.pool, [Slots("crm", 1, 30.0)])).messages
    answer = await service.post(ERASE, {"conversation": "c", "cancel": True})
    assert (answer.status, answer.code) == (409, "conversation_sending")
    done = Settlement(taken.message, taken.attempt_id, Verdict("delivered"))
    await settle(service.core.pool, [done])
    answer = await service.post(ERASE, {"conversation": "c", "cancel": True})
    assert (answer.status, answer.json["turns"]) == (200, 1)


async def test_where_an_erasure_goes_on_names_no_message_of_another_queue(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.keys["open"] = await create_key(
        service.core.pool, name="open", scopes=["admin"], queues=["open"]
    )
    monkeypatch.setattr(erase, "STEPS_MAX", 2)
    monkeypatch.setattr(erase, "MESSAGES_MAX", 1)
    foreign = (await _replied(service, key="k1", queue="support"))["message"]
    body = {"queue": "open", "conversation": "c"}
    answer = (await service.post(ERASE, body, scope="open")).json
    assert not answer["done"]
    cursor = UUID(answer["next_cursor"])
    assert cursor != parse_id(MESSAGE_PREFIX, foreign)
    assert cursor.int % (1 << 80) == 0
    monkeypatch.undo()
    body["cursor"] = answer["next_cursor"]
    assert (await service.post(ERASE, body, scope="open")).json["done"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "required"),
        ({"conversation": ""}, "conversation_invalid"),
        ({"conversation": "c", "cursor": "x"}, "cursor_invalid"),
        ({"conversation": "c", "cancel": 1}, "wrong_type"),
        ({"conversation": "c", "more": 1}, "unknown_field"),
        ({"conversation": "c", "queue": 5}, "wrong_type"),
        ({"conversation": "c", "queue": "a\x00b"}, "name_invalid"),
        ({"conversation": "c", "queue": "\ud800"}, "name_invalid"),
        ({"conversation": "c", "queue": "misspelt"}, "queue_unknown"),
    ],
)
async def test_an_erasure_that_makes_no_sense_is_refused(
    service: Service, body: object, code: str
) -> None:
    answer = await service.post(ERASE, body)
    assert (answer.status, answer.code) == (422, code)


@pytest.mark.parametrize("scope", ["accept", "agent", "approve", "read", "support"])
async def test_only_an_administrator_erases(service: Service, scope: str) -> None:
    answer = await service.post(ERASE, {"conversation": "c"}, scope=scope)
    assert (answer.status, answer.code) == (403, "scope_missing")
