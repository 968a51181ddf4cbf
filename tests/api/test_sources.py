"""Webhooks of providers: verified first, committed whole, answered as each expects, and never lost or doubled."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from app.settings import Filter, Queue, Server, Source
from tests.api.conftest import EMPTY, Answer, Service, opened
from tests.database import Clock
from tests.engine.invariants import broken

if TYPE_CHECKING:
    from tests.database import Admin

SECRET = b"one-signing-secret"
RESPONSE_URL = "https://hooks.slack.com/actions/T1/123/c4n4ry"


@dataclass(slots=True)
class Sources:
    """A service with sources, and what signs for them."""

    service: Service
    folder: Path

    async def post(
        self, source: str, body: bytes, *, method: str = "POST", **headers: str
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        path = f"/v1/sources/{source}"
        return await self.service.call(method, path, scope=None, body=body, headers=named)

    async def slack(
        self, source: str, body: bytes, *, secret: bytes = SECRET, **more: str
    ) -> Answer:
        now = more.pop("now", str(int(time.time())))  # noqa: TID251 - as a provider's clock
        digest = hmac.new(secret, b"v0:" + now.encode() + b":" + body, hashlib.sha256).hexdigest()
        signed = {"x_slack_request_timestamp": now, "x_slack_signature": f"v0={digest}"}
        return await self.post(
            source, body, **{"content_type": "application/json", **signed, **more}
        )

    async def plain(self, source: str, value: object, *, secret: bytes = SECRET) -> Answer:
        body = json.dumps(value).encode()
        digest = hmac.new(secret, body, hashlib.sha256).hexdigest()
        return await self.post(source, body, x_signature=digest)

    async def turns(self, queue: str = "default") -> list[dict[str, Any]]:
        """What agents are given."""
        answer = await self.service.claim(queue=queue, max_turns=50)
        turns: list[dict[str, Any]] = answer.json["turns"]
        return turns

    async def shown(self, source: str) -> dict[str, Any]:
        """One source, as the list shows it."""
        items = (await self.service.get("/v1/sources")).json["items"]
        (found,) = [one for one in items if one["name"] == source]
        shown: dict[str, Any] = found
        return shown

    def counted(self, source: str, result: str, *, what: str = "requests") -> float:
        """How many, by the metric."""
        name = f"sinksweep_source_{what}_total"
        registry = self.service.core.metrics.registry
        return registry.get_sample_value(name, {"source": source, "result": result}) or 0.0


@pytest.fixture(scope="session")
async def with_sources(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Sources]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "one").write_bytes(SECRET + b"\n")
    here = (f"file:{folder}/one",)
    by_hmac = {"kind": "hmac", "secrets": here, "signature_header": "X-Signature"}
    own = {
        "chat": Source(kind="slack", secrets=here, reply_to="loopback"),
        "chatty": Source(kind="slack", secrets=here, queue="chatty"),
        "rotating": Source(kind="slack", secrets=(*here, f"file:{folder}/two")),
        "absent": Source(kind="telegram", secrets=(f"file:{folder}/nothing",)),
        "bot": Source(kind="telegram", secrets=here, body_bytes_max=2048),
        "other-bot": Source(kind="telegram", secrets=here),
        "events": Source.model_validate(
            by_hmac | {"id_path": "id", "conversation_path": "about", "event_path": "type"}
        ),
        "wrong-path": Source.model_validate(by_hmac | {"id_path": "account"}),
        "picky": Source(
            kind="slack", secrets=here, filter=Filter(keep=("message*",), drop=("*.channel_join",))
        ),
        "echoing": Source(kind="slack", secrets=here, echoes="keep"),
        "money": Source(kind="stripe", secrets=here),
        "full": Source.model_validate(by_hmac | {"id_path": "id", "queue": "small"}),
    }
    queues = {
        "default": Queue(),
        "chatty": Queue(coalesce_quiet_seconds=5.0),
        "small": Queue(length_max=1),
    }
    server = Server(public_url="https://in.example/base")
    async with opened(database_url, sources=own, queues=queues, server=server) as running:
        yield Sources(running, folder)


@pytest.fixture
async def sources(with_sources: Sources, admin: "Admin") -> AsyncIterator[Sources]:
    """Sources on an empty database. When the test is over, everything that must always hold is checked."""
    await admin.execute(EMPTY)
    await Clock(admin).travel(0)
    yield with_sources
    assert await broken(admin) == {}


def said(event_id: str, text: str = "a waffle maker?", ts: str = "1.1", **more: Any) -> bytes:
    event = {"type": "message", "channel": "C1", "user": "U1", "text": text, "ts": ts, **more}
    envelope = {
        "type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event_id": event_id, "event": event,
    }  # fmt: skip
    return json.dumps(envelope).encode()


def update(number: int, text: str = "hi") -> bytes:
    chat, sender = {"id": 7}, {"id": 7}
    message = {"message_id": 1, "chat": chat, "from": sender, "text": text}
    return json.dumps({"update_id": number, "message": message}).encode()


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


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({}, b"another secret"),
        ({"x_slack_signature": "v0=00"}, SECRET),
        ({"x_slack_signature": ""}, SECRET),
        ({"x_slack_request_timestamp": "now"}, SECRET),
        ({"now": "1531420618"}, SECRET),
        ({"now": "99999999999"}, SECRET),
    ],
)
async def test_only_a_wrong_signature_is_told_to_be_one_and_stores_nothing(
    sources: Sources, headers: dict[str, str], secret: bytes
) -> None:
    answer = await sources.slack("chat", said("Ev1"), secret=secret, **headers)
    assert (answer.status, answer.code) == (401, "signature_invalid")
    assert await sources.turns() == []


async def test_a_secret_that_leads_to_nothing_is_not_ready_and_named(sources: Sources) -> None:
    token = SECRET.decode()
    answer = await sources.post("absent", update(1), x_telegram_bot_api_secret_token=token)
    assert (answer.status, answer.code) == (503, "source_not_ready")
    assert int(answer.headers["Retry-After"]) > 0
    pointer = f"file:{sources.folder}/nothing"
    assert (await sources.shown("absent"))["missing"] == [pointer]
    ready = await sources.service.get("/readyz", scope=None)
    assert ready.status == 503
    assert ready.json["checks"]["sources"]["absent"] == [pointer]
    # It comes, and nothing needs to be started anew.
    (sources.folder / "nothing").write_bytes(SECRET)
    try:
        again = await sources.post("absent", update(1), x_telegram_bot_api_secret_token=token)
        assert again.status == 200
        assert (await sources.shown("absent"))["missing"] == []
    finally:
        (sources.folder / "nothing").unlink()


async def test_while_a_secret_is_rotated_both_are_taken_and_none_is_called_wrong_that_is_absent(
    sources: Sources,
) -> None:
    assert (await sources.slack("rotating", said("Ev1"))).status == 200
    old = await sources.slack("rotating", said("Ev2"), secret=b"the old one")
    assert (old.status, old.code) == (503, "source_not_ready")
    (sources.folder / "two").write_bytes(b"the old one")
    try:
        assert (await sources.slack("rotating", said("Ev2"), secret=b"the old one")).status == 200
        assert (await sources.slack("rotating", said("Ev3"), secret=b"nobody's")).status == 401
    finally:
        (sources.folder / "two").unlink()


async def test_what_is_no_source_no_method_or_too_large_is_told_so(sources: Sources) -> None:
    unknown = await sources.slack("nobody", said("Ev1"))
    assert (unknown.status, unknown.code) == (404, "not_found")
    assert (await sources.slack("{source}", said("Ev1"))).status == 404
    wrong = await sources.post("chat", b"", method="GET")
    assert (wrong.status, wrong.headers["Allow"]) == (405, "POST")
    token = SECRET.decode()
    large = await sources.post("bot", b"x" * 2049, x_telegram_bot_api_secret_token=token)
    assert (large.status, large.code) == (413, "body_too_large")
    packed = await sources.slack("chat", said("Ev1"), content_encoding="gzip")
    assert packed.status == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"type": 7}', b"[" * 10_000, b"NaN"])
async def test_what_is_signed_and_cannot_be_read_is_refused_and_no_mistake_of_ours(
    sources: Sources, body: bytes
) -> None:
    answer = await sources.slack("chat", body)
    assert (answer.status, answer.code) == (400, "body_unreadable")


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


async def test_an_event_from_before_its_key_could_be_remembered_is_refused(
    sources: Sources,
) -> None:
    created = int(time.time()) - 31 * 86_400  # noqa: TID251 - as a provider's clock
    for age, status in ((0, 400), (2 * 86_400, 200)):
        body = json.dumps({"id": "evt_1", "type": "a", "created": created + age}).encode()
        now = str(int(time.time()))  # noqa: TID251 - as a provider's clock
        digest = hmac.new(SECRET, f"{now}.".encode() + body, hashlib.sha256).hexdigest()
        answer = await sources.post("money", body, stripe_signature=f"t={now},v1={digest}")
        assert answer.status == status


async def test_a_paused_source_takes_what_comes_and_holds_it_up(sources: Sources) -> None:
    assert (await sources.service.post("/v1/sources/chat/pause", {})).status == 200
    assert (await sources.slack("chat", said("Ev1"))).status == 200
    assert await sources.turns() == []
    shown = await sources.shown("chat")
    assert (shown["held"], shown["kind"], shown["configured"]) == (1, "slack", True)
    assert shown["url"] == "https://in.example/base/v1/sources/chat"
    assert (await sources.service.post("/v1/sources/chat/resume", {})).status == 200


async def test_a_full_queue_asks_to_come_again_and_knows_what_it_knew(sources: Sources) -> None:
    assert (await sources.plain("full", {"id": "1"})).status == 200
    full = await sources.plain("full", {"id": "2"})
    assert (full.status, full.code) == (503, "source_not_ready")
    assert int(full.headers["Retry-After"]) >= 5
    assert (await sources.plain("full", {"id": "1"})).status == 200


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


async def test_no_answer_to_a_provider_holds_its_own_words(sources: Sources) -> None:
    for body in (said("Ev1", "c4n4ry"), b"c4n4ry"):
        for secret in (SECRET, b"another"):
            answer = await sources.slack("chat", body, secret=secret)
            assert b"c4n4ry" not in answer.body
