"""A resend is performed once it was answered, under the old key and with the sealed bytes, and moves nothing."""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.engine import inspect
from app.engine.inspect import EventView
from tests.engine.stories import (
    CRM,
    DEAD,
    DELIVERED,
    DELIVERY_POLICY,
    LATER,
    UNKNOWN,
    Sink,
    draft,
    only,
)
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

CHANGED = (True, False)
REPEATED = (False, True)


async def delivered(sink: Sink, key: str = "a") -> tuple[UUID, UUID]:
    turn, (message,) = await sink.sealed(key, draft(key, "c"), conversation="c")
    await sink.settle_next(DELIVERED)
    return turn, message


async def asked(sink: Sink) -> tuple[UUID, UUID]:
    turn, message = await delivered(sink)
    await sink.ask_resend(message)
    return turn, message


async def told(sink: Sink, turn: UUID) -> list[EventView]:
    """The moves of a message's resends."""
    events = await inspect.find_events(sink.pool, turn, after=0, events_max=100)
    return [event for event in events if event.verb == "resend"]


async def steps(sink: Sink, turn: UUID) -> list[tuple[object, ...]]:
    return [
        (e.detail["step"], e.attempt, e.detail.get("outcome"), e.reason)
        for e in await told(sink, turn)
    ]


async def test_a_resend_carries_the_key_and_the_bytes_that_were_delivered(sink: Sink) -> None:
    turn, (message,) = await sink.sealed("a", draft("hi", "c", recipient="ada", headers={"x": "1"}))
    first = await sink.take_one()
    await sink.settle((first, DELIVERED))
    await sink.ask_resend(message)
    again = only(await sink.take_resends()).taken
    assert (again.message, again.turn, again.attempt) == (message, turn, 1)
    for name in ("key", "body", "recipient", "headers", "content_type", "conversation", "queue"):
        assert getattr(again, name) == getattr(first, name)
    assert again.sealed_at == first.sealed_at
    assert again.attempt_id != first.attempt_id


async def test_a_resend_moves_neither_the_message_nor_its_turn(sink: Sink) -> None:
    turn, message = await delivered(sink)
    before = (await sink.look(turn)).messages
    (outcome,) = await sink.ask_resend(message)
    assert outcome is not None
    assert (outcome.state, outcome.changed) == ("delivered", True)
    await sink.settle_resends((only(await sink.take_resends()), replace(DELIVERED, receipt="r-2")))
    assert await sink.take_resends() == []
    assert (await sink.look(turn)).messages == before
    assert await sink.state(turn) == "replied"
    assert await steps(sink, turn) == [
        ("asked", None, None, None),
        ("begun", 1, None, None),
        ("ended", 1, "delivered", None),
    ]
    first, second, third = await told(sink, turn)
    assert first.detail["by"] == "ada"
    assert second.attempt_id == third.attempt_id
    assert third.detail == {
        "step": "ended", "outcome": "delivered", "status": 200, "answer": "ok", "receipt": "r-2",
    }  # fmt: skip


async def test_what_was_not_delivered_is_not_resent(sink: Sink) -> None:
    _, (message,) = await sink.sealed("a", draft())
    for _ in range(2):
        (outcome,) = await sink.ask_resend(message)
        assert outcome is not None
        assert (outcome.changed, outcome.repeated) == (False, False)
        await sink.settle_next(DEAD) if outcome.state == "pending" else None
    assert await sink.take_resends() == []
    assert await sink.ask_resend(UUID(int=1)) == [None]


async def test_asking_twice_before_it_is_begun_is_asking_once(sink: Sink) -> None:
    turn, message = await delivered(sink)
    answers = [*await sink.ask_resend(message, message), *await sink.ask_resend(message)]
    assert [(one.changed, one.repeated) for one in answers if one] == [
        CHANGED, CHANGED, REPEATED,
    ]  # fmt: skip
    assert len(await sink.take_resends()) == 1
    (later,) = await sink.ask_resend(message)
    assert later is not None
    assert later.changed
    assert len(await sink.take_resends()) == 1
    assert [step for step, *_ in await steps(sink, turn)] == ["asked", "begun", "asked", "begun"]


async def test_two_who_ask_at_once_ask_once(sink: Sink, suspend: Suspend) -> None:
    _, message = await delivered(sink)
    async with suspend() as first:
        assert only(await first.sink.ask_resend(message)).changed
        second = await first.blocks(sink.ask_resend(message))
    assert only(second.result()).repeated
    assert len(await sink.take_resends()) == 1


async def test_a_crash_behind_the_answer_loses_nothing(sink: Sink, travel: "Travel") -> None:
    turn, _ = await asked(sink)
    lost = only(await sink.take_resends())
    assert await sink.take_resends() == []
    await travel(29)
    assert await sink.sweep_resends() == 0
    await travel(2)
    assert await sink.sweep_resends() == 1
    assert await sink.settle_resends((lost, DELIVERED)) == [False]
    await travel(2)
    again = only(await sink.take_resends())
    assert (again.id, again.taken.attempt, again.taken.key) == (lost.id, 2, lost.taken.key)
    await sink.settle_resends((again, DELIVERED))
    assert await steps(sink, turn) == [
        ("asked", None, None, None),
        ("begun", 1, None, None),
        ("ended", 1, "pending", "lease_lapsed"),
        ("begun", 2, None, None),
        ("ended", 2, "delivered", None),
    ]


async def test_a_worker_that_dies_each_time_is_given_up_at_the_cap(
    sink: Sink, travel: "Travel"
) -> None:
    turn, _ = await asked(sink)
    for _ in range(DELIVERY_POLICY.attempts_max):
        assert len(await sink.take_resends()) == 1
        await travel(61)
        assert await sink.sweep_resends() == 1
        await travel(61)
    assert await sink.take_resends() == []
    assert (await steps(sink, turn))[-1] == ("ended", 5, "unknown", "gave_up: lease_lapsed")
    assert await sink.state(turn) == "replied"


async def test_an_unknown_resend_is_not_repeated_where_unknown_attempts_are_held(
    sink: Sink, travel: "Travel"
) -> None:
    turn, _ = await asked(sink)
    assert len(await sink.take_resends(hold_unknown=True)) == 1
    await travel(31)
    await sink.sweep_resends()
    assert (await steps(sink, turn))[-1] == ("ended", 1, "unknown", "lease_lapsed")
    await travel(100_000)
    assert await sink.take_resends() == []


async def test_a_busy_destination_is_asked_again_later(sink: Sink, travel: "Travel") -> None:
    await asked(sink)
    await sink.settle_resends((only(await sink.take_resends()), LATER))
    await travel(4)
    assert await sink.take_resends() == []
    await travel(2)
    assert len(await sink.take_resends()) == 1


@pytest.mark.parametrize("verdict", [DEAD, UNKNOWN])
async def test_a_resend_that_fails_leaves_the_message_delivered(
    sink: Sink, verdict: object
) -> None:
    turn, message = await asked(sink)
    await sink.settle_resends((only(await sink.take_resends()), verdict))  # type: ignore[arg-type]
    assert await sink.take_resends() == []
    assert (await sink.states(turn), await sink.state(turn)) == (["delivered"], "replied")
    assert only(await sink.ask_resend(message)).changed


@pytest.mark.parametrize(
    ("kind", "name", "waits"),
    [
        ("all", "", True),
        ("destination", CRM, True),
        ("destination", "other", False),
        ("queue", "default", False),
    ],
)
async def test_a_pause_holds_resends_as_it_holds_deliveries(
    sink: Sink, admin: "Admin", kind: str, name: str, waits: bool
) -> None:
    await asked(sink)
    await admin.execute("insert into sink.pause values ($1, $2, sink.now(), 'ada')", kind, name)
    assert len(await sink.take_resends()) == (not waits)
    await admin.execute("delete from sink.pause")
    assert len(await sink.take_resends()) == waits


async def test_an_open_breaker_holds_resends(sink: Sink, admin: "Admin") -> None:
    await asked(sink)
    await admin.execute("update sink.destination set breaker = 'open', opened_at = sink.now()")
    assert await sink.take_resends() == []
    await admin.execute("update sink.destination set breaker = 'closed', opened_at = null")
    assert len(await sink.take_resends()) == 1


async def test_bytes_that_were_not_sealed_are_never_sent_again(sink: Sink, admin: "Admin") -> None:
    turn, _ = await asked(sink)
    await admin.execute("update sink.outbox_payload set body = 'forged'")
    assert await sink.take_resends() == []
    assert (await steps(sink, turn))[-1] == ("ended", 1, "dead", "integrity")
    assert await sink.state(turn) == "replied"


async def test_two_workers_never_take_the_same_resend(sink: Sink, suspend: Suspend) -> None:
    await asked(sink)
    async with suspend() as first:
        assert len(await first.sink.take_resends()) == 1
        assert await sink.take_resends() == []
    assert await sink.take_resends() == []


async def test_one_destination_takes_nothing_from_another(sink: Sink) -> None:
    for n in range(3):
        _, message = await delivered(sink, f"k{n}")
        await sink.ask_resend(message)
    assert await sink.take_resends(destination="other") == []
    assert len(await sink.take_resends(2)) == 2
