"""Too old: input that nobody is waiting for any more fails at its claim, and its lane goes to the next.

A claim takes turns without their lanes, so it only tells of those that it found. They end here, in transactions of
their own, under the locks that moving a lane needs.
"""

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.engine.lane import lock_lanes, lock_turns, promote
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

BATCH_MAX: Final = 100
# How many turns of one lane end in one transaction, one behind the other.
DEPTH_MAX: Final = 100


async def fail_too_old(
    pool: "Pool", seen: Collection[UUID], *, ages_max: Mapping[str, float], until: float
) -> int:
    """End those that a claim has seen, others like them, and those behind them in their lanes; returns how many.

    `ages_max` gives the oldest input of each queue, in seconds; `until`, on the monotonic clock, bounds the work.
    """
    limits = {"queues": list(ages_max), "ages_max": list(ages_max.values())}

    async def work(connection: "Link") -> int:
        rows = await SQL["find_too_old"].rows(connection, **limits, turns_max=BATCH_MAX)
        turns = sorted({*seen, *(row["id"] for row in rows)})
        await lock_lanes(connection, turns)
        await lock_turns(connection, turns)
        ended = 0
        for _ in range(DEPTH_MAX):
            failed = await SQL["fail_too_old"].rows(connection, **limits, turns=turns)
            ended += len(failed)
            # Who comes next in a lane may have waited as long.
            turns = [row["id"] for row in await promote(connection, [row["id"] for row in failed])]
            if not turns or time.monotonic() > until:
                break
        return ended

    return await transact(pool, work)
