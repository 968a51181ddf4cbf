"""Release and fail: an agent hands its turn back. A release is free, up to a cap of its own; a failure counts."""

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from app.domain.model import HandBack, HandedBack, LeaseLost, NoSuchTurn, TurnPolicy
from app.domain.retry import turn_after_failure
from app.engine.fence import find_attempts, lease_lost
from app.engine.put_back import PutBack, lock_held, put_back
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

Outcome = HandedBack | LeaseLost | NoSuchTurn


async def release(
    pool: "Pool",
    returned: Sequence[HandBack],
    *,
    policies: Mapping[str, TurnPolicy],
    jitter: random.Random,
) -> list[Outcome]:
    """Hand each turn back; one outcome each, in order. The same call again answers with the turn's state.

    `policies` are the queues configured here, by name.
    """
    held = [(item.turn, item.token) for item in returned]

    async def work(connection: "Link") -> list[Outcome]:
        locked = await lock_held(connection, held, lapsed=False)
        decided = [
            _decide(item, locked[pair], policies.get(locked[pair]["queue"]), jitter.random())
            for item, pair in zip(returned, held, strict=True)
            if pair in locked
        ]
        moved = await put_back(connection, decided)
        lost = [pair for pair in held if pair not in locked]
        found = await find_attempts(connection, lost) if lost else {}
        return [
            moved[pair[0]]
            if pair in locked
            else _repeated(found[pair])
            if pair in found
            else NoSuchTurn()
            for pair in held
        ]

    return await transact(pool, work)


def _decide(item: HandBack, row: "Record", policy: TurnPolicy | None, jitter: float) -> PutBack:
    verb, ended, why, released = "fail", "failed", None, False
    state, delay = "queued", item.delay_seconds
    if item.final:
        state, why = "failed", item.reason
    elif item.failed:
        state, backoff = turn_after_failure(
            attempts_used=row["attempts_used"], policy=policy, jitter=jitter
        )
        delay = max(backoff, item.delay_seconds)
        why = "attempts_exhausted" if state == "failed" else None
    else:
        verb, ended, released = "release", "released", True
        if policy is not None and row["releases"] >= policy.releases_max and not item.untold:
            state, why = "failed", "releases_exhausted"
    return PutBack(
        turn=item.turn,
        token=item.token,
        state=state,
        reason=item.reason,
        turn_reason=why,
        delay_seconds=delay,
        counted=not released,
        releases=int(released and not item.untold),
        ended=ended,
        verb=verb,
    )


def _repeated(row: "Record") -> Outcome:
    if row["ended"] in ("released", "failed"):
        return HandedBack(row["state"])
    return lease_lost(row)
