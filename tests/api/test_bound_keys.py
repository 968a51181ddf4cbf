"""A key sees what it is for: its queue, and no messages where it only accepts."""

from typing import Any

from tests.api.conftest import Service


async def test_a_key_bound_to_a_queue_finds_nothing_of_another(service: Service) -> None:
    mine = (await service.accept("k1", queue="support", scope="support")).json
    other = (await service.accept("k2")).json
    turn = await service.claimed("k3")
    sealed = (await service.seal(turn, [{"destination": "loopback", "payload": 1}])).json
    nothing = await service.get("/v1/turns/turn_" + "0" * 26, scope="support")
    for path in (
        f"/v1/inbound/{other['id']}",
        f"/v1/inbound/{other['id']}/payload",
        f"/v1/turns/{other['turn']}",
        f"/v1/turns/{other['turn']}/events",
        f"/v1/outbox/{sealed['messages'][0]['id']}",
    ):
        answer = await service.get(path, scope="support")
        assert (answer.status, answer.body) == (404, nothing.body)
    assert (await service.get(f"/v1/turns/{mine['turn']}", scope="support")).status == 200
    verbs: dict[str, dict[str, Any]] = {
        "renew": {},
        "release": {"reason": "r"},
        "seal": {"messages": []},
    }
    for verb, own in verbs.items():
        body = {"lease_token": turn["lease_token"], **own}
        answer = await service.post(f"/v1/turns/{turn['id']}/{verb}", body, scope="support")
        assert (answer.status, answer.body) == (404, nothing.body)


async def test_a_foreign_queue_is_the_same_as_an_unknown_one(service: Service) -> None:
    bodies = set()
    for queue in ("open", "nope", None):
        accepted = await service.accept("k1", queue=queue, scope="support")
        assert (accepted.status, accepted.code) == (422, "queue_unknown")
        bodies.add(accepted.body)
    for queue in ("open", "nope"):
        claimed = await service.claim(queue=queue, scope="support")
        assert (claimed.status, claimed.code) == (422, "queue_unknown")
        bodies.add(claimed.body)
    assert len(bodies) == 1


async def test_a_key_that_only_accepts_sees_no_messages(service: Service) -> None:
    turn = await service.claimed()
    await service.seal(turn, [{"destination": "loopback", "payload": 1}])
    inbound = turn["inbound"][0]["id"]
    for path in (f"/v1/turns/{turn['id']}", f"/v1/inbound/{inbound}"):
        assert {"messages", "follow_ups", "seals"}.isdisjoint(
            (await service.get(path, scope="accept")).json
        )
        for scope in ("agent", "approve", "read", "admin"):
            assert len((await service.get(path, scope=scope)).json["messages"]) == 1
    path = f"/v1/turns/{turn['id']}/events"
    seen = (await service.get(path, scope="accept")).json["items"]
    assert {one["message"] for one in seen} == {None}
    assert len((await service.get(path, scope="agent")).json["items"]) == len(seen) + 1
