"""What the loops do of themselves, with what a test does not care about filled in."""

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from app.domain.ids import IdFactory
from app.domain.model import DeliveryPolicy, TurnPolicy
from app.domain.notice import NoticeRoute
from app.engine import due as due_verb
from app.engine import escalate, resend, sweep

if TYPE_CHECKING:
    from app.engine.database import Pool

TELLING = escalate.Telling(public_url="https://sink.example")


def raise_first(failed: Sequence[Exception]) -> None:
    """Nothing may have failed."""
    for error in failed:
        raise error


class Sweeps:
    """The verbs of the loops, over one pool."""

    __slots__ = ()

    pool: "Pool"
    ids: IdFactory
    jitter: random.Random
    turn_policies: Mapping[str, TurnPolicy]
    delivery_policies: Mapping[str, DeliveryPolicy]
    notice_routes: Mapping[str, NoticeRoute]

    async def sweep_turns(self, turns_max: int = 100) -> dict[str, int]:
        swept = await sweep.sweep_turns(
            self.pool, policies=self.turn_policies, turns_max=turns_max, jitter=self.jitter
        )
        raise_first(swept.failed)
        return dict(swept.states)

    async def sweep_messages(self, messages_max: int = 100) -> int:
        swept = await sweep.sweep_messages(
            self.pool,
            policies=self.delivery_policies,
            messages_max=messages_max,
            jitter=self.jitter,
        )
        raise_first(swept.failed)
        return sum(swept.states.values())

    async def sweep_resends(self, rows_max: int = 100) -> int:
        return await resend.sweep_resends(
            self.pool, policies=self.delivery_policies, rows_max=rows_max, jitter=self.jitter
        )

    async def escalate(
        self,
        notices_max: int = 100,
        *,
        routes: Mapping[str, NoticeRoute] | None = None,
        telling: escalate.Telling = TELLING,
    ) -> dict[tuple[str, str, str], int]:
        """Tell whoever is to be told; returns what became of the notices, by queue, kind and result."""
        done = await escalate.escalate(
            self.pool,
            routes=self.notice_routes if routes is None else routes,
            notices_max=notices_max,
            ids=self.ids,
            telling=telling,
        )
        raise_first(done.failed)
        return dict(done.results)

    async def due(self, turns_max: int = 100) -> list[str]:
        queues, failed = await due_verb.due(self.pool, turns_max=turns_max)
        raise_first(failed)
        return queues

    async def due_after_pause(self, turns_max: int = 100) -> list[str]:
        queues, failed = await due_verb.due_after_pause(self.pool, turns_max=turns_max)
        raise_first(failed)
        return queues
