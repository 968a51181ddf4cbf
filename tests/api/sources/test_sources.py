"""Webhooks of providers: verified first, committed whole, answered as each expects, and never lost or doubled."""

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.api.sources.signing import RESPONSE_URL, SECRET, Sources, said, update

if TYPE_CHECKING:
    from tests.database import Admin


async def test_a_signed_message_becomes_one_turn_with_its_raw_body_and_a_view(
    sources: Sources,
) -> None:
    body = said("Ev1")
    answer = await sources.slack("chat", body, x_slack_retry_num="2")
    assert (answer.status, answer.body) == (200, b"")
    (turn,) = await sources.turns()
    (inbound,) = turn["inbound"]
    assert turn["conversation"] == "chat:T1/C1/1.1"
    assert inbound["source"] == "chat"
    assert inbound["headers"] == {"x-slack-retry-num": "2"}
    assert inbound["payload"] == json.loads(body)
    assert inbound["view"] == {
        "text": "a waffle maker?", "sender": "U1", "conversation": "chat:T1/C1/1.1", "attachments": [],
    }  # fmt: skip
    found = await sources.service.get(f"/v1/inbound/{inbound['id']}")
    assert found.json["view"] == inbound["view"]
    raw = await sources.service.get(f"/v1/inbound/{inbound['id']}/payload")
    assert raw.body == body


async def test_many_retries_at_once_are_one_turn_and_all_of_them_a_success(
    sources: Sources,
) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sources.slack("chat", said("Ev1"))) for _ in range(20)]
    assert {task.result().status for task in tasks} == {200}
    assert len(await sources.turns()) == 1


async def test_one_message_that_comes_as_two_events_is_one_turn(sources: Sources) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(sources.slack("chat", said("Ev1")))
        group.create_task(sources.slack("chat", said("Ev2", type="app_mention")))
    await sources.slack("chat", said("Ev2", type="app_mention"))
    assert len(await sources.turns()) == 1
    assert (await sources.shown("chat"))["differing"] == []


async def test_keys_are_their_source_s_alone(sources: Sources) -> None:
    for source in ("bot", "other-bot", "bot"):
        token = SECRET.decode()
        answer = await sources.post(source, update(1), x_telegram_bot_api_secret_token=token)
        assert (answer.status, answer.body) == (200, b"")
    assert len(await sources.turns()) == 2


async def test_a_differing_body_is_a_success_and_is_counted_and_shown(sources: Sources) -> None:
    before = sources.counted("chat", "differing", what="items")
    for text in ("one", "two", "two", "three", "four", "five"):
        assert (await sources.slack("chat", said("Ev1", text))).status == 200
    (turn,) = await sources.turns()
    assert turn["inbound"][0]["view"]["text"] == "one"
    assert sources.counted("chat", "differing", what="items") == before + 5
    (differing,) = (await sources.shown("chat"))["differing"]
    assert (differing["key"], differing["times"], differing["different"]) == ("Ev1", 5, 4)


async def test_an_id_path_that_is_constant_is_noticed_before_it_swallows_much(
    sources: Sources,
) -> None:
    statuses = [
        (await sources.plain("wrong-path", {"account": "acct_1", "n": n})).status for n in range(12)
    ]
    assert statuses[0] == 200
    assert statuses[4:] == [503] * 8
    last = await sources.plain("wrong-path", {"account": "acct_1", "n": 99})
    assert last.code == "source_not_ready"
    assert int(last.headers["Retry-After"]) > 0
    (differing,) = (await sources.shown("wrong-path"))["differing"]
    assert differing["different"] >= 9


async def test_a_handshake_is_answered_and_stores_nothing(sources: Sources) -> None:
    answer = await sources.slack("chat", b'{"type": "url_verification", "challenge": "abc"}')
    assert (answer.status, answer.body) == (200, b"abc")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert await sources.turns() == []


async def test_a_filter_answers_success_and_stores_nothing(sources: Sources) -> None:
    before = sources.counted("picky", "filtered", what="items")
    for event_id, more in (
        ("Ev1", {"subtype": "channel_join"}),
        ("Ev2", {"type": "reaction_added"}),
    ):
        assert (await sources.slack("picky", said(event_id, **more))).status == 200
    assert await sources.turns() == []
    assert sources.counted("picky", "filtered", what="items") == before + 2
    assert (await sources.slack("picky", said("Ev3"))).status == 200
    assert len(await sources.turns()) == 1


async def test_what_we_say_ourselves_does_not_come_back_to_the_agent(sources: Sources) -> None:
    own = {"bot_id": "B1", "app_id": "A1"}
    before = sources.counted("chat", "echo", what="items")
    assert (await sources.slack("chat", said("Ev1", **own))).status == 200
    assert await sources.turns() == []
    assert sources.counted("chat", "echo", what="items") == before + 1
    assert (await sources.slack("echoing", said("Ev1", **own))).status == 200
    assert len(await sources.turns()) == 1


async def test_leave_to_answer_is_kept_apart_and_shown_to_nobody(
    sources: Sources, admin: "Admin"
) -> None:
    pressed = {
        "type": "block_actions", "trigger_id": "1.2", "team": {"id": "T1"}, "user": {"id": "U1"},
        "channel": {"id": "C1"}, "response_url": RESPONSE_URL, "actions": [{"value": "red"}],
    }  # fmt: skip
    escaped = json.dumps(pressed).replace("/", "\\/")
    form = "application/x-www-form-urlencoded"
    for n, text in enumerate((json.dumps(pressed), escaped)):
        body = urlencode({"payload": text.replace("1.2", f"1.{n}")}).encode()
        assert (await sources.slack("chat", body, content_type=form)).status == 200
        # A retry is compared by what was sent.
        assert (await sources.slack("chat", body, content_type=form)).status == 200
    assert (await sources.shown("chat"))["differing"] == []
    rows = await admin.fetch("select * from sink.inbound order by id")
    assert len(rows) == 2
    for row in rows:
        assert json.loads(row["reply"]) == {"response_url": RESPONSE_URL}
        left = (row["reply_expires_at"] - row["received_at"]).total_seconds()
        assert 1790 < left < 1810
        assert all("c4n4ry" not in str(row[name]) for name in row.keys() if name != "reply")  # noqa: SIM118
        assert b"***" in row["body"]
    shown = json.dumps(await sources.turns())
    for row in rows:
        shown += (await sources.service.get(f"/v1/inbound/in_{row['id'].hex}")).body.decode()
    assert "c4n4ry" not in shown


async def test_a_paused_source_takes_what_comes_and_holds_it_up(sources: Sources) -> None:
    assert (await sources.service.post("/v1/sources/chat/pause", {})).status == 200
    assert (await sources.slack("chat", said("Ev1"))).status == 200
    assert await sources.turns() == []
    shown = await sources.shown("chat")
    assert (shown["held"], shown["kind"], shown["configured"]) == (1, "slack", True)
    assert shown["url"] == "https://in.example/base/v1/sources/chat"
    assert (await sources.service.post("/v1/sources/chat/resume", {})).status == 200


async def test_messages_of_one_conversation_join_one_turn_where_the_queue_says_so(
    sources: Sources,
) -> None:
    for n in range(3):
        ts = f"{n}.1"
        body = said(f"Ev{n}", f"part {n}", ts, channel="D1")
        assert (await sources.slack("chatty", body)).status == 200
    # And a retry, and the same thing by its second key.
    assert (await sources.slack("chatty", said("Ev2", "part 2", "2.1", channel="D1"))).status == 200
    again = said("Ev9", "part 2", "2.1", channel="D1", type="app_mention")
    assert (await sources.slack("chatty", again)).status == 200
    found = (await sources.service.get("/v1/turns?queue=chatty")).json["items"]
    assert len(found) == 1
