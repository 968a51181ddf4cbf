"""What the workers do meanwhile, by hand."""

from typing import Any

from app.domain.model import Settlement, Slots, Verdict
from app.engine.settle import settle
from app.engine.take import take
from app.engine.wake import turn_topic
from tests.api.conftest import Service


async def settle_one(service: Service, state: str, **verdict: Any) -> None:
    """What the delivery worker does, by hand."""
    core = service.core
    (taken,) = (await take(core.pool, [Slots("loopback", 1, 30.0)])).messages
    verdicts = [Settlement(taken.message, taken.attempt_id, Verdict(state, **verdict))]
    await settle(core.pool, verdicts)
    core.wakes.tell(turn_topic(taken.turn))
