"""Accept: one durable inbound, one key, one turn, in one statement. What is returned is committed."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.errors import InvalidContent, Problem
from app.domain.ids import IdFactory
from app.domain.model import Accepted, Arrival
from app.engine.arrivals import content, contents, keys_of
from app.engine.join import accept_joining
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
    together: bool = False,
) -> list[Accepted]:
    """Accept each arrival once, in order: the order of the list is the order in a lane.

    A key that is known answers with the ids and the state of what it stands for, whatever the body; `same_body` tells
    whether it was the same. `key_seconds` is how long a new key is remembered at least. What has several keys and is
    known by one of them leaves none of the others behind.

    Raises `InvalidContent` for one that would be due too far ahead; what came before it in the list is accepted.

    Arrivals that may join others of their conversation are accepted apart from the rest, run by run; `together` all
    of them are accepted in one transaction, the rest before those that may join. With `lock_wait_ms` a run is all or
    nothing, and `Busy` where somebody holds what it needs longer than that.
    """
    accepted: list[Accepted] = []
    for _, run in groupby(arrivals, key=lambda arrival: together or arrival.may_join):
        accepted += await _accept_run(
            pool, list(run), ids=ids, key_seconds=key_seconds, lock_wait_ms=lock_wait_ms
        )
    return accepted


async def recall(pool: "Pool", arrivals: Sequence[Arrival]) -> list[Accepted | None]:
    """What each arrival's key stands for, like a repeated accept of it; None for one that is new. Changes nothing."""

    async def work(connection: "Link") -> dict[int, Accepted]:
        return await _known(connection, arrivals, range(len(arrivals)))

    known = await transact(pool, work, explicit=False)
    return [known.get(n) for n in range(len(arrivals))]


async def _accept_run(
    pool: "Pool",
    arrivals: Sequence[Arrival],
    *,
    ids: IdFactory,
    key_seconds: float,
    lock_wait_ms: int | None,
) -> list[Accepted]:
    minted = [(ids.new(), ids.new()) for _ in arrivals]
    parts = [
        [n for n, one in enumerate(arrivals) if one.may_join is joins] for joins in (False, True)
    ]
    # A single statement is its own transaction, and the second one only reads. What it may refuse takes back the rest
    # of a run that is all or nothing.
    may_refuse = lock_wait_ms is not None and any(one.may_be_too_far for one in arrivals)
    explicit = bool(parts[1]) or may_refuse or any(one.also for one in arrivals)
    accepted: dict[int, Accepted] = {}

    async def work(connection: "Link") -> dict[int, Accepted]:
        found: dict[int, Accepted] = {}
        for part in parts:
            # One that lost a key to another of this call which was known by a second one has it the next time round.
            for _ in range(TRIES_MAX if explicit else 1):
                if left := [n for n in part if n not in found and n not in accepted]:
                    found |= await _accept_part(
                        connection,
                        [arrivals[n] for n in left],
                        [minted[n] for n in left],
                        left,
                        key_seconds=key_seconds,
                        lock_wait_ms=lock_wait_ms,
                    )
        return found

    for _ in range(TRIES_MAX):
        accepted |= await transact(pool, work, explicit=explicit, lock_wait_ms=lock_wait_ms)
        if len(accepted) == len(arrivals):
            return [accepted[n] for n in range(len(arrivals))]
        # Between the two statements a key went away: its holder was rolled back or purged. The rest is committed.
    raise DatabaseUnavailable


async def _accept_part(
    connection: "Link",
    arrivals: Sequence[Arrival],
    minted: Sequence[tuple[UUID, UUID]],
    positions: Sequence[int],
    *,
    key_seconds: float,
    lock_wait_ms: int | None,
) -> dict[int, Accepted]:
    """Accept what is new of these, and recall the rest, by their `positions` in the call."""
    if arrivals[0].may_join:
        found = await accept_joining(connection, arrivals, minted, key_seconds=key_seconds)
    else:
        found = await _accept_alone(
            connection, arrivals, minted, key_seconds=key_seconds, lock_wait_ms=lock_wait_ms
        )
    lost = [n for n, accepted in enumerate(found) if accepted is None]
    several = [n for n in lost if arrivals[n].also]
    if several:
        await SQL["drop_keys"].run(
            connection,
            scopes=[arrivals[n].scope for n in several for _ in arrivals[n].keys],
            keys=[key for n in several for key in arrivals[n].keys],
            inbounds=[minted[n][0] for n in several for _ in arrivals[n].keys],
        )
    known = await _known(connection, arrivals, lost)
    found = [accepted or known.get(n) for n, accepted in enumerate(found)]
    later = [
        one for one, accepted in zip(arrivals, found, strict=True) if not (accepted or one.is_now)
    ]
    if later:
        (row,) = await SQL["find_too_far"].rows(connection, **_times(later))
        if row["is_too_far"]:
            raise InvalidContent(Problem("/not_before", "out_of_range"))
    return {positions[n]: accepted for n, accepted in enumerate(found) if accepted is not None}


async def _accept_alone(
    connection: "Link",
    arrivals: Sequence[Arrival],
    minted: Sequence[tuple[UUID, UUID]],
    *,
    key_seconds: float,
    lock_wait_ms: int | None,
) -> list[Accepted | None]:
    found: list[Accepted | None] = [None] * len(arrivals)
    if len(arrivals) == 1 and arrivals[0].is_plain and lock_wait_ms is None:
        rows = await _insert_one(connection, arrivals[0], *minted[0], key_seconds=key_seconds)
    else:
        rows = await SQL["accept_inbound"].rows(
            connection,
            senders=list({arrival.source for arrival in arrivals}),
            scopes=[arrival.scope for arrival in arrivals],
            body_hashes=[arrival.body_hash for arrival in arrivals],
            inbounds=[inbound for inbound, _ in minted],
            turns=[turn for _, turn in minted],
            priorities=[arrival.priority for arrival in arrivals],
            key_seconds=key_seconds,
            lock_wait_ms=lock_wait_ms,
            **_times(arrivals),
            **keys_of(arrivals),
            **contents(arrivals),
        )
    positions = {turn: n for n, (_, turn) in enumerate(minted)}
    for row in rows:
        n = positions[row["turn"]]
        found[n] = Accepted(
            inbound=minted[n][0],
            turn=row["turn"],
            state=row["state"],
            duplicate=False,
            same_body=True,
            key_expires_at=row["expires_at"],
        )
    return found


async def _insert_one(
    connection: "Link", arrival: Arrival, inbound: UUID, turn: UUID, *, key_seconds: float
) -> "list[Record]":
    return await SQL["accept_one"].rows(
        connection,
        scope=arrival.scope,
        key=arrival.key,
        body_hash=arrival.body_hash,
        inbound=inbound,
        turn=turn,
        priority=arrival.priority,
        key_seconds=key_seconds,
        **content(arrival),
    )


def _times(arrivals: Sequence[Arrival]) -> dict[str, object]:
    """When each is to be due, and how far ahead that may lie."""
    return {
        "delays": [arrival.delay_seconds for arrival in arrivals],
        "not_befores": [arrival.not_before for arrival in arrivals],
        "delays_max": [arrival.delay_seconds_max for arrival in arrivals],
    }


async def _known(
    connection: "Link", arrivals: Sequence[Arrival], positions: Sequence[int]
) -> dict[int, Accepted]:
    """What the first key of each that is known stands for. Only its own key tells of another body."""
    if not positions:
        return {}
    named = [(n, nth, key) for n in positions for nth, key in enumerate(arrivals[n].keys)]
    rows = await SQL["find_accepted"].rows(
        connection,
        positions=[n for n, _, _ in named],
        nths=[nth for _, nth, _ in named],
        scopes=[arrivals[n].scope for n, _, _ in named],
        keys=[key for _, _, key in named],
        body_hashes=[arrivals[n].body_hash for n, _, _ in named],
    )
    known: dict[int, Accepted] = {}
    for row in rows:
        same_body = row["same_body"] or row["nth"] > 0
        known.setdefault(row["position"], _accepted(row, duplicate=True, same_body=same_body))
    return known


def _accepted(row: "Record", *, duplicate: bool, same_body: bool) -> Accepted:
    return Accepted(
        inbound=row["inbound"],
        turn=row["turn"],
        state=row["state"],
        duplicate=duplicate,
        same_body=same_body,
        key_expires_at=row["expires_at"],
    )
