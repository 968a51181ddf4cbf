"""Whoever is to be told is told: once, by a turn with the sink's own guarantees, and never of that turn itself."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.domain.ids import format_id
from app.domain.json_grammar import is_strict_json
from app.domain.notice import NoticeRoute
from app.engine.chores import find_chores
from app.engine.escalate import Telling
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    LATER,
    NOTICE_ROUTES,
    ONCALL,
    QUEUE,
    TURN_POLICY,
    UNKNOWN,
    Sink,
    arrival,
    draft,
)
from tests.engine.suspense import Suspend
from tests.engine.told import body_of, escalations, notices

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

TOLD = {(QUEUE, "escalation", "told"): 1}


async def _failed(sink: Sink, key: str = "a", conversation: str | None = None) -> UUID:
    held = await sink.hold(key, conversation)
    await sink.hand_back(held, final=True, reason="impossible")
    return held.turn


async def test_a_failed_turn_is_told_of_by_a_sealed_turn_of_its_queue(
    sink: Sink, admin: "Admin"
) -> None:
    turn = await _failed(sink, conversation="grace")
    assert await sink.escalate() == TOLD
    (told,) = await escalations(admin, turn)
    view = await sink.look(told)
    assert (view.state, view.queue, view.conversation, view.attempt) == ("sealed", QUEUE, None, 0)
    assert view.inbound is None
    (message,) = view.messages
    assert (message.destination, message.state) == (ONCALL, "pending")
    assert message.key == format_id("msg_", message.id)
    assert await sink.story(told) == [("escalate", None, "sealed")]
    assert await notices(admin) == []


async def test_what_is_told_names_the_turn_and_leads_to_it_and_shows_nothing_of_what_it_says(
    sink: Sink, admin: "Admin"
) -> None:
    turn, (message,) = await sink.sealed("a", draft("a secret text"), conversation="grace ☃ / \\")
    await sink.settle_next(DEAD)
    await sink.escalate()
    (told,) = await escalations(admin, turn)
    seen = await sink.look(turn)
    assert seen.payload_hash is not None
    handle, digest = format_id("turn_", turn), f"sha256:{seen.payload_hash.hex()}"
    body = await body_of(admin, told)
    assert body.pop("at").endswith("Z")
    assert body == {
        "kind": "escalation",
        "reason": "rejected",
        "turn": handle,
        "queue": QUEUE,
        "conversation": "grace ☃ / \\",
        "state": "undelivered",
        "payload_hash": digest,
        "note": None,
        "name": None,
        "deadline_at": None,
        "on_deadline": None,
        "reminders": 0,
        "messages": [
            {
                "id": format_id("msg_", message),
                "destination": "crm",
                "state": "dead",
                "reason": "rejected",
            }
        ],
        "messages_count": 1,
        "link": f"https://sink.example/console/turns/{handle}?hash={digest}",
    }
    (row,) = await admin.fetch(
        "select p.* from sink.outbox as o inner join sink.outbox_payload as p on p.message = o.id "
        "where o.turn = $1",
        told,
    )
    assert is_strict_json(row["body"])
    assert row["content_type"] == "application/json"
    assert b"secret" not in row["body"]


async def test_without_a_public_address_the_link_is_a_path(sink: Sink, admin: "Admin") -> None:
    turn = await _failed(sink)
    await sink.escalate(telling=Telling())
    (told,) = await escalations(admin, turn)
    link = (await body_of(admin, told))["link"]
    assert link == f"/console/turns/{format_id('turn_', turn)}"


async def _too_often(sink: Sink, travel: "Travel") -> UUID:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=1)}
    held = await sink.hold("a")
    await travel(61)
    await sink.sweep_turns()
    return held.turn


async def _handed_back_too_often(sink: Sink, travel: "Travel") -> UUID:
    del travel
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, releases_max=0)}
    held = await sink.hold("a")
    assert await sink.hand_back(held) == "failed"
    return held.turn


async def _too_old(sink: Sink, travel: "Travel") -> UUID:
    accepted = await sink.accept_one("a")
    await travel(61)
    assert await sink.claim(1, input_age_seconds_max=60.0) == []
    return accepted.turn


async def _dead(sink: Sink, travel: "Travel") -> UUID:
    del travel
    turn, _ = await sink.sealed("a", draft())
    await sink.settle_next(DEAD)
    return turn


async def _unknown(sink: Sink, travel: "Travel") -> UUID:
    del travel
    turn, _ = await sink.sealed("a", draft())
    await sink.settle_next(UNKNOWN)
    return turn


async def _unknown_by_the_sweep(sink: Sink, travel: "Travel") -> UUID:
    turn, _ = await sink.sealed("a", draft())
    assert await sink.take(hold_unknown=True)
    await travel(31)
    await sink.sweep_messages()
    return turn


async def _spoiled(sink: Sink, travel: "Travel") -> UUID:
    del travel
    turn, _ = await sink.sealed("a", draft())
    return turn


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (_too_often, "attempts_exhausted"),
        (_handed_back_too_often, "releases_exhausted"),
        (_too_old, "too_old"),
        (_dead, "rejected"),
        (_unknown, "timeout"),
        (_unknown_by_the_sweep, "lease_lapsed"),
    ],
)
async def test_whatever_ends_a_turn_or_a_message_in_vain_has_told_with_its_commit(
    sink: Sink, admin: "Admin", travel: "Travel", fails: Any, reason: str
) -> None:
    turn = await fails(sink, travel)
    assert [(row["turn"], row["reason"]) for row in await notices(admin)] == [(turn, reason)]
    assert await sink.escalate() == TOLD
    (told,) = await escalations(admin, turn)
    assert (await body_of(admin, told))["reason"] == reason


async def test_bytes_that_are_not_those_that_were_sealed_page_a_human(
    sink: Sink, admin: "Admin"
) -> None:
    turn, _ = await sink.sealed("a", draft())
    await admin.execute("update sink.outbox_payload set body = 'forged'")
    assert await sink.take() == []
    assert await sink.escalate() == TOLD
    (told,) = await escalations(admin, turn)
    assert (await body_of(admin, told))["reason"] == "integrity"


async def test_what_goes_back_and_what_is_delivered_tells_nobody(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await sink.sealed("a", draft("1", "c"), draft("2", "c"))
    await sink.settle_next(LATER)
    await travel(6)
    await sink.settle_next(DELIVERED)
    held = await sink.hold("b")
    await sink.hand_back(held, failed=True)
    held = await sink.hold("c")
    await sink.cancel(held.turn)
    turn, _ = await sink.sealed("d", draft())
    taken = [one for one in await sink.take() if one.turn == turn]
    await sink.cancel_messages(taken[0].message)
    await sink.settle((taken[0], DEAD))
    assert await sink.states(turn) == ["cancelled"]
    assert await notices(admin) == []


async def test_a_set_that_dies_at_once_is_told_of_once(sink: Sink, admin: "Admin") -> None:
    turn, messages = await sink.sealed("a", *(draft(f"{n}") for n in range(1)))
    other, many = await sink.sealed("b", *(draft(f"{n}", f"c{n}") for n in range(7)))
    taken = await sink.take()
    await sink.settle(*((one, DEAD) for one in taken))
    assert len(await notices(admin)) == 8
    assert await sink.escalate() == {(QUEUE, "escalation", "told"): 2}
    (told,) = await escalations(admin, other)
    body = await body_of(admin, told)
    assert body["messages_count"] == 7
    assert {one["id"] for one in body["messages"]} == {format_id("msg_", one) for one in many}
    (told,) = await escalations(admin, turn)
    assert [one["id"] for one in (await body_of(admin, told))["messages"]] == [
        format_id("msg_", messages[0])
    ]


async def test_a_long_list_of_messages_ends_and_is_counted(sink: Sink, admin: "Admin") -> None:
    turn, _ = await sink.sealed("a", *(draft(f"{n}", f"c{n}") for n in range(130)))
    await sink.settle(*((one, DEAD) for one in await sink.take(130)))
    await sink.escalate()
    (told,) = await escalations(admin, turn)
    body = await body_of(admin, told)
    assert (len(body["messages"]), body["messages_count"]) == (100, 130)


async def test_nobody_is_ever_told_of_an_escalation(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turn = await _failed(sink)
    await sink.escalate()
    (told,) = await escalations(admin, turn)
    for verdict in (DEAD, UNKNOWN):
        (taken,) = await sink.take(destination=ONCALL)
        await sink.settle((taken, verdict))
        assert await sink.state(told) == "undelivered"
        assert await notices(admin) == []
        await sink.redrive(told)
    # Nor by a worker that dies with it, nor when its bytes are spoiled.
    await sink.take(destination=ONCALL, hold_unknown=True)
    await travel(31)
    await sink.sweep_messages()
    assert await sink.states(told) == ["unknown"]
    await sink.redrive(told)
    await admin.execute("update sink.outbox_payload set body = 'forged'")
    assert await sink.take(destination=ONCALL) == []
    assert await sink.states(told) == ["unknown"]
    assert await notices(admin) == []
    # And not even if somebody asks for it.
    await admin.execute(
        "insert into sink.notice (turn, queue, kind, reason, noted_at) "
        "values ($1, 'default', 'escalation', 'by hand', sink.now())",
        told,
    )
    assert await sink.escalate() == {(QUEUE, "escalation", "gone"): 1}
    assert await escalations(admin, told) == []


async def test_what_fails_again_after_a_redrive_is_told_of_again(
    sink: Sink, admin: "Admin"
) -> None:
    turn = await _failed(sink)
    await sink.escalate()
    await sink.redrive(turn)
    held = await sink.claim_one()
    await sink.hand_back(held, final=True, reason="impossible still")
    await sink.escalate()
    first, second = await escalations(admin, turn)
    assert (await body_of(admin, first))["reason"] == "impossible"
    assert (await body_of(admin, second))["reason"] == "impossible still"
    other, _ = await sink.sealed("b", draft())
    for _ in range(2):
        await sink.settle_next(DEAD)
        await sink.escalate()
        await sink.redrive(other)
    assert len(await escalations(admin, other)) == 2


async def test_an_escalation_is_tried_again_like_any_message_and_replied_when_it_arrived(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turn = await _failed(sink)
    await sink.escalate()
    (told,) = await escalations(admin, turn)
    keys = set()
    for _ in range(3):
        (taken,) = await sink.take(destination=ONCALL)
        keys.add((taken.key, taken.body))
        await sink.settle((taken, LATER))
        await travel(6)
    (taken,) = await sink.take(destination=ONCALL)
    await sink.settle((taken, DELIVERED))
    assert await sink.state(told) == "replied"
    assert len(keys | {(taken.key, taken.body)}) == 1


async def test_a_queue_that_names_nobody_drops_and_tells_so(sink: Sink, admin: "Admin") -> None:
    turn = await _failed(sink)
    dropped = await sink.escalate(routes={QUEUE: NoticeRoute()})
    assert dropped == {(QUEUE, "escalation", "nobody"): 1}
    assert await notices(admin) == []
    assert await escalations(admin, turn) == []


async def test_what_belongs_to_a_queue_that_is_not_configured_waits_and_holds_up_no_other(
    sink: Sink, admin: "Admin"
) -> None:
    await sink.accept(*(arrival(f"x{n}", queue="elsewhere") for n in range(5)))
    for held in await sink.claim(5, queue="elsewhere"):
        await sink.hand_back(held, final=True)
    turn = await _failed(sink)
    assert "notices" in await find_chores(sink.pool, [QUEUE])
    assert await sink.escalate(notices_max=2) == TOLD
    assert len(await escalations(admin, turn)) == 1
    assert {row["queue"] for row in await notices(admin)} == {"elsewhere"}
    assert "notices" not in await find_chores(sink.pool, [QUEUE])
    routes = {**NOTICE_ROUTES, "elsewhere": NoticeRoute(escalate_to=ONCALL)}
    assert await sink.escalate(routes=routes) == {("elsewhere", "escalation", "told"): 5}


async def test_a_long_list_of_one_queue_keeps_no_other_waiting(sink: Sink, admin: "Admin") -> None:
    await sink.accept(*(arrival(f"x{n}", queue="busy") for n in range(6)))
    for held in await sink.claim(6, queue="busy"):
        await sink.hand_back(held, final=True)
    turn = await _failed(sink)
    routes = {**NOTICE_ROUTES, "busy": NoticeRoute(escalate_to=ONCALL)}
    await sink.escalate(2, routes=routes)
    assert len(await escalations(admin, turn)) == 1


async def test_two_that_sweep_make_one(sink: Sink, admin: "Admin", suspend: Suspend) -> None:
    turn, _ = await sink.sealed("a", draft("1", "c"), draft("2", "d"))
    await sink.settle(*((one, DEAD) for one in await sink.take()))
    async with suspend() as replica:
        assert await replica.sink.escalate() == TOLD
        # Whoever comes meanwhile finds it taken, and waits for nobody.
        assert await sink.escalate() == {}
    assert await sink.escalate() == {}
    assert len(await escalations(admin, turn)) == 1


async def test_who_is_a_moment_behind_takes_nothing_of_what_another_has_begun(
    sink: Sink, admin: "Admin"
) -> None:
    turn, _ = await sink.sealed("a", draft("1", "c"), draft("2", "d"))
    await sink.settle(*((one, DEAD) for one in await sink.take()))
    async with admin.transaction():
        await admin.execute("select from sink.notice order by id limit 1 for update")
        assert await sink.escalate() == {}
    assert await sink.escalate() == TOLD
    assert len(await escalations(admin, turn)) == 1


async def test_a_sweeper_that_dies_before_its_commit_leaves_the_notice(
    sink: Sink, admin: "Admin", suspend: Suspend
) -> None:
    turn = await _failed(sink)
    async with suspend() as replica:
        await replica.sink.escalate()
        replica.roll_back()
    assert await escalations(admin, turn) == []
    assert len(await notices(admin)) == 1
    assert await sink.escalate() == TOLD


async def test_one_that_cannot_be_told_keeps_no_other_from_being_told(
    sink: Sink, admin: "Admin"
) -> None:
    broken, turn = await _failed(sink, "a"), await _failed(sink, "b")
    await admin.execute(
        """
        create function sink.refuse() returns trigger language plpgsql as $$
        begin raise exception 'refused'; end $$
        """
    )
    await admin.execute(
        f"create trigger refuse before insert on sink.turn for each row "
        f"when (new.about = '{broken}') execute function sink.refuse()"
    )
    with pytest.raises(Exception, match="refused"):
        await sink.escalate()
    assert len(await escalations(admin, turn)) == 1
    assert [row["turn"] for row in await notices(admin)] == [broken]
    await admin.execute("drop trigger refuse on sink.turn")
    assert await sink.escalate() == TOLD


async def test_what_is_told_of_a_turn_that_is_gone_is_dropped(sink: Sink, admin: "Admin") -> None:
    await admin.execute(
        "insert into sink.notice (turn, queue, kind, reason, noted_at) "
        "values (gen_random_uuid(), 'default', 'escalation', 'dead', sink.now())"
    )
    assert await sink.escalate() == {(QUEUE, "escalation", "gone"): 1}
