"""Accept: one durable inbound, one key, one turn, in one statement. What is returned is committed."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.domain.ids import IdFactory
from app.domain.model import Accepted, Arrival
from app.engine.statements import load
from app.engine.transaction import TRIES_MAX, DatabaseUnavailable, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def accept(
    pool: "Pool", arrivals: Sequence[Arrival], *, ids: IdFactory, key_seconds: float
) -> list[Accepted]:
    """Accept each arrival once, in order: the order of the list is the order in a lane.

    A key that is known answers with the ids and the state of what it stands for, whatever the body; `same_body` tells
    whether it was the same. `key_seconds` is how long a new key is remembered at least.
    """
    minted = [(ids.new(), ids.new()) for _ in arrivals]
    parameters = _columns(arrivals, minted)

    async def work(connection: "Link") -> list[Accepted | None]:
        found: list[Accepted | None] = [None] * len(arrivals)
        for row in await SQL["accept_inbound"].rows(
            connection, **parameters, key_seconds=key_seconds
        ):
            found[row["position"]] = _accepted(row, duplicate=False, same_body=True)
        known = [n for n, accepted in enumerate(found) if accepted is None]
        if known:
            for row in await SQL["find_accepted"].rows(
                connection,
                positions=known,
                scopes=[arrivals[n].scope for n in known],
                keys=[arrivals[n].key for n in known],
                body_hashes=[arrivals[n].body_hash for n in known],
            ):
                found[row["position"]] = _accepted(row, duplicate=True, same_body=row["same_body"])
        return found

    for _ in range(TRIES_MAX):
        # A single statement is its own transaction, and the second one only reads.
        accepted = await transact(pool, work, explicit=False)
        answered = [answer for answer in accepted if answer is not None]
        if len(answered) == len(arrivals):
            return answered
        # Between the two statements a key went away: its holder was rolled back or purged. What this call did accept
        # is committed, and answers as a duplicate of itself the next time round.
    raise DatabaseUnavailable


def _accepted(row: "Record", *, duplicate: bool, same_body: bool) -> Accepted:
    return Accepted(
        inbound=row["inbound"],
        turn=row["turn"],
        state=row["state"],
        duplicate=duplicate,
        same_body=same_body,
        key_expires_at=row["expires_at"],
    )


def _columns(
    arrivals: Sequence[Arrival], minted: Sequence[tuple[object, object]]
) -> dict[str, object]:
    return {
        "positions": list(range(len(arrivals))),
        "scopes": [arrival.scope for arrival in arrivals],
        "keys": [arrival.key for arrival in arrivals],
        "body_hashes": [arrival.body_hash for arrival in arrivals],
        "inbounds": [inbound for inbound, _ in minted],
        "turns": [turn for _, turn in minted],
        "queues": [arrival.queue for arrival in arrivals],
        "sources": [arrival.source for arrival in arrivals],
        "conversations": [arrival.conversation for arrival in arrivals],
        "content_types": [arrival.content_type for arrival in arrivals],
        "headers": [json.dumps(dict(arrival.headers)) for arrival in arrivals],
        "metadatas": [arrival.metadata for arrival in arrivals],
        "bodies": [arrival.body for arrival in arrivals],
        "stricts": [arrival.strict_json for arrival in arrivals],
        "priorities": [arrival.priority for arrival in arrivals],
        "delays": [arrival.delay_seconds for arrival in arrivals],
        "not_befores": [arrival.not_before for arrival in arrivals],
    }
