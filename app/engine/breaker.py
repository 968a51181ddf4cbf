"""Breaker: what all workers together know of a destination: how much is being sent, and whether it is sent to.

A breaker pauses and probes and never drops. Its row is the last lock of every transaction that ends an attempt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from app.domain.breaker import BreakerMove, BreakerPolicy, Sign
from app.domain.model import DeliveryPolicy
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt is no longer being made: where, what it told, and how long it was asked to leave that place alone."""

    destination: str
    sign: Sign = Sign.NOTHING
    hold_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DestinationView:
    """A destination as all workers see it. `sending` messages are under way; `probe_at` is when it is tried again."""

    name: str
    sending: int
    breaker: str
    reason: str | None
    opened_at: datetime | None
    probe_at: datetime | None


@dataclass(slots=True)
class _Tally:
    """What the attempts of one destination told, in their order: `failures` are those since the last that worked."""

    ended: int = 0
    worked: bool = False
    failures: int = 0
    shut: str | None = None
    hold_seconds: float = 0.0

    def add(self, one: Ended) -> None:
        self.ended += 1
        self.hold_seconds = max(self.hold_seconds, one.hold_seconds)
        match one.sign:
            case Sign.WORKS:
                self.worked, self.failures = True, 0
                self.shut = self.shut if self.shut == Sign.GONE else None
            case Sign.FAILS:
                self.failures += 1
            case Sign.UNAUTHORIZED | Sign.GONE:
                self.failures += 1
                self.shut = self.shut if self.shut == Sign.GONE else one.sign
            case Sign.NOTHING:
                pass


async def end_attempts(
    connection: "Link", ended: Sequence[Ended], *, policies: Mapping[str, DeliveryPolicy]
) -> dict[str, BreakerMove]:
    """Count attempts that ended, in the order in which they did; returns the breakers that moved.

    Comes last in its transaction: everybody who takes for these destinations waits from here to its commit.
    """
    if not ended:
        return {}
    tallies: dict[str, _Tally] = {}
    for one in ended:
        tallies.setdefault(one.destination, _Tally()).add(one)
    breakers = [_breaker(policies.get(name)) for name in tallies]
    rows = await SQL["end_attempts"].rows(
        connection,
        destinations=list(tallies),
        ended=[tally.ended for tally in tallies.values()],
        worked=[tally.worked for tally in tallies.values()],
        failures=[tally.failures for tally in tallies.values()],
        shuts=[tally.shut for tally in tallies.values()],
        holds=[tally.hold_seconds for tally in tallies.values()],
        failures_max=[breaker.failures for breaker in breakers],
        open_seconds=[breaker.seconds for breaker in breakers],
        open_seconds_max=[breaker.seconds_max for breaker in breakers],
    )
    return {
        row["destination"]: BreakerMove(
            row["destination"], row["was"], row["breaker"], row["reason"], row["seconds"]
        )
        for row in rows
    }


def _breaker(policy: DeliveryPolicy | None) -> BreakerPolicy:
    return BreakerPolicy() if policy is None else policy.breaker


async def reset_breaker(connection: "Link", destination: str) -> bool:
    """Close the breaker, end its standstill and forget what the destination asked for. Tells whether that changed
    anything. Part of its caller's transaction, as its last lock.
    """
    return bool(await SQL["close_breaker"].rows(connection, destination=destination))


async def recount(pool: "Pool") -> list[str]:
    """Put right what a destination counts as being sent; returns those that were wrong. It finds none, unless somebody
    changed rows by hand.
    """

    async def look(connection: "Link") -> list[str]:
        return [row["name"] for row in await SQL["find_drift"].rows(connection)]

    async def work(connection: "Link") -> list[str]:
        await SQL["lock_destinations"].run(connection, destinations=drifted)
        rows = await SQL["recount_sending"].rows(connection, destinations=drifted)
        return [row["name"] for row in rows]

    drifted = await transact(pool, look, explicit=False)
    return await transact(pool, work) if drifted else []


async def find_destinations(pool: "Pool", names: Sequence[str]) -> dict[str, DestinationView]:
    """What is known of these destinations, by name; nothing of one that nobody ever took for."""

    async def work(connection: "Link") -> dict[str, DestinationView]:
        rows = await SQL["find_destinations"].rows(connection, destinations=list(names))
        return {row["name"]: DestinationView(**dict(row.items())) for row in rows}

    return await transact(pool, work, explicit=False)
