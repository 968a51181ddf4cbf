"""Release and fail: an agent hands its turn back. A release is free, up to a cap of its own; a failure counts."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import HandBack, HandedBack, LeaseLost, NoSuchTurn, TurnPolicy
from app.domain.retry import turn_after_failure
from app.engine.fence import find_attempts, lease_lost
from app.engine.lane import lock_lanes, promote
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

Outcome = HandedBack | LeaseLost | NoSuchTurn


@dataclass(frozen=True, slots=True)
class PutBack:
    """Where a turn goes that leaves processing without a seal.

    `reason` is why the attempt ended, `turn_reason` why the turn failed, if it did.
    """

    turn: UUID
    token: UUID
    state: str
    reason: str
    turn_reason: str | None
    delay_seconds: float
    counted: bool
    ended: str
    verb: str


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
        await lock_lanes(connection, [turn for turn, _ in held])
        rows = await SQL["lock_held"].rows(
            connection,
            turns=[turn for turn, _ in held],
            tokens=[token for _, token in held],
            lapsed=False,
        )
        locked = {(row["id"], row["token"]): row for row in rows}
        decided = [
            _decide(item, locked[pair], policies.get(locked[pair]["queue"]), jitter.random())
            for item, pair in zip(returned, held, strict=True)
            if pair in locked
        ]
        moved = await put_back(connection, decided)
        lost = [pair for pair in held if pair not in locked]
        found = await find_attempts(connection, lost) if lost else {}
        return [
            HandedBack(moved[pair[0]])
            if pair in locked
            else _repeated(found[pair])
            if pair in found
            else NoSuchTurn()
            for pair in held
        ]

    return await transact(pool, work)


async def put_back(connection: "Link", decided: Sequence[PutBack]) -> dict[UUID, str]:
    """Move locked turns out of processing, and free the lanes of those that failed. Returns the state of each."""
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
        ended=[item.ended for item in decided],
        verbs=[item.verb for item in decided],
    )
    await promote(connection, [row["id"] for row in rows if row["state"] == "failed"])
    return {row["id"]: row["state"] for row in rows}


def _decide(item: HandBack, row: "Record", policy: TurnPolicy | None, jitter: float) -> PutBack:
    verb, ended, counted, why = "fail", "failed", True, None
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
        verb, ended, counted = "release", "released", False
        if policy is not None and row["releases"] >= policy.releases_max:
            state, why = "failed", "releases_exhausted"
    return PutBack(item.turn, item.token, state, item.reason, why, delay, counted, ended, verb)


def _repeated(row: "Record") -> Outcome:
    if row["ended"] in ("released", "failed"):
        return HandedBack(row["state"])
    return lease_lost(row)
