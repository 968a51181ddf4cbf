"""What somebody was told of a turn, as tests look at it."""

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.engine.stories import QUEUE, Sink

if TYPE_CHECKING:
    from tests.database import Admin

TOLD = {(QUEUE, "escalation", "told"): 1}
BODY = """
    select p.body from sink.outbox as o inner join sink.outbox_payload as p on p.message = o.id
    where o.turn = $1
"""


async def failed(sink: Sink, key: str = "a", conversation: str | None = None) -> UUID:
    """A turn that its agent gave up for good, of which somebody is to be told."""
    held = await sink.hold(key, conversation)
    await sink.hand_back(held, final=True, reason="impossible")
    return held.turn


async def notices(admin: "Admin") -> list[Any]:
    """What somebody is still to be told."""
    return await admin.fetch(
        "select turn, message, queue, kind, reason from sink.notice order by id"
    )


async def escalations(admin: "Admin", about: UUID) -> list[UUID]:
    """The turns that tell of this one, first to last."""
    rows = await admin.fetch("select id from sink.turn where about = $1 order by id", about)
    return [row["id"] for row in rows]


async def body_of(admin: "Admin", turn: UUID) -> dict[str, Any]:
    """What an escalation says."""
    (row,) = await admin.fetch(BODY, turn)
    told: dict[str, Any] = json.loads(row["body"])
    return told
