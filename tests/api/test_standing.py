"""What waits for people is shown to those who may know it: its set, its deadline, what was decided and what follows."""

import base64
from typing import TYPE_CHECKING, Any

from app.engine.keys import create_key
from app.workers.operations import work_on_operations
from tests.api.conftest import Service
from tests.engine.walks import DAY, purge_turns

if TYPE_CHECKING:
    from tests.database import Admin, Clock

WORDS = "a very private matter"
ONE: dict[str, Any] = {"destination": "loopback", "payload": {"text": WORDS}}
HOLD = {"note": WORDS, "deadline_seconds": 3600}


async def held(service: Service, key: str = "k1", **fields: Any) -> dict[str, Any]:
    """A turn whose set waits: what its seal was answered."""
    turn = await service.claimed(key, conversation=fields.pop("conversation", None), **fields)
    later = [{"payload": {"text": WORDS}, "delay_seconds": 60, "key": f"later-{key}"}]
    sealed: dict[str, Any] = (await service.seal(turn, [ONE], hold=HOLD, follow_ups=later)).json
    assert sealed["state"] == "held"
    return sealed


async def decide(service: Service, sealed: dict[str, Any], decision: str, **fields: Any) -> None:
    body = {"decision": decision, "payload_hash": sealed["payload_hash"], "by": "Ada", **fields}
    answer = await service.post(f"/v1/turns/{sealed['turn']}/decision", body, scope="approve")
    assert answer.status == 200, answer.body


async def shown(service: Service, turn: str, scope: str = "approve") -> dict[str, Any]:
    answer = await service.get(f"/v1/turns/{turn}", scope=scope)
    assert answer.status == 200
    fields: dict[str, Any] = answer.json
    return fields


async def test_a_turn_that_waits_for_nobody_says_so(service: Service) -> None:
    turn = await service.claimed()
    waiting = await shown(service, turn["id"])
    for name in ("hold", "wait", "about", "root", "payload_hash"):
        assert waiting[name] is None
    assert [waiting[name] for name in ("depth", "messages", "follow_ups", "seals")] == [
        0,
        [],
        [],
        [],
    ]
    sealed = (await service.seal(turn, [ONE])).json
    fields = await shown(service, turn["id"])
    assert fields["hold"] is None
    assert fields["seals"] == [{"seal": 1, "payload_hash": sealed["payload_hash"], "is_live": True}]


async def test_an_approver_sees_what_he_decides_about(service: Service) -> None:
    sealed = await held(service)
    fields = await shown(service, sealed["turn"])
    hold = fields["hold"]
    assert hold == sealed["hold"]
    assert (hold["state"], hold["note"], hold["on_deadline"]) == ("open", WORDS, "escalate")
    assert hold["payload_hash"] == fields["payload_hash"] == sealed["payload_hash"]
    assert [one["state"] for one in fields["messages"]] == ["held"]
    (follow_up,) = fields["follow_ups"]
    assert follow_up["state"] == "held"
    assert follow_up["turn"] == sealed["follow_ups"][0]["turn"]
    whole = (await service.get(f"/v1/turns/{sealed['turn']}/set", scope="approve")).json
    assert whole["payload_hash"] == sealed["payload_hash"]
    bodies = [one["payload_base64"] for one in (*whole["messages"], *whole["follow_ups"])]
    assert {base64.b64decode(body) for body in bodies} == {b'{"text": "%b"}' % WORDS.encode()}
    message = (await service.get(f"/v1/outbox/{sealed['messages'][0]['id']}", scope="approve")).json
    assert message["payload"] == ONE["payload"]
    inbound = (await service.get(f"/v1/inbound/{fields['inbound']}", scope="approve")).json
    assert inbound["payload"] == {"n": 1}
    events = (await service.get(f"/v1/turns/{sealed['turn']}/events", scope="approve")).json[
        "items"
    ]
    assert events[-1]["to"] == "held"


async def test_a_key_that_only_accepts_reads_no_word_of_those_inside(service: Service) -> None:
    sealed = await held(service)
    await decide(service, sealed, "revise", comment=WORDS, by=WORDS)
    fields = await shown(service, sealed["turn"], scope="accept")
    assert fields["hold"]["decision"] == "revise"
    assert {"messages", "follow_ups", "seals"}.isdisjoint(fields)
    turn = (await service.claim()).json["turns"][0]
    park = {"lease_token": turn["lease_token"], "name": "n", "note": WORDS}
    assert (await service.post(f"/v1/turns/{turn['id']}/park", park)).status == 200
    for path in (f"/v1/turns/{turn['id']}", f"/v1/inbound/{fields['inbound']}", "/v1/turns",
                 f"/v1/turns/{turn['id']}/events"):  # fmt: skip
        answer = await service.get(path, scope="accept")
        assert answer.status == 200
        assert WORDS not in answer.body.decode(), path
    refused = await service.get(f"/v1/turns/{turn['id']}/set", scope="accept")
    assert (refused.status, refused.code) == (403, "scope_missing")
    assert (await shown(service, turn["id"]))["wait"]["note"] == WORDS


async def test_a_set_that_was_sent_back_is_read_under_its_number(service: Service) -> None:
    first = await held(service)
    await decide(service, first, "revise", comment="shorter")
    fields = await shown(service, first["turn"])
    assert (fields["state"], fields["payload_hash"]) == ("queued", None)
    assert (fields["messages"], fields["follow_ups"]) == ([], [])
    assert fields["seals"] == [{"seal": 1, "payload_hash": first["payload_hash"], "is_live": False}]
    hold = fields["hold"]
    assert [hold[name] for name in ("state", "decision", "decided_by", "comment")] == [
        "decided", "revise", "Ada", "shorter",
    ]  # fmt: skip
    (turn,) = (await service.claim()).json["turns"]
    second = (await service.seal(turn, [ONE, ONE], hold={})).json
    path = f"/v1/turns/{first['turn']}/set"
    for query, payload_hash, is_live, count in (
        ("", second["payload_hash"], True, 2),
        ("?seal=2", second["payload_hash"], True, 2),
        ("?seal=1", first["payload_hash"], False, 1),
    ):
        found = (await service.get(path + query, scope="approve")).json
        assert (found["payload_hash"], found["is_live"]) == (payload_hash, is_live)
        assert len(found["messages"]) == count
    for query, status, code in (
        ("?seal=3", 404, "not_found"),
        ("?seal=0", 422, "out_of_range"),
        ("?seal=-1", 422, "wrong_type"),
        ("?seal=99999", 422, "out_of_range"),
        ("?seal=1&seal=2", 422, "unknown_field"),
    ):
        answer = await service.get(path + query, scope="approve")
        assert (answer.status, answer.code) == (status, code), query


async def test_what_follows_is_found_from_the_turn_that_asked_for_it(service: Service) -> None:
    sealed = await held(service)
    await decide(service, sealed, "approve")
    (follow_up,) = (await shown(service, sealed["turn"]))["follow_ups"]
    assert follow_up["state"] == "scheduled"
    assert follow_up["due_at"] is not None
    listed = (await service.get(f"/v1/turns?root={sealed['turn']}", scope="approve")).json["items"]
    assert [one["id"] for one in listed] == [follow_up["turn"]]
    assert (listed[0]["root"], listed[0]["depth"]) == (sealed["turn"], 1)
    cancelled = await service.post(f"/v1/turns/{follow_up['turn']}/cancel", {})
    assert cancelled.json["state"] == "cancelled"
    (follow_up,) = (await shown(service, sealed["turn"]))["follow_ups"]
    assert (follow_up["state"], follow_up["due_at"]) == ("cancelled", None)


async def test_what_waits_is_listed_by_its_state(service: Service) -> None:
    sealed = await held(service)
    await service.accept("k2")
    (parked,) = (await service.claim()).json["turns"]
    park = {"lease_token": parked["lease_token"], "name": "n"}
    await service.post(f"/v1/turns/{parked['id']}/park", park)
    for query, turns in (
        ("held", [sealed["turn"]]),
        ("parked", [parked["id"]]),
        ("escalated", []),
        ("held,escalated,parked", [parked["id"], sealed["turn"]]),
    ):
        listed = (await service.get(f"/v1/turns?state={query}", scope="approve")).json["items"]
        assert [one["id"] for one in listed] == turns
    asking = (await service.get("/v1/turns?state=held,parked", scope="approve")).json["items"]
    assert asking[1]["hold"] == sealed["hold"]
    assert asking[0]["wait"]["name"] == "n"
    messages = (await service.get("/v1/outbox?state=held", scope="approve")).json["items"]
    assert [one["id"] for one in messages] == [sealed["messages"][0]["id"]]
    queues = (await service.get("/v1/queues")).json["items"]
    (load,) = (one["turns"] for one in queues if one["name"] == "default")
    assert (load["held"], load["parked"], load["escalated"]) == (1, 1, 0)


async def test_an_approver_of_one_queue_sees_nothing_of_another(service: Service) -> None:
    pool = service.core.pool
    key = await create_key(pool, name="a", scopes=["approve"], queues=["support"])
    other, own = await held(service, "k1"), await held(service, "k2", queue="support")
    nothing = await service.get("/v1/turns/turn_" + "0" * 26, scope=key)
    inbound = (await shown(service, other["turn"]))["inbound"]
    for path in (
        f"/v1/turns/{other['turn']}",
        f"/v1/turns/{other['turn']}/set",
        f"/v1/turns/{other['turn']}/events",
        f"/v1/outbox/{other['messages'][0]['id']}",
        f"/v1/inbound/{inbound}",
        f"/v1/inbound/{inbound}/payload",
    ):
        answer = await service.get(path, scope=key)
        assert (answer.status, answer.body) == (404, nothing.body), path
    for path in (
        "/v1/turns?state=held",
        f"/v1/turns?root={other['turn']}",
        "/v1/outbox?state=held",
    ):
        listed = (await service.get(path, scope=key)).json["items"]
        assert {one["queue"] for one in listed} <= {"support"}
    assert (await service.get(f"/v1/turns/{own['turn']}/set", scope=key)).status == 200


async def test_what_is_held_is_cancelled_by_the_many_and_never_decided(service: Service) -> None:
    turns = [(await held(service, f"k{n}"))["turn"] for n in range(3)]
    kept = (await held(service, "other", queue="support"))["turn"]
    for verb in ("approve", "edit", "reject", "revise", "decide", "signal"):
        answer = await service.post("/v1/turns/bulk", {"verb": verb, "filter": {"state": "held"}})
        assert (answer.status, answer.code) == (422, "verb_unknown")
    refused: list[tuple[str, dict[str, object]]] = [
        ("/v1/turns/bulk", {"verb": "redrive"}),
        ("/v1/outbox/bulk", {"verb": "cancel"}),
        ("/v1/outbox/bulk", {"verb": "redrive"}),
        ("/v1/outbox/bulk", {"verb": "resend"}),
        ("/v1/outbox/bulk", {"verb": "resolve", "outcome": "delivered"}),
    ]
    for path, body in refused:
        answer = await service.post(path, {**body, "filter": {"state": "held"}})
        assert (answer.status, answer.code) == (422, "state_not_for_verb"), (path, body)
    body = {"verb": "cancel", "filter": {"state": "held", "queue": "default"}}
    assert (await service.post("/v1/turns/bulk", {**body, "dry_run": True})).json["found"] == 3
    begun = (await service.post("/v1/turns/bulk", body)).json
    await work_on_operations(service.core)
    done = (await service.get(f"/v1/operations/{begun['id']}")).json
    assert (done["state"], done["found"], done["changed"]) == ("done", 3, 3)
    for turn in turns:
        fields = await shown(service, turn)
        assert (fields["state"], fields["hold"]["decision"]) == ("cancelled", "cancel")
        assert [one["state"] for one in fields["messages"]] == ["cancelled"]
        assert [one["state"] for one in fields["follow_ups"]] == ["cancelled"]
    assert (await shown(service, kept))["state"] == "held"


async def test_an_operation_over_everything_takes_in_what_waits(service: Service) -> None:
    turn = (await held(service))["turn"]
    await service.accept("k2")
    (parked,) = (await service.claim()).json["turns"]
    park = {"lease_token": parked["lease_token"], "name": "n"}
    await service.post(f"/v1/turns/{parked['id']}/park", park)
    await service.post("/v1/turns/bulk", {"verb": "cancel", "filter": {"all": True}})
    await work_on_operations(service.core)
    for one in (turn, parked["id"]):
        assert (await shown(service, one))["state"] == "cancelled"


async def test_a_set_that_was_purged_is_told_from_one_that_never_was(
    service: Service, admin: "Admin", clock: "Clock"
) -> None:
    sealed = await held(service)
    await decide(service, sealed, "reject")
    await clock.travel(31 * DAY)
    await purge_turns(service.core.pool)
    answer = await service.get(f"/v1/turns/{sealed['turn']}/set", scope="approve")
    assert (answer.status, answer.code, answer.json["state"]) == (410, "purged", "cancelled")
    assert await admin.fetchval("select count(*) from sink.hold") == 0


async def test_a_conversation_with_something_held_is_erased_if_that_may_be_cancelled(
    service: Service, admin: "Admin"
) -> None:
    sealed = await held(service, conversation="ada")
    body = {"conversation": "ada"}
    refused = await service.post("/v1/conversations/erase", body)
    assert (refused.status, refused.code, refused.json["live"]) == (409, "conversation_live", 1)
    assert (await shown(service, sealed["turn"]))["state"] == "held"
    erased = await service.post("/v1/conversations/erase", {**body, "cancel": True})
    assert (erased.json["done"], erased.json["turns"]) == (True, 1)
    answer = await service.get(f"/v1/turns/{sealed['turn']}", scope="approve")
    assert (answer.status, answer.code) == (410, "purged")
    assert await admin.fetchval("select count(*) from sink.follow_up") == 0
