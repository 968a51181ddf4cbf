"""Sweep: put back whatever a crash stranded, and end what has used up its attempts.

Candidates are found without a lock and decided by guarded writes: a holder who seals, settles or renews meanwhile has
won, and the sweep changes nothing of his.
"""

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.domain.model import DeliveryPolicy, Settlement, TurnPolicy
from app.domain.outcome import Unknown
from app.domain.retry import after_attempt, turn_after_failure
from app.engine.lane import lock_lanes
from app.engine.release import SQL as RELEASE_SQL
from app.engine.release import PutBack, put_back
from app.engine.settle import settle_attempts
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


async def sweep_turns(
    pool: "Pool", *, policies: Mapping[str, TurnPolicy], turns_max: int, jitter: random.Random
) -> dict[str, int]:
    """Put back up to `turns_max` turns whose lease lapsed; returns how many came to each state."""

    async def work(connection: "Link") -> dict[str, int]:
        lapsed = await SQL["find_lapsed_turns"].rows(connection, turns_max=turns_max)
        if not lapsed:
            return {}
        await lock_lanes(connection, [row["id"] for row in lapsed])
        rows = await RELEASE_SQL["lock_held"].rows(
            connection,
            turns=[row["id"] for row in lapsed],
            tokens=[row["token"] for row in lapsed],
            lapsed=True,
        )
        decided = [_stranded(row, policies.get(row["queue"]), jitter.random()) for row in rows]
        moved = await put_back(connection, decided)
        return {state: list(moved.values()).count(state) for state in set(moved.values())}

    return await transact(pool, work)


async def sweep_messages(
    pool: "Pool",
    *,
    policies: Mapping[str, DeliveryPolicy],
    messages_max: int,
    jitter: random.Random,
) -> int:
    """Settle up to `messages_max` attempts whose worker did not come back; returns how many.

    Whoever took them may have sent them: each ends as an unknown attempt, and is repeated with the same key.
    """

    async def work(connection: "Link") -> int:
        rows = await SQL["find_lapsed_messages"].rows(connection, messages_max=messages_max)
        if not rows:
            return 0
        lost = Unknown("lease_lapsed")
        settlements = [
            Settlement(
                row["id"],
                row["attempt_id"],
                after_attempt(
                    lost,
                    attempts_used=row["attempts_used"],
                    may_have_arrived=row["may_have_arrived"],
                    age_seconds=row["age_seconds"],
                    policy=policies.get(row["destination"]),
                    jitter=jitter.random(),
                ),
            )
            for row in rows
        ]
        return len(await settle_attempts(connection, settlements, verb="sweep", lapsed=True))

    return await transact(pool, work)


def _stranded(row: "Record", policy: TurnPolicy | None, jitter: float) -> PutBack:
    state, delay = turn_after_failure(
        attempts_used=row["attempts_used"], policy=policy, jitter=jitter
    )
    why = "attempts_exhausted" if state == "failed" else None
    return PutBack(
        turn=row["id"],
        token=row["token"],
        state=state,
        reason="lease_lapsed",
        turn_reason=why,
        delay_seconds=delay,
        counted=True,
        ended="swept",
        verb="sweep",
    )
