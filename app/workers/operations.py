"""Works on operations over many: a batch of each in turn, in a part of the time, so that traffic has the rest.

Any number of sweepers may do it: each batch is committed with how far its operation came.
"""

import logging
import time
from typing import Final
from uuid import UUID

from app.core import Core
from app.domain.errors import NotReady
from app.domain.ids import OPERATION_PREFIX, format_id
from app.engine.operation import running_operations
from app.engine.operation_batch import Batch, work_on
from app.engine.transaction import Busy
from app.engine.wake import OUTBOX, RESEND, queue_topic, turn_topic

# Of a pass each second these are a third at most: the database and the other chores have the rest.
SECONDS_MAX: Final = 0.3
ROWS_MAX: Final = 100
OPERATIONS_MAX: Final = 20

log = logging.getLogger(__name__)


async def work_on_operations(core: Core) -> int:
    """Work on what there is for a while; returns 0, since the rest is for the next pass."""
    until = time.monotonic() + SECONDS_MAX
    rows_max = min(ROWS_MAX, core.settings.sweep.batch_max)
    waiting = await running_operations(core.pool, operations_max=OPERATIONS_MAX)
    # Where the time is over before all have had their batch, others come first the next time.
    core.jitter.shuffle(waiting)
    while waiting and not core.draining.started:
        goes_on: list[UUID] = []
        for operation in waiting:
            batch = await _batch(core, operation, rows_max)
            if batch is not None and batch.operation.state == "running":
                goes_on.append(operation)
            if time.monotonic() > until:
                return 0
        waiting = goes_on
    return 0


async def _batch(core: Core, operation: UUID, rows_max: int) -> Batch | None:
    """One batch; None where there is no more to do in this pass."""
    told = {"loop": "operations", "operation": format_id(OPERATION_PREFIX, operation)}
    try:
        batch = await work_on(core.pool, operation, rows_max=rows_max)
    except Busy:
        log.warning("held by somebody else", extra=told)
        return None
    except NotReady:
        raise
    except Exception:
        # What is wrong with one operation keeps no other.
        log.exception("an operation failed", extra=told)
        return None
    if batch is None:
        return None
    if batch.changed:
        queues = {queue_topic(match.queue) for match in batch.changed}
        goes = RESEND if batch.operation.order.verb == "resend" else OUTBOX
        core.wakes.tell(goes, *queues, *(turn_topic(match.turn) for match in batch.changed))
    if batch.failed:
        # Each of them is counted in the operation.
        log.error("some could not be done", extra=told, exc_info=batch.failed[0])
    if batch.operation.state != "running":
        log.info("an operation is done", extra=told)
    return batch
