"""Put back: turns leave processing without a seal, by their agent's wish or by the sweep, and free lanes they lost."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import HandedBack
from app.engine.lane import lock_lanes, promote
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class PutBack:
    """Where a turn goes that leaves processing without a seal.

    `reason` is why the attempt ended, `turn_reason` why the turn failed, if it did. `counted=False` gives the attempt
    back; `releases` is how many it adds to those that are capped.
    """

    turn: UUID
    token: UUID
    state: str
    reason: str
    turn_reason: str | None
    delay_seconds: float
    counted: bool
    releases: int
    ended: str
    verb: str


async def lock_held(
    connection: "Link", held: Sequence[tuple[UUID, UUID]], *, lapsed: bool
) -> "dict[tuple[UUID, UUID], Record]":
    """Lock those of these (turn, token) that still hold, behind their lanes.

    With `lapsed` only those whose lease is over.
    """
    await lock_lanes(connection, [turn for turn, _ in held])
    rows = await SQL["lock_held"].rows(
        connection,
        turns=[turn for turn, _ in held],
        tokens=[token for _, token in held],
        lapsed=lapsed,
    )
    return {(row["id"], row["token"]): row for row in rows}


async def put_back(connection: "Link", decided: Sequence[PutBack]) -> dict[UUID, HandedBack]:
    """Move locked turns out of processing, and free the lanes of those that failed. Returns what became of each."""
    if not decided:
        return {}
    rows = await SQL["put_back"].rows(
        connection,
        turns=[item.turn for item in decided],
        tokens=[item.token for item in decided],
        states=[item.state for item in decided],
        reasons=[item.reason for item in decided],
        turn_reasons=[item.turn_reason for item in decided],
        delays=[item.delay_seconds for item in decided],
        counted=[item.counted for item in decided],
        releases=[item.releases for item in decided],
        ended=[item.ended for item in decided],
        verbs=[item.verb for item in decided],
    )
    await promote(connection, [row["id"] for row in rows if row["state"] == "failed"])
    counted = {item.turn for item in decided if item.counted}
    return {
        row["id"]: HandedBack(row["state"], _used(row["usage"]) if row["id"] in counted else {})
        for row in rows
    }


def _used(usage: str | None) -> dict[str, Decimal]:
    """What an attempt had told of its usage."""
    if usage is None:
        return {}
    return {name: Decimal(str(total)) for name, total in json.loads(usage).items()}
