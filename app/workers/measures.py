"""Tells of turns and messages: how many there are, how old they are, and how long those took that came to their end."""

from collections import Counter
from collections.abc import Iterable

from app.core import Core
from app.domain.lifecycle import TurnState
from app.domain.model import Settled
from app.engine.asking import open_holds, waiting_notices
from app.engine.inspect import oldest_pending_seconds, oldest_queued_seconds
from app.engine.overview import destination_load, oldest_turn_seconds, queue_load

# The states whose age is since their input came. What is queued ages by when it was due, and what is scheduled not.
AGED = (
    "waiting",
    "processing",
    "parked",
    "held",
    "escalated",
    "sealed",
    "failed",
    "undelivered",
)
# Those that wait for a decision: their age is that of their hold.
HOLDS = ("held", "escalated")


def note_turns(core: Core, settled: Iterable[Settled]) -> None:
    """Count the turns that moved with their messages, and time those that are replied."""
    moves = {one.turn.turn: one.turn for one in settled if one.turn is not None}
    counts = Counter((core.queue_label(move.queue), move.state) for move in moves.values())
    for labels, count in counts.items():
        core.metrics.settled.labels(*labels).inc(count)
    for move in moves.values():
        # Who tells of another was no input, and no agent sealed it.
        if move.state == TurnState.REPLIED and move.sealed_seconds is not None:
            queue = core.queue_label(move.queue)
            core.metrics.accept_to_replied_seconds.labels(queue).observe(move.age_seconds)
            core.metrics.seal_to_replied_seconds.labels(queue).observe(move.sealed_seconds)


async def measure_work(core: Core) -> None:
    """Set how much of everything there is, for every configured queue and destination."""
    queues, destinations, metrics = list(core.settings.queues), list(core.routes), core.metrics
    queued = await oldest_queued_seconds(core.pool, queues)
    ages = await oldest_turn_seconds(core.pool, queues)
    for queue, states in (await queue_load(core.pool, queues)).items():
        metrics.oldest_queued_seconds.labels(queue).set(queued.get(queue, 0.0))
        for state, count in states.items():
            metrics.turns.labels(queue, state).set(count)
        for state in AGED:
            metrics.oldest_turn_seconds.labels(queue, state).set(ages.get((queue, state), 0.0))
    pending = await oldest_pending_seconds(core.pool, destinations)
    for name, load in (await destination_load(core.pool, destinations)).items():
        metrics.oldest_pending_seconds.labels(name).set(pending.get(name, 0.0))
        for state, count in load.items():
            metrics.messages.labels(name, state).set(count)
    await _measure_people(core)


async def _measure_people(core: Core) -> None:
    """How long people have been waited for, and how long they have been waiting to be told."""
    metrics = core.metrics
    ages = {(one.queue, one.state): one.oldest_seconds for one in await open_holds(core.pool)}
    for queue in core.settings.queues:
        for state in HOLDS:
            metrics.oldest_hold_seconds.labels(queue, state).set(ages.get((queue, state), 0.0))
    waiting = await waiting_notices(core.pool)
    oldest = max((one.oldest_seconds for one in waiting), default=0.0)
    metrics.oldest_notice_seconds.set(oldest)
