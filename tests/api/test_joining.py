"""Several short messages of one conversation reach the agent as one turn, where the queue says so."""

from typing import TYPE_CHECKING

from tests.api.conftest import Service

if TYPE_CHECKING:
    from tests.conftest import Travel


async def test_short_messages_are_one_turn_and_each_has_its_own_handle(
    service: Service, travel: "Travel"
) -> None:
    accepted = [
        (await service.accept(f"k{n}", queue="chatty", conversation="c", payload={"n": n})).json
        for n in range(3)
    ]
    assert len({one["turn"] for one in accepted}) == 1
    assert len({one["id"] for one in accepted}) == 3
    assert (await service.claim(queue="chatty")).json == {"turns": []}
    again = await service.accept("k1", queue="chatty", conversation="c", payload={"n": 1})
    assert (again.status, again.json["id"]) == (200, accepted[1]["id"])
    assert again.json["turn"] == accepted[0]["turn"]
    await travel(6)
    (turn,) = (await service.claim(queue="chatty")).json["turns"]
    assert [one["payload"] for one in turn["inbound"]] == [{"n": n} for n in range(3)]
    assert [one["id"] for one in turn["inbound"]] == [one["id"] for one in accepted]
    for one in accepted:
        assert (await service.get(f"/v1/inbound/{one['id']}")).json["state"] == "processing"


async def test_the_holder_hears_of_newer_inbound_and_they_are_the_next_turn(
    service: Service, travel: "Travel"
) -> None:
    await service.accept("a", queue="chatty", conversation="c")
    await travel(6)
    (turn,) = (await service.claim(queue="chatty")).json["turns"]
    renew = {"lease_token": turn["lease_token"]}
    path = f"/v1/turns/{turn['id']}/renew"
    assert (await service.post(path, renew)).json["newer_inbound"] == 0
    newer = [(await service.accept(key, queue="chatty", conversation="c")).json for key in "bd"]
    assert newer[0]["turn"] == newer[1]["turn"] != turn["id"]
    assert (await service.post(path, renew)).json["newer_inbound"] == 2


async def test_the_bound_of_joining_is_five_quiet_periods_unless_configured(
    service: Service, travel: "Travel"
) -> None:
    await service.accept("k0", queue="chatty", conversation="c")
    for n in range(1, 7):
        await travel(4)
        await service.accept(f"k{n}", queue="chatty", conversation="c")
    assert (await service.claim(queue="chatty")).json == {"turns": []}
    await travel(2)
    (turn,) = (await service.claim(queue="chatty")).json["turns"]
    assert len(turn["inbound"]) == 7


async def test_a_turn_gathers_no_more_than_one_answer_holds(
    service: Service, travel: "Travel"
) -> None:
    limit = service.core.settings.limits.answer_bytes_max
    big = {"queue": "chatty", "conversation": "c", "payload": "x" * (limit // 3)}
    accepted = [(await service.accept(f"k{n}", **big)).json for n in range(4)]
    turns = [one["turn"] for one in accepted]
    assert turns[0] == turns[1] != turns[2] == turns[3]
    await travel(6)
    (turn,) = (await service.claim(queue="chatty", max_turns=5)).json["turns"]
    assert all("payload" in one for one in turn["inbound"])


async def test_a_queue_that_does_not_say_so_joins_nothing(service: Service) -> None:
    first, second = [(await service.accept(key, conversation="c")).json for key in "ab"]
    assert first["turn"] != second["turn"]
    assert len((await service.claim(max_turns=5)).json["turns"]) == 1
