"""Who demands a hold, and what of an agent's wish holds: it can be made stricter, and never looser."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from app.settings import Destination, Limits, Queue
from tests.api.conftest import Service
from tests.api.test_seals import reconfigured

ONE = {"destination": "loopback", "payload": {"text": "hi"}}
GUARDED = {"destination": "guarded", "payload": {"text": "hi"}}
LATER = {"payload": {"text": "later"}}


@pytest.fixture
async def strict(service: Service) -> AsyncIterator[Service]:
    """Queues and a destination that demand holds."""
    queues = {
        "default": Queue(),
        "always": Queue(hold="always", hold_deadline_seconds=600),
        "sends": Queue(hold="always", hold_deadline_seconds=600, on_deadline="send"),
        "cancels": Queue(hold="always", hold_deadline_seconds=600, on_deadline="cancel"),
    }
    destinations = {
        "loopback": Destination(kind="loopback"),
        "guarded": Destination(kind="loopback", hold="always"),
    }
    limits = Limits(hold_seconds_max=1000)
    async with reconfigured(
        service, queues=queues, destinations=destinations, limits=limits
    ) as other:
        yield other


async def _sealed(
    service: Service, queue: str, messages: Sequence[Mapping[str, Any]], **fields: Any
) -> dict[str, Any]:
    turn = await service.claimed("k1", queue=queue)
    answer = await service.seal(turn, messages, **fields)
    assert answer.status == 200, answer.json
    sealed: dict[str, Any] = answer.json
    return sealed


def _seconds(hold: Mapping[str, Any]) -> float:
    held, until = (datetime.fromisoformat(hold[name]) for name in ("held_at", "deadline_at"))
    return round((until - held).total_seconds())


@pytest.mark.parametrize(
    ("queue", "messages", "hold", "demanded_by"),
    [
        ("default", [ONE], None, None),
        ("default", [ONE], {}, "seal"),
        ("default", [ONE, GUARDED], None, "destination"),
        ("default", [GUARDED], {}, "destination"),
        ("always", [ONE], None, "queue"),
        ("always", [GUARDED], {}, "queue"),
        ("default", [], {}, None),
        ("always", [], None, None),
    ],
)
async def test_a_set_is_held_where_anybody_demands_it(
    strict: Service,
    queue: str,
    messages: list[dict[str, Any]],
    hold: object,
    demanded_by: str | None,
) -> None:
    sealed = await _sealed(strict, queue, messages, hold=hold)
    if demanded_by is None:
        assert sealed["hold"] is None
        assert sealed["state"] == ("sealed" if messages else "replied")
    else:
        assert (sealed["state"], sealed["hold"]["demanded_by"]) == ("held", demanded_by)
        assert {one["state"] for one in sealed["messages"]} == {"held"}


async def test_what_only_follows_is_held_too(strict: Service) -> None:
    sealed = await _sealed(strict, "always", [], follow_ups=[LATER])
    assert (sealed["state"], sealed["follow_ups"][0]["state"]) == ("held", "held")


@pytest.mark.parametrize(
    ("queue", "wished", "holds"),
    [
        ("always", None, "escalate"),
        ("always", "escalate", "escalate"),
        ("always", "cancel", "cancel"),
        ("always", "send", "escalate"),
        ("sends", None, "send"),
        ("sends", "send", "send"),
        ("sends", "escalate", "escalate"),
        ("sends", "cancel", "cancel"),
        ("cancels", None, "cancel"),
        ("cancels", "escalate", "cancel"),
        ("cancels", "send", "cancel"),
        ("default", "send", "escalate"),
    ],
)
async def test_an_agent_can_only_make_the_deadline_stricter(
    strict: Service, queue: str, wished: str | None, holds: str
) -> None:
    sealed = await _sealed(strict, queue, [ONE], hold={"on_deadline": wished})
    assert sealed["hold"]["on_deadline"] == holds


@pytest.mark.parametrize(
    ("queue", "wished", "holds"),
    [
        ("always", None, 600),
        ("always", 30, 30),
        ("always", 900, 900),
        ("always", 1000, 1000),
        ("sends", 30, 600),
        ("sends", 900, 900),
        ("cancels", 30, 30),
    ],
)
async def test_an_agent_never_leaves_a_person_less_time_before_it_is_sent(
    strict: Service, queue: str, wished: float | None, holds: float
) -> None:
    sealed = await _sealed(strict, queue, [ONE], hold={"deadline_seconds": wished})
    assert _seconds(sealed["hold"]) == holds


async def test_a_stricter_end_may_come_sooner_than_what_would_be_sent(strict: Service) -> None:
    wish = {"deadline_seconds": 30, "on_deadline": "cancel"}
    sealed = await _sealed(strict, "sends", [ONE], hold=wish)
    assert (_seconds(sealed["hold"]), sealed["hold"]["on_deadline"]) == (30, "cancel")


@pytest.mark.parametrize(
    ("hold", "pointer", "code"),
    [
        (True, "/hold", "wrong_type"),
        ([], "/hold", "wrong_type"),
        ("always", "/hold", "wrong_type"),
        ({"deadline": 5}, "/hold/deadline", "unknown_field"),
        ({"a/b~\ud800": 5}, "/hold/a~1b~0?", "unknown_field"),
        ({"deadline_seconds": 0}, "/hold/deadline_seconds", "out_of_range"),
        ({"deadline_seconds": -1}, "/hold/deadline_seconds", "out_of_range"),
        ({"deadline_seconds": 1000.5}, "/hold/deadline_seconds", "out_of_range"),
        ({"deadline_seconds": True}, "/hold/deadline_seconds", "wrong_type"),
        ({"deadline_seconds": "60"}, "/hold/deadline_seconds", "wrong_type"),
        ({"on_deadline": "sned"}, "/hold/on_deadline", "on_deadline_unknown"),
        ({"on_deadline": 5}, "/hold/on_deadline", "wrong_type"),
        ({"note": ""}, "/hold/note", "text_invalid"),
        ({"note": "x" * 4001}, "/hold/note", "text_invalid"),
        ({"note": "a\u0000b"}, "/hold/note", "text_invalid"),
    ],
)
async def test_a_wish_that_is_not_understood_seals_nothing(
    strict: Service, hold: object, pointer: str, code: str
) -> None:
    turn = await strict.claimed()
    answer = await strict.seal(turn, [ONE], hold=hold)
    assert (answer.status, answer.json["errors"][0]["code"]) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer
    assert (await strict.seal(turn, [ONE])).json["state"] == "sealed"


async def test_a_repeated_field_of_a_wish_seals_nothing(strict: Service) -> None:
    turn = await strict.claimed()
    body = (
        f'{{"lease_token": "{turn["lease_token"]}", "messages": [],'
        ' "hold": {"note": "a", "note": "b"}}'
    )
    path = f"/v1/turns/{turn['id']}/seal"
    answer = await strict.call("POST", path, body=body.encode())
    assert (answer.status, answer.code) == (422, "unknown_field")


async def test_the_same_seal_again_is_the_same_wish(strict: Service) -> None:
    turn = await strict.claimed()
    wish = {"deadline_seconds": 60, "note": "why"}
    first = await strict.seal(turn, [ONE], hold=wish)
    again = await strict.seal(
        turn, [ONE], hold={"note": "why", "deadline_seconds": 60.0, "on_deadline": None}
    )
    assert (again.status, again.json) == (200, first.json)
    for other in (None, {}, {**wish, "note": "other"}, {**wish, "deadline_seconds": 61}):
        answer = await strict.seal(turn, [ONE], hold=other)
        assert (answer.code, answer.json["payload_hash"]) == (
            "already_sealed",
            first.json["payload_hash"],
        )


async def test_a_held_seal_and_free_ones_that_meet_are_each_what_they_are(strict: Service) -> None:
    for n in range(6):
        await strict.accept(f"k{n}", conversation=f"c{n}")
    turns = (await strict.claim(max_turns=6)).json["turns"]
    async with asyncio.TaskGroup() as group:
        seals = [
            group.create_task(
                strict.seal(turn, [ONE], hold={} if n % 2 else None, follow_ups=[LATER])
            )
            for n, turn in enumerate(turns)
        ]
    answers = [seal.result() for seal in seals]
    assert [answer.json["state"] for answer in answers] == ["sealed", "held"] * 3


async def test_a_turn_shows_its_hold(strict: Service) -> None:
    sealed = await _sealed(strict, "always", [ONE])
    shown = (await strict.get(f"/v1/turns/{sealed['turn']}", scope="approve")).json
    assert (shown["state"], shown["hold"]) == ("held", sealed["hold"])
    waited = await strict.get(f"/v1/turns/{sealed['turn']}?wait=held&timeout_seconds=5")
    assert waited.json["state"] == "held"
