"""Attempts and late facts about them, with what a test does not care about filled in."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import DeliveryPolicy, Fact, Settlement, Slots, Taken, Verdict
from app.domain.outcome import Outcome
from app.domain.retry import after_attempt
from app.engine import fact, resend, settle, take

if TYPE_CHECKING:
    from app.engine.database import Pool


def ending(taken: Taken, outcome: Outcome, policy: DeliveryPolicy) -> Settlement:
    """What a worker settles behind an outcome."""
    verdict = after_attempt(
        outcome,
        attempts_used=taken.attempts_used,
        may_have_arrived=taken.may_have_arrived,
        age_seconds=taken.age_seconds,
        policy=policy,
        jitter=0.0,
    )
    return Settlement(taken.message, taken.attempt_id, verdict)


class Deliveries:
    """The verbs of delivery, over one pool."""

    __slots__ = ()

    pool: "Pool"
    destination: str
    delivery_policies: Mapping[str, DeliveryPolicy]

    async def take(
        self, count: int = 100, *, destination: str | None = None, hold_unknown: bool = False
    ) -> list[Taken]:
        slots = [Slots(destination or self.destination, count, 30.0, hold_unknown=hold_unknown)]
        takes = await take.take(self.pool, slots)
        return list(takes.messages)

    async def take_one(self) -> Taken:
        (taken,) = await self.take(1)
        return taken

    async def settle(self, *pairs: tuple[Taken, Verdict]) -> list[bool]:
        """Settle each; tells of each whether its lease still held."""
        settlements = [Settlement(one.message, one.attempt_id, verdict) for one, verdict in pairs]
        settled = await settle.settle(self.pool, settlements, policies=self.delivery_policies)
        return [done.held for done in settled]

    async def settle_next(self, verdict: Verdict) -> UUID:
        """Take the next due message and settle it."""
        taken = await self.take_one()
        assert await self.settle((taken, verdict)) == [True]
        return taken.message

    async def tell(self, *taken: Taken) -> set[UUID]:
        """Late facts: these attempts were delivered."""
        facts = [Fact(one.message, one.attempt_id, "r-late", 200) for one in taken]
        return await fact.record_facts(self.pool, facts)

    async def take_resends(
        self, count: int = 100, *, destination: str | None = None, hold_unknown: bool = False
    ) -> list[resend.Resend]:
        slots = [Slots(destination or self.destination, count, 30.0, hold_unknown=hold_unknown)]
        return await resend.take_resends(self.pool, slots)

    async def settle_resends(self, *pairs: tuple[resend.Resend, Verdict]) -> list[bool]:
        settlements = [
            resend.ResendSettlement(one.id, one.taken.attempt_id, verdict) for one, verdict in pairs
        ]
        return await resend.settle_resends(self.pool, settlements)
