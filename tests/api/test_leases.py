"""What a lease allows over HTTP: to renew it and to give its turn back; and what a token that is lost does not."""

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from app.engine.sweep import sweep_turns
from tests.api.conftest import Service

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_renewing_restores_the_lease(service: Service, travel: "Travel") -> None:
    turn = await service.claimed()
    await travel(30)
    answer = await service.post(
        f"/v1/turns/{turn['id']}/renew", {"lease_token": turn["lease_token"]}
    )
    assert answer.json == {"lease_expires_in_seconds": 60.0, "stop": None, "newer_inbound": 0}


async def test_of_what_was_used_the_greatest_total_ever_told_is_kept(
    service: Service, admin: "Admin"
) -> None:
    turn = await service.claimed()
    told: list[dict[str, object]] = [{"calls": 3}, {"calls": 2, "money": "0.50"}, {"money": 0.25}]
    for usage in told:
        body = {"lease_token": turn["lease_token"], "usage": usage}
        assert (await service.post(f"/v1/turns/{turn['id']}/renew", body)).status == 200
    kept = json.loads(await admin.fetchval("select usage from sink.attempt"))
    assert kept == {"calls": 3, "money": 0.5}


async def test_new_names_each_time_do_not_make_a_usage_without_end(
    service: Service, admin: "Admin"
) -> None:
    turn = await service.claimed()
    for n in range(4):
        usage = {f"field_{7 * n + m:02}": 1 for m in range(7)} | {"field_00": n + 1}
        body = {"lease_token": turn["lease_token"], "usage": usage}
        assert (await service.post(f"/v1/turns/{turn['id']}/renew", body)).status == 200
    kept = json.loads(await admin.fetchval("select usage from sink.attempt"))
    # Those that were told first, and what was told of them last.
    assert sorted(kept) == [f"field_{n:02}" for n in range(20)]
    assert kept["field_00"] == 4


@pytest.mark.parametrize(
    "usage",
    [
        "3",
        [3],
        {"calls": -1},
        {"calls": True},
        {"calls": None},
        {"calls": "many"},
        {"calls": 1e300},
        {"": 1},
        {"a\x00b": 1},
        {f"field_{n}": 1 for n in range(21)},
    ],
)
async def test_a_usage_that_is_no_total_is_refused(service: Service, usage: object) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "usage": usage}
    answer = await service.post(f"/v1/turns/{turn['id']}/renew", body)
    assert answer.status == 422
    assert answer.json["errors"][0]["pointer"] == "/usage"


async def test_a_release_is_free_and_can_be_repeated(service: Service) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "reason": "later\nplease"}
    for _ in range(2):
        answer = await service.post(f"/v1/turns/{turn['id']}/release", body)
        assert answer.json == {"turn": turn["id"], "state": "queued"}
    (again,) = (await service.claim()).json["turns"]
    assert again["attempt"] == 2
    assert [(one["attempt"], one["ended"], one["reason"]) for one in again["history"]] == [
        (1, "released", "later\nplease")
    ]


async def test_a_failed_attempt_backs_off_and_a_final_one_ends_the_turn(service: Service) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "reason": "error", "failed": True}
    answer = await service.post(f"/v1/turns/{turn['id']}/release", body)
    assert answer.json["state"] == "queued"
    (again,) = (await service.claim(wait_seconds=5)).json["turns"]
    assert again["history"][0]["ended"] == "failed"
    body = {"lease_token": again["lease_token"], "reason": "for good", "final": True}
    answer = await service.post(f"/v1/turns/{turn['id']}/release", body)
    assert answer.json["state"] == "failed"


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"reason": None}, "/reason", "required"),
        ({"reason": ""}, "/reason", "text_invalid"),
        ({"reason": "\u0000"}, "/reason", "text_invalid"),
        ({"reason": "\udfff"}, "/reason", "text_invalid"),
        ({"reason": "x" * 1001}, "/reason", "text_invalid"),
        ({"delay_seconds": -1}, "/delay_seconds", "out_of_range"),
        ({"failed": 1}, "/failed", "wrong_type"),
        ({"final": "yes"}, "/final", "wrong_type"),
        ({"lease_token": None}, "/lease_token", "required"),
        ({"lease_token": 5}, "/lease_token", "wrong_type"),
    ],
)
async def test_a_release_that_makes_no_sense_is_422(
    service: Service, fields: dict[str, Any], pointer: str, code: str
) -> None:
    turn = await service.claimed()
    body = {"lease_token": turn["lease_token"], "reason": "r", **fields}
    answer = await service.post(f"/v1/turns/{turn['id']}/release", body)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer


BODIES: dict[str, dict[str, Any]] = {
    "renew": {},
    "release": {"reason": "r"},
    "seal": {"messages": []},
}


@pytest.mark.parametrize("verb", BODIES)
@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "\u0000",
        "\ud800",
        "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
        "{6f9619ff-8b86-4d01-b42d-00cf4fc964ff}",
    ],
)
async def test_a_token_that_never_was_is_409(service: Service, verb: str, token: str) -> None:
    turn = await service.claimed()
    body = {"lease_token": token, **BODIES[verb]}
    answer = await service.post(f"/v1/turns/{turn['id']}/{verb}", body)
    assert (answer.status, answer.code) == (409, "lease_lost")
    assert answer.json["turn_state"] == "processing"


@pytest.mark.parametrize("verb", BODIES)
async def test_a_swept_holder_is_told_so(service: Service, travel: "Travel", verb: str) -> None:
    turn = await service.claimed()
    await travel(120)
    core = service.core
    await sweep_turns(core.pool, policies=core.turn_policies, jitter=core.jitter, turns_max=10)
    body = {"lease_token": turn["lease_token"], **BODIES[verb]}
    answer = await service.post(f"/v1/turns/{turn['id']}/{verb}", body)
    assert (answer.status, answer.code, answer.json["reason"]) == (409, "lease_lost", "swept")
    assert answer.json["turn_state"] == "queued"


@pytest.mark.parametrize("verb", BODIES)
async def test_a_turn_that_does_not_exist_is_404(service: Service, verb: str) -> None:
    body = {"lease_token": str(uuid4()), **BODIES[verb]}
    answer = await service.post(f"/v1/turns/turn_{'0' * 26}/{verb}", body)
    assert (answer.status, answer.code) == (404, "not_found")
