"""Whoever is to be told is told: once, by a turn with the sink's own guarantees, and never of that turn itself."""

from typing import TYPE_CHECKING

from app.domain.ids import format_id
from app.domain.json_grammar import is_strict_json
from app.engine.escalate import Telling
from tests.engine.stories import DEAD, DELIVERED, LATER, ONCALL, QUEUE, UNKNOWN, Sink, draft
from tests.engine.told import TOLD, body_of, escalations, failed, notices

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_a_failed_turn_is_told_of_by_a_sealed_turn_of_its_queue(
    sink: Sink, admin: "Admin"
) -> None:
    turn = await failed(sink, conversation="grace")
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
    turn = await failed(sink)
    await sink.escalate(telling=Telling())
    (told,) = await escalations(admin, turn)
    link = (await body_of(admin, told))["link"]
    assert link == f"/console/turns/{format_id('turn_', turn)}"


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
    turn = await failed(sink)
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
    turn = await failed(sink)
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
    turn = await failed(sink)
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
