"""What a lease token stood for: found on the attempt it was given for, after the turn has dropped it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import LeaseLost, NoSuchTurn
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)

# How an attempt ended, as the one who held its token is told.
_REASONS = {
    "sealed": "sealed",
    "released": "released",
    "failed": "released",
    "swept": "swept",
    "cancelled": "cancelled",
    "parked": "released",
}


async def find_attempts(
    connection: "Link", held: Sequence[tuple[UUID, UUID]]
) -> "dict[tuple[UUID, UUID], Record]":
    """The turn and the attempt behind each (turn, token). A turn that does not exist has no entry."""
    rows = await SQL["find_attempts"].rows(
        connection, turns=[turn for turn, _ in held], tokens=[token for _, token in held]
    )
    return {(row["turn"], row["token"]): row for row in rows}


async def why_lost(
    connection: "Link", lost: Sequence[tuple[UUID, UUID]]
) -> dict[tuple[UUID, UUID], LeaseLost | NoSuchTurn]:
    """Why each of these tokens does not hold."""
    found = await find_attempts(connection, lost)
    return {pair: lease_lost(found[pair]) if pair in found else NoSuchTurn() for pair in lost}


def lease_lost(row: "Record") -> LeaseLost:
    """The reason for the holder of a token. One that was never given is told how the turn's last attempt ended."""
    return LeaseLost(_REASONS.get(row["ended"] or row["last_ended"], "swept"), row["state"])
