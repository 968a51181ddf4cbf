"""Accept: one durable inbound, one key, one turn, in one statement. What is returned is committed."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.errors import InvalidContent, Problem
from app.domain.ids import IdFactory
from app.domain.model import Accepted, Arrival
from app.engine.join import accept_joining, contents
from app.engine.statements import load
from app.engine.transaction import TRIES_MAX, DatabaseUnavailable, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def accept(
    pool: "Pool",
    arrivals: Sequence[Arrival],
    *,
    ids: IdFactory,
    key_seconds: float,
    lock_wait_ms: int | None = None,
) -> list[Accepted]:
    """Accept each arrival once, in order: the order of the list is the order in a lane.

    A key that is known answers with the ids and the state of what it stands for, whatever the body; `same_body` tells
    whether it was the same. `key_seconds` is how long a new key is remembered at least.

    Raises `InvalidContent` for one that would be due too far ahead; what came before it in the list is accepted.

    Arrivals that may join others of their conversation are accepted apart from the rest, run by run. With
    `lock_wait_ms` a run is all or nothing, and `Busy` where somebody holds what it needs longer than that.
    """
    accepted: list[Accepted] = []
    for joins, run in groupby(arrivals, key=lambda arrival: arrival.may_join):
        accepted += await _accept_run(
            pool,
            list(run),
            joins=joins,
            ids=ids,
            key_seconds=key_seconds,
            lock_wait_ms=lock_wait_ms,
        )
    return accepted


async def recall(pool: "Pool", arrivals: Sequence[Arrival]) -> list[Accepted | None]:
    """What each arrival's key stands for, like a repeated accept of it; None for one that is new. Changes nothing."""

    async def work(connection: "Link") -> "list[Record]":
        return await _known(connection, arrivals, range(len(arrivals)))

    found: list[Accepted | None] = [None] * len(arrivals)
    for row in await transact(pool, work, explicit=False):
        found[row["position"]] = _accepted(row, duplicate=True, same_body=row["same_body"])
    return found


async def _accept_run(
    pool: "Pool",
    arrivals: Sequence[Arrival],
    *,
    joins: bool,
    ids: IdFactory,
    key_seconds: float,
    lock_wait_ms: int | None,
) -> list[Accepted]:
    minted = [(ids.new(), ids.new()) for _ in arrivals]

    async def work(connection: "Link") -> list[Accepted | None]:
        if joins:
            found = await accept_joining(connection, arrivals, minted, key_seconds=key_seconds)
        else:
            found = await _accept_alone(connection, arrivals, minted, key_seconds=key_seconds)
        known = [n for n, accepted in enumerate(found) if accepted is None]
        for row in await _known(connection, arrivals, known):
            found[row["position"]] = _accepted(row, duplicate=True, same_body=row["same_body"])
        return found

    for _ in range(TRIES_MAX):
        # Alone, a single statement is its own transaction, and the second one only reads.
        accepted = await transact(pool, work, explicit=joins, lock_wait_ms=lock_wait_ms)
        answered = [answer for answer in accepted if answer is not None]
        if len(answered) == len(arrivals):
            return answered
        # Between the two statements a key went away: its holder was rolled back or purged. What this call did accept
        # is committed, and answers as a duplicate of itself the next time round.
    raise DatabaseUnavailable


async def _accept_alone(
    connection: "Link",
    arrivals: Sequence[Arrival],
    minted: Sequence[tuple[UUID, UUID]],
    *,
    key_seconds: float,
) -> list[Accepted | None]:
    found: list[Accepted | None] = [None] * len(arrivals)
    rows = await SQL["accept_inbound"].rows(
        connection,
        positions=list(range(len(arrivals))),
        scopes=[arrival.scope for arrival in arrivals],
        keys=[arrival.key for arrival in arrivals],
        body_hashes=[arrival.body_hash for arrival in arrivals],
        inbounds=[inbound for inbound, _ in minted],
        turns=[turn for _, turn in minted],
        priorities=[arrival.priority for arrival in arrivals],
        delays=[arrival.delay_seconds for arrival in arrivals],
        not_befores=[arrival.not_before for arrival in arrivals],
        delays_max=[arrival.delay_seconds_max for arrival in arrivals],
        key_seconds=key_seconds,
        **contents(arrivals),
    )
    for row in rows:
        if row["turn"] is None:
            raise InvalidContent(Problem("/not_before", "out_of_range"))
        found[row["position"]] = _accepted(row, duplicate=False, same_body=True)
    return found


async def _known(
    connection: "Link", arrivals: Sequence[Arrival], positions: Sequence[int]
) -> "list[Record]":
    if not positions:
        return []
    return await SQL["find_accepted"].rows(
        connection,
        positions=list(positions),
        scopes=[arrivals[n].scope for n in positions],
        keys=[arrivals[n].key for n in positions],
        body_hashes=[arrivals[n].body_hash for n in positions],
    )


def _accepted(row: "Record", *, duplicate: bool, same_body: bool) -> Accepted:
    return Accepted(
        inbound=row["inbound"],
        turn=row["turn"],
        state=row["state"],
        duplicate=duplicate,
        same_body=same_body,
        key_expires_at=row["expires_at"],
    )
