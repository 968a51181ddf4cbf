"""Allowance: what a queue's rate allows all replicas together. Each takes a small lot of it at a time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.statements import load
from app.engine.transaction import DatabaseUnavailable, transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Lot:
    """How many may pass, and in how many seconds there is one more."""

    given: int
    next_in_seconds: float


async def take_allowance(
    pool: "Pool", queue: str, *, wanted: int, rate_per_second: float, burst: float
) -> Lot:
    """Take up to `wanted` of what the rate of a queue allows now."""

    async def work(connection: "Link") -> Lot:
        for _ in range(2):
            for row in await SQL["take_allowance"].rows(
                connection, queue=queue, wanted=wanted, rate=rate_per_second, burst=burst
            ):
                return Lot(row["given"], row["next_in_seconds"])
            await SQL["open_allowance"].run(connection, queue=queue, burst=burst)
        raise DatabaseUnavailable

    return await transact(pool, work, explicit=False)
