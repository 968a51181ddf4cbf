"""Park: an attempt ends to wait for a signal or a time under its turn's own handle, and is given back.

The lane stays the turn's, and nothing else is kept for it: no lease, no connection. A signal that came before wakes it
in the same transaction, so that none is missed, whichever of them comes first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import (
    LeaseLost,
    NoParkSeconds,
    NoSuchTurn,
    Parked,
    Parking,
    ParksExhausted,
)
from app.engine.fence import find_attempts, lease_lost
from app.engine.statements import load
from app.engine.transaction import transact
from app.engine.wake_parked import wake_turns

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

Outcome = Parked | ParksExhausted | NoParkSeconds | LeaseLost | NoSuchTurn
_Pair = tuple[UUID, UUID]


async def park(pool: "Pool", parkings: Sequence[Parking]) -> list[Outcome]:
    """Park each turn whose token holds; one outcome each, in order. The same call again tells the state."""
    first: dict[_Pair, int] = {}
    for n, parking in enumerate(parkings):
        first.setdefault((parking.turn, parking.token), n)

    async def work(connection: "Link") -> dict[int, Outcome]:
        heads = {pair: parkings[n] for pair, n in first.items()}
        done = await _park(connection, list(heads.values()))
        rest = {pair: parking for pair, parking in heads.items() if pair not in done}
        done |= await _refuse(connection, rest) if rest else {}
        return {n: done[pair] for pair, n in first.items()}

    outcomes = await transact(pool, work)
    # The same token twice in one list: the later ones find what the first has left.
    later = [n for n in range(len(parkings)) if n not in outcomes]
    if later:
        again = await park(pool, [parkings[n] for n in later])
        outcomes |= dict(zip(later, again, strict=True))
    return [outcomes[n] for n in range(len(parkings))]


async def _park(connection: "Link", parkings: Sequence[Parking]) -> dict[_Pair, Outcome]:
    """Park those whose tokens hold, and wake again those that were told before what they wait for."""
    rows = await SQL["park_turns"].rows(
        connection,
        turns=[parking.turn for parking in parkings],
        tokens=[parking.token for parking in parkings],
        names=[parking.name for parking in parkings],
        seconds=[parking.seconds for parking in parkings],
        payload_hashes=[parking.payload_hash for parking in parkings],
        notes=[parking.note for parking in parkings],
        parks_max=[parking.parks_max for parking in parkings],
    )
    if not rows:
        return {}
    kept = await SQL["meet_signals"].rows(connection, turns=[row["id"] for row in rows])
    woken = await wake_turns(connection, {row["id"]: row["number"] for row in kept})
    return {
        (row["id"], row["token"]): Parked("queued", None)
        if row["id"] in woken
        else Parked("parked", row["deadline_at"])
        for row in rows
    }


async def _refuse(connection: "Link", parkings: dict[_Pair, Parking]) -> dict[_Pair, Outcome]:
    """What those are told that are not parked by this call."""
    found = await find_attempts(connection, list(parkings))
    before = [pair for pair, row in found.items() if row["ended"] == "parked"]
    waits = {
        (row["turn"], row["token"]): row
        for row in (await _waits(connection, before) if before else ())
    }
    return {
        pair: _answer(parking, found.get(pair), waits.get(pair))
        for pair, parking in parkings.items()
    }


async def _waits(connection: "Link", pairs: Sequence[_Pair]) -> "list[Record]":
    turns, tokens = [turn for turn, _ in pairs], [token for _, token in pairs]
    return await SQL["find_waits"].rows(connection, turns=turns, tokens=tokens)


def _answer(parking: Parking, row: "Record | None", wait: "Record | None") -> Outcome:
    if row is None:
        return NoSuchTurn()
    if row["attempt"] is not None and row["ended"] is None:
        # It was locked by this call, and has not been moved by it.
        return ParksExhausted() if parking.seconds is not None else NoParkSeconds()
    asked = (parking.name, parking.payload_hash)
    if wait is None or (wait["name"], wait["payload_hash"]) != asked:
        return lease_lost(row)
    deadline_at = wait["deadline_at"] if wait["ended"] is None else None
    return Parked(row["state"], deadline_at, repeated=True)
