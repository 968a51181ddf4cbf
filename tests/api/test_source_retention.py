"""What sources keep goes with its turn: the view, leave to answer, and that other bodies came under a key."""

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from app.settings import Source
from app.workers.purger import Purger
from tests.api.conftest import EMPTY, TABLES, Answer, Service, opened
from tests.database import Clock
from tests.engine.invariants import broken

if TYPE_CHECKING:
    from tests.database import Admin

SECRET = b"one-signing-secret"
DAY = 86_400.0
CANARY = "c4n4ry"
SAID = {
    "type": "block_actions",
    "trigger_id": "1.2",
    "team": {"id": "T1"},
    "user": {"id": f"U{CANARY}"},
    "channel": {"id": "C1"},
    "response_url": f"https://hooks.slack.com/actions/T1/1/{CANARY}",
    "actions": [{"value": f"red {CANARY}"}],
}


@pytest.fixture
async def service(database_url: str, admin: "Admin", tmp_path: Path) -> AsyncIterator[Service]:
    (tmp_path / "one").write_bytes(SECRET)
    await admin.execute(EMPTY)
    await Clock(admin).travel(0)
    chat = Source(kind="slack", secrets=(f"file:{tmp_path}/one",))
    async with opened(database_url, sources={"chat": chat}) as running:
        yield running
    assert await broken(admin) == {}


async def _press(service: Service, **changes: object) -> Answer:
    body = urlencode({"payload": json.dumps({**SAID, **changes})}).encode()
    now = str(int(time.time()))  # noqa: TID251 - as a provider's clock
    digest = hmac.new(SECRET, b"v0:" + now.encode() + b":" + body, hashlib.sha256).hexdigest()
    headers = {
        "X-Slack-Request-Timestamp": now,
        "X-Slack-Signature": f"v0={digest}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return await service.call("POST", "/v1/sources/chat", scope=None, body=body, headers=headers)


async def _where(admin: "Admin", word: str) -> set[str]:
    """The tables that have a word anywhere."""
    found = set()
    for table in TABLES:
        rows = await admin.fetch(f"select * from sink.{table}")
        if any(word in str(value) for row in rows for value in row.values()):
            found.add(table)
    return found


async def _ended(service: Service) -> str:
    """A turn from the source that nobody answers, cancelled; its conversation."""
    assert (await _press(service)).status == 200
    assert (await _press(service, more="another body")).status == 200
    (turn,) = (await service.claim()).json["turns"]
    assert CANARY in json.dumps(turn["inbound"][0]["view"])
    assert (await service.post(f"/v1/turns/{turn['id']}/cancel", {})).status == 200
    conversation: str = turn["conversation"]
    return conversation


async def test_an_erased_conversation_leaves_no_view_and_no_leave_to_answer(
    service: Service, admin: "Admin"
) -> None:
    conversation = await _ended(service)
    assert await _where(admin, CANARY) == {"inbound"}
    erased = await service.post(
        "/v1/conversations/erase", {"queue": "default", "conversation": conversation}
    )
    assert (erased.status, erased.json["inbound"]) == (200, 1)
    assert await _where(admin, CANARY) == set()
    # What came late is a duplicate of what is gone, and is answered as a success.
    assert (await _press(service)).status == 200
    assert await _where(admin, CANARY) == set()


async def test_a_purge_takes_them_and_what_differed_goes_with_the_keys(
    service: Service, admin: "Admin", clock: Clock
) -> None:
    await _ended(service)
    assert await admin.fetchval("select count(*) from sink.differing") == 1
    # Beyond the retention of the turn, of its tombstone, and of its key.
    await clock.travel(31 * DAY)
    await _walk(service)
    assert await _where(admin, CANARY) == set()
    assert await admin.fetchval("select count(*) from sink.inbound") == 0
    assert await admin.fetchval("select count(*) from sink.differing") == 0
    await clock.travel(31 * DAY)
    await _walk(service)
    assert await admin.fetchval("select count(*) from sink.idempotency_key") == 0


async def _walk(service: Service) -> None:
    purger = Purger(service.core)
    rest = service.core.settings.retention.interval_seconds
    for _ in range(200):
        if await purger.tick() >= rest:
            return
    raise AssertionError("a walk that does not end")
