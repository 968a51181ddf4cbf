"""One request with many items: all of them or none, in order, and once however it comes again."""

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.domain.json_view import SLICES_MAX
from app.settings import Queue, Source
from tests.api.conftest import EMPTY, Answer, Service, opened
from tests.database import Clock
from tests.engine.invariants import broken

if TYPE_CHECKING:
    from tests.database import Admin

SECRET = b"one-signing-secret"


@dataclass(slots=True)
class Lines:
    """A service that LINE sends to: many events a request."""

    service: Service
    admin: "Admin"

    async def send(self, events: Sequence[object], *, source: str = "line") -> Answer:
        body = json.dumps({"destination": "U0", "events": events}).encode()
        signature = base64.b64encode(hmac.digest(SECRET, body, "sha256")).decode()
        headers = {"X-Line-Signature": signature, "Content-Type": "application/json"}
        path = f"/v1/sources/{source}"
        return await self.service.call("POST", path, scope=None, body=body, headers=headers)

    async def kept(self) -> list[str]:
        """The ids of the events that are kept, in the order in which agents get them."""
        rows = await self.admin.fetch(
            "select i.body from sink.inbound as i inner join sink.turn as t on t.id = i.turn "
            "order by t.lane_seq, i.id"
        )
        return [json.loads(row["body"])["webhookEventId"] for row in rows]


def event(n: int, **more: object) -> dict[str, object]:
    return {
        "type": "message",
        "webhookEventId": f"e{n:04}",
        "source": {"type": "user", "userId": "U1"},
        "message": {"type": "text", "id": str(n), "text": f"number {n}"},
        **more,
    }


@pytest.fixture(scope="session")
async def with_lines(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Service]:
    folder: Path = tmp_path_factory.mktemp("secrets")
    (folder / "one").write_bytes(SECRET)
    line = Source(kind="line", secrets=(f"file:{folder}/one",))
    own = {
        "line": line,
        "small": line.model_copy(update={"queue": "small"}),
        "short": line.model_copy(update={"body_bytes_max": 2048}),
    }
    queues = {"default": Queue(), "small": Queue(length_max=3)}
    async with opened(database_url, sources=own, queues=queues) as running:
        yield running


@pytest.fixture
async def lines(with_lines: Service, admin: "Admin") -> AsyncIterator[Lines]:
    await admin.execute(EMPTY)
    await Clock(admin).travel(0)
    yield Lines(with_lines, admin)
    assert await broken(admin) == {}


async def test_many_items_are_kept_in_order_and_once_however_they_are_cut(lines: Lines) -> None:
    events = [event(n) for n in range(300)]
    assert (await lines.send(events)).status == 200
    assert (await lines.send(events[100:] + events[:50])).status == 200
    assert (await lines.send([*events[250:], event(300)])).status == 200
    assert await lines.kept() == [f"e{n:04}" for n in range(301)]


async def test_a_queue_with_room_for_some_takes_none_and_all_once_there_is_room(
    lines: Lines,
) -> None:
    assert (await lines.send([event(0), event(1)], source="small")).status == 200
    answer = await lines.send([event(n) for n in range(2, 4)], source="small")
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert await lines.kept() == ["e0000", "e0001"]
    # What is known takes no room: with it there is one that is new.
    assert (await lines.send([event(n) for n in range(3)], source="small")).status == 200
    assert await lines.kept() == ["e0000", "e0001", "e0002"]
    assert (await lines.send([event(n) for n in range(3)], source="small")).status == 200


async def test_one_item_that_cannot_be_kept_keeps_all_others_out_until_it_can(
    lines: Lines,
) -> None:
    planted = "position(convert_to('poison', 'utf8') in body) = 0"
    await lines.admin.execute(
        f"alter table sink.inbound add constraint planted check ({planted}) not valid"
    )
    poison = event(1, message={"type": "text", "id": "1", "text": "poison"})
    events = [event(0), poison, event(2)]
    try:
        answer = await lines.send(events)
    finally:
        await lines.admin.execute("alter table sink.inbound drop constraint planted")
    assert answer.status >= 500
    assert await lines.kept() == []
    assert await lines.admin.fetchval("select count(*) from sink.idempotency_key") == 0
    assert (await lines.send(events)).status == 200
    assert await lines.kept() == ["e0000", "e0001", "e0002"]


async def test_an_item_that_is_none_takes_nothing_from_the_others(lines: Lines) -> None:
    answer = await lines.send([event(0), 5, None, "words", [], event(1)])
    assert answer.status == 200
    assert await lines.admin.fetchval("select count(*) from sink.inbound") == 6
    assert (await lines.send([event(0), 5, None, "words", [], event(1)])).status == 200
    assert await lines.admin.fetchval("select count(*) from sink.inbound") == 6


async def test_what_is_too_large_or_too_many_is_refused_whole(lines: Lines) -> None:
    answer = await lines.send([event(n) for n in range(50)], source="short")
    assert (answer.status, answer.code) == (413, "body_too_large")
    many = [{"webhookEventId": f"e{n:04}"} for n in range(SLICES_MAX + 1)]
    answer = await lines.send(many)
    assert (answer.status, answer.code) == (400, "body_unreadable")
    assert await lines.kept() == []


async def test_a_changed_byte_in_one_item_of_many_keeps_all_of_them_out(lines: Lines) -> None:
    body = json.dumps({"destination": "U0", "events": [event(0), event(1)]}).encode()
    signature = base64.b64encode(hmac.new(SECRET, body, hashlib.sha256).digest()).decode()
    headers = {"X-Line-Signature": signature, "Content-Type": "application/json"}
    answer = await lines.service.call(
        "POST",
        "/v1/sources/line",
        scope=None,
        body=body.replace(b"number 1", b"number 2"),
        headers=headers,
    )
    assert answer.status == 401
    assert await lines.kept() == []
