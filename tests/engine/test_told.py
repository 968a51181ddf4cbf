"""Who is asked is told at once: what to decide, until when, and where; and nothing is asked that was answered."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.domain.ids import format_id
from app.domain.model import Claimed, Decision, HoldPlan
from app.domain.notice import NoticeRoute
from app.engine.asking import open_holds, waiting_notices
from app.engine.chores import find_chores
from app.engine.decide import decide
from app.engine.expire_holds import expire_holds
from app.engine.overview import names_in_use
from tests.engine.stories import KEY_SECONDS, ONCALL, QUEUE, TURN_POLICY, Sink, draft, sealing
from tests.engine.told import body_of, escalations

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

PLAN = HoldPlan("seal", deadline_seconds=3600.0, on_deadline="escalate", note="A refund of 20 €")
BOSS = "boss"
ROUTES = {QUEUE: NoticeRoute(escalate_to=ONCALL, approvers=BOSS)}
POLICIES = {QUEUE: replace(TURN_POLICY, reminder_seconds=60.0, reminder_seconds_max=150.0)}


async def _held(sink: Sink, key: str = "a", **changes: Any) -> Claimed:
    claimed = await sink.hold(key)
    request = sealing(claimed, draft("the secret words"), draft("more", "c"))
    await sink.seal(replace(request, hold=replace(PLAN, **changes)))
    return claimed


async def _hash(sink: Sink, turn: UUID) -> str:
    seen = await sink.look(turn)
    assert seen.payload_hash is not None
    return f"sha256:{seen.payload_hash.hex()}"


async def _decide(sink: Sink, turn: UUID, decision: Any) -> None:
    digest = await _hash(sink, turn)
    one = Decision(turn, decision, digest, "ada", "key-1", decision.encode())
    await decide(sink.pool, [one], policies=POLICIES, ids=sink.ids, key_seconds=KEY_SECONDS)


async def _expire(sink: Sink) -> dict[str, int]:
    swept = await expire_holds(
        sink.pool, policies=POLICIES, turns_max=100, ids=sink.ids, key_seconds=KEY_SECONDS
    )
    assert swept.failed == ()
    return dict(swept.states)


async def test_at_the_seal_the_approvers_are_told_what_waits_for_them(
    sink: Sink, admin: "Admin"
) -> None:
    turn = (await _held(sink)).turn
    assert await sink.escalate(routes=ROUTES) == {(QUEUE, "hold", "told"): 1}
    (told,) = await escalations(admin, turn)
    (message,) = (await sink.look(told)).messages
    assert message.destination == BOSS
    body = await body_of(admin, told)
    digest, handle = await _hash(sink, turn), format_id("turn_", turn)
    held = await admin.fetchrow("select held_at, deadline_at from sink.hold where turn = $1", turn)
    assert held is not None
    assert 3599 < (held["deadline_at"] - held["held_at"]).total_seconds() < 3601
    assert datetime.fromisoformat(body["deadline_at"]) == held["deadline_at"].astimezone(UTC)
    assert {
        "kind": "hold",
        "turn": handle,
        "queue": QUEUE,
        "state": "held",
        "payload_hash": digest,
        "note": "A refund of 20 €",
        "on_deadline": "escalate",
        "messages_count": 2,
        "link": f"https://sink.example/console/turns/{handle}?hash={digest}",
    }.items() <= body.items()
    assert [(one["state"], one["destination"]) for one in body["messages"]] == [("held", "crm")] * 2
    assert "secret" not in str(body)


async def test_without_approvers_those_are_asked_who_are_told_of_all_else(
    sink: Sink, admin: "Admin"
) -> None:
    turn = (await _held(sink)).turn
    assert await sink.escalate() == {(QUEUE, "hold", "told"): 1}
    (told,) = await escalations(admin, turn)
    assert [one.destination for one in (await sink.look(told)).messages] == [ONCALL]


@pytest.mark.parametrize("decision", ["approve", "reject", "revise"])
async def test_nobody_is_asked_what_was_decided_before_he_was_told(
    sink: Sink, admin: "Admin", decision: str
) -> None:
    turn = (await _held(sink)).turn
    await _decide(sink, turn, decision)
    assert await sink.escalate(routes=ROUTES) == {(QUEUE, "hold", "answered"): 1}
    assert await escalations(admin, turn) == []


async def test_what_comes_back_from_a_revision_is_asked_again_with_its_new_hash(
    sink: Sink, admin: "Admin"
) -> None:
    turn = (await _held(sink)).turn
    first = await _hash(sink, turn)
    await sink.escalate(routes=ROUTES)
    await _decide(sink, turn, "revise")
    again = await sink.claim_one()
    await sink.seal(replace(sealing(again, draft("better")), hold=PLAN))
    await sink.escalate(routes=ROUTES)
    hashes = [
        (await body_of(admin, told))["payload_hash"] for told in await escalations(admin, turn)
    ]
    assert hashes == [first, await _hash(sink, turn)]
    assert len(set(hashes)) == 2


async def test_past_the_deadline_it_escalates_and_is_repeated_ever_more_seldom(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turn = (await _held(sink)).turn
    await sink.escalate(routes=ROUTES)
    assert "deadlines" not in (await find_chores(sink.pool, [QUEUE])).due
    await travel(3601)
    assert "deadlines" in (await find_chores(sink.pool, [QUEUE])).due
    assert "deadlines" not in (await find_chores(sink.pool, ["other"])).due
    assert await _expire(sink) == {"escalated": 1}
    assert "deadlines" not in (await find_chores(sink.pool, [QUEUE])).due
    assert await sink.escalate(routes=ROUTES) == {(QUEUE, "escalation", "told"): 1}
    for seconds in (61, 121, 151, 151):
        assert await _expire(sink) == {}
        await travel(seconds)
        assert await _expire(sink) == {"reminded": 1}
        await sink.escalate(routes=ROUTES)
    told = [await body_of(admin, one) for one in await escalations(admin, turn)]
    assert [one["kind"] for one in told] == ["hold", *["escalation"] * 5]
    assert [one["reminders"] for one in told] == [0, 1, 2, 3, 4, 5]
    assert {one["reason"] for one in told[1:]} == {"hold_expired"}
    assert {one["state"] for one in told[1:]} == {"escalated"}
    assert {one["payload_hash"] for one in told} == {await _hash(sink, turn)}
    await _decide(sink, turn, "approve")
    assert await sink.state(turn) == "sealed"
    await travel(1000)
    assert await _expire(sink) == {}


@pytest.mark.parametrize(("on_deadline", "state"), [("cancel", "cancelled"), ("send", "sealed")])
async def test_what_became_of_an_expired_hold_is_told_whatever_it_was(
    sink: Sink, admin: "Admin", travel: "Travel", on_deadline: Any, state: str
) -> None:
    turn = (await _held(sink, on_deadline=on_deadline)).turn
    await travel(3601)
    assert await _expire(sink) == {state: 1}
    await sink.escalate(routes=ROUTES)
    (told,) = await escalations(admin, turn)
    body = await body_of(admin, told)
    assert (body["kind"], body["reason"], body["state"]) == (
        "escalation",
        "hold_expired",
        state,
    )


async def test_a_set_that_was_changed_behind_the_back_pages_a_human(
    sink: Sink, admin: "Admin"
) -> None:
    turn = (await _held(sink)).turn
    await sink.escalate(routes=ROUTES)
    await admin.execute("update sink.outbox_payload set body = 'forged'")
    await _decide(sink, turn, "approve")
    assert await sink.state(turn) == "held"
    assert await sink.escalate(routes=ROUTES) == {(QUEUE, "escalation", "told"): 1}
    _, told = await escalations(admin, turn)
    assert (await body_of(admin, told))["reason"] == "integrity"
    # However often it is tried again: once for each set that waits.
    await _decide(sink, turn, "approve")
    assert await sink.escalate(routes=ROUTES) == {}


async def test_the_next_set_that_was_changed_pages_a_human_again(
    sink: Sink, admin: "Admin"
) -> None:
    turn = (await _held(sink)).turn
    for told in range(2):
        await admin.execute(
            'update sink.outbox_payload set headers = \'{"a": "b"}\' '
            "where message in (select id from sink.outbox where state = 'held')"
        )
        await _decide(sink, turn, "approve")
        await sink.escalate(routes=ROUTES)
        reasons = [(await body_of(admin, one))["reason"] for one in await escalations(admin, turn)]
        assert reasons.count("integrity") == told + 1
        await admin.execute("update sink.outbox_payload set headers = '{}'")
        await _decide(sink, turn, "revise")
        request = sealing(await sink.claim_one(), draft("the secret words"))
        await sink.seal(replace(request, hold=PLAN))


async def test_two_reasons_at_once_are_told_apart(sink: Sink, admin: "Admin") -> None:
    turn = (await _held(sink)).turn
    await admin.execute(
        "insert into sink.notice (turn, queue, kind, reason, noted_at) select $1, 'default', "
        "'escalation', reason, sink.now() from unnest(array['integrity', 'hold_expired', 'integrity'])"
        " as t (reason)",
        turn,
    )
    assert await sink.escalate(routes=ROUTES) == {
        (QUEUE, "hold", "told"): 1,
        (QUEUE, "escalation", "told"): 2,
    }


async def test_a_wait_that_asks_a_person_tells_him_and_one_for_an_event_tells_nobody(
    sink: Sink, admin: "Admin"
) -> None:
    asking = await sink.parked("a", name="may-i", payload_hash="sha256:ab+c", note="May I?")
    await sink.parked("b", name="event")
    assert await sink.escalate(routes=ROUTES) == {(QUEUE, "wait", "told"): 1}
    (told,) = await escalations(admin, asking.turn)
    body = await body_of(admin, told)
    assert (body["name"], body["note"], body["payload_hash"]) == ("may-i", "May I?", "sha256:ab+c")
    assert body["link"].endswith("?hash=sha256:ab%2Bc")
    assert body["messages"] == []
    assert body["deadline_at"] is not None


async def test_nobody_is_asked_what_a_wait_was_told_before(sink: Sink, admin: "Admin") -> None:
    asking = await sink.parked("a", payload_hash="sha256:1")
    await sink.signal_one(asking.turn, payload_hash="sha256:1", may_decide=True)
    assert await sink.escalate(routes=ROUTES) == {(QUEUE, "wait", "answered"): 1}
    assert await escalations(admin, asking.turn) == []


async def test_what_is_open_and_of_what_nobody_was_told_is_counted_with_its_age(
    sink: Sink, travel: "Travel"
) -> None:
    assert await open_holds(sink.pool) == []
    assert await waiting_notices(sink.pool) == []
    await _held(sink, "a")
    await travel(100)
    await _held(sink, "b")
    await sink.parked("c")
    (holds,) = await open_holds(sink.pool)
    assert (holds.queue, holds.state, holds.count) == (QUEUE, "held", 2)
    assert 100 <= holds.oldest_seconds < 130
    (notices,) = await waiting_notices(sink.pool)
    assert (notices.queue, notices.count) == (QUEUE, 2)
    assert 100 <= notices.oldest_seconds < 130
    await sink.escalate(routes=ROUTES)
    assert await waiting_notices(sink.pool) == []


async def test_a_queue_of_which_somebody_is_to_be_told_is_a_name_in_use(
    sink: Sink, admin: "Admin"
) -> None:
    await admin.execute(
        "insert into sink.notice (turn, queue, kind, reason, noted_at) "
        "values (gen_random_uuid(), 'forgotten', 'escalation', 'dead', sink.now())"
    )
    assert (await names_in_use(sink.pool))["queue"] == {"forgotten"}
