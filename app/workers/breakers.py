"""Tells of breakers: when one moves, and what state each is in."""

import logging
from collections.abc import Iterable

from app.core import Core
from app.domain.breaker import BreakerState
from app.domain.model import Settled
from app.engine.breaker import find_destinations, recount
from app.engine.wake import OUTBOX

log = logging.getLogger(__name__)


def note_breakers(core: Core, settled: Iterable[Settled]) -> None:
    """Say which breakers moved. One that closed lets everybody send at once."""
    moves = {one.breaker.destination: one.breaker for one in settled if one.breaker is not None}
    for move in moves.values():
        told = {"destination": move.destination, "reason": move.reason, "seconds": move.seconds}
        if move.after == BreakerState.CLOSED:
            log.info("a destination is sent to again", extra={"destination": move.destination})
            core.wakes.tell(OUTBOX)
        else:
            core.metrics.breaker_openings.labels(move.destination, move.reason).inc()
            if move.before == BreakerState.CLOSED or move.after == BreakerState.DISABLED:
                log.warning("a destination is not sent to for now", extra=told)


async def measure_breakers(core: Core) -> None:
    """Set what is shown of every configured destination."""
    found = await find_destinations(core.pool, list(core.routes))
    for name in core.routes:
        view = found.get(name)
        now = view.breaker if view else BreakerState.CLOSED
        for state in BreakerState:
            core.metrics.breaker.labels(name, state.value).set(state == now)
        core.metrics.sending_everywhere.labels(name).set(view.sending if view else 0)


async def recount_destinations(core: Core) -> None:
    """Put right what counts wrongly: then somebody has changed rows by hand, or there is a bug."""
    drifted = await recount(core.pool)
    for name in drifted:
        log.error("what is being sent was counted wrongly", extra={"destination": name})
    if drifted:
        core.metrics.drifted.inc(len(drifted))
        core.wakes.tell(OUTBOX)
