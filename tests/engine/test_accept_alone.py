"""One that is accepted alone leaves, row by row, what it would have left among others."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.model import Arrival
from tests.engine.stories import Sink, arrival

if TYPE_CHECKING:
    from uuid import UUID

    from asyncpg import Record

    from tests.database import Admin

# What of a row is of its own accept: ids and numbers that were drawn, and the time.
DRAWN = {"id", "inbound", "turn", "xact", "at", "created_at", "received_at", "holder"}
TABLES = {
    "idempotency_key": "turn = $1",
    "inbound": "turn = $1",
    "turn": "id = $1",
    "event": "turn = $1",
    "lane": "holder = $1 or $1 in (select id from sink.turn where conversation = lane.conversation)",
}

KINDS: dict[str, dict[str, Any]] = {
    "nothing else": {},
    "everything": {
        "body": bytes(range(256)),
        "strict_json": False,
        "content_type": "application/octet-stream",
        "headers": {"x-request": "\u00e9"},
        "metadata": '{"a": 1}',
        "view": '{"text": "a"}',
        "reply": b"secret",
        "reply_expires_at": datetime(2031, 1, 1, tzinfo=UTC),
        "priority": -7,
    },
    "a source": {"scope": "slack", "source": "slack", "queue": "support"},
}


# What is told by how long after another time it is.
SPANS = {
    ("idempotency_key", "expires_at"): "created_at",
    ("inbound", "key_expires_at"): "received_at",
    ("turn", "due_at"): "created_at",
}


def _told(table: str, row: "Record") -> dict[str, str]:
    told = {}
    for name, value in row.items():
        since = SPANS.get((table, name))
        if since is not None and value.tzinfo is not None:
            told[name] = str(value - row[since])
        elif name not in DRAWN:
            # What is due at no time is later than any, and has no zone.
            told[name] = str(value)
    return told


async def _rows(admin: "Admin", turn: "UUID") -> dict[str, list[dict[str, str]]]:
    return {
        table: [
            _told(table, row)
            for row in await admin.fetch(f"select * from sink.{table} where {condition}", turn)
        ]
        for table, condition in TABLES.items()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["no conversation", "free", "taken", "paused", "held up"])
async def test_one_alone_leaves_what_it_leaves_among_others(
    sink: Sink, admin: "Admin", kind: str, place: str
) -> None:
    one = arrival("key", None if place == "no conversation" else "c", **KINDS[kind])
    # The others need what one alone never does.
    others = [arrival(f"other-{n}", delay_seconds=60.0) for n in range(3)]
    left = []
    for together in ([one], [one, *others]):
        await admin.execute(
            f"truncate {', '.join(f'sink.{table}' for table in (*TABLES, 'pause'))}"
        )
        await _make_way(sink, place, one)
        accepted, *_ = await sink.accept(*together)
        left.append((accepted.state, accepted.duplicate, await _rows(admin, accepted.turn)))
        again = await sink.accept_one("key", one.conversation, **KINDS[kind])
        assert (again.turn, again.duplicate, again.state) == (accepted.turn, True, accepted.state)
    assert left[0] == left[1]
    assert all(len(rows) == 1 for name, rows in left[0][2].items() if name != "lane")


async def _make_way(sink: Sink, place: str, one: Arrival) -> None:
    if place == "taken":
        await sink.accept(*(replace(one, key=f"before-{n}") for n in range(2)))
    if place in ("paused", "held up"):
        await sink.pause("source", one.source)
    if place == "held up":
        await sink.accept(replace(one, key="before"))
        await sink.resume("source", one.source)
