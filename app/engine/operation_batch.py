"""Work on operations: batch by batch, by any sweeper, and what fails alone.

What a batch does and how far it came are committed together, under the lock of the operation's row: whoever goes on
after a crash does nothing twice and leaves nothing out. What has moved on meanwhile, and is no longer what was asked
for, is left alone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.errors import NotReady
from app.domain.model import Changed
from app.engine.cancel import cancel_held_turns, cancel_messages_in, hold_messages
from app.engine.cancel import hold_turns as hold_for_cancel
from app.engine.matching import FIRST, WALK_MAX, Match, next_matches
from app.engine.operation import Operation, operation_of
from app.engine.redrive import hold_turns as hold_for_redrive
from app.engine.redrive import redrive_held_turns, redrive_messages_in
from app.engine.resend import resend_messages_in
from app.engine.resolve import resolve_messages_in
from app.engine.statements import load
from app.engine.transaction import SINGLES_SECONDS_MAX, Busy, transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# How long a batch waits for what somebody holds.
LOCK_WAIT_MS: Final = 200


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch came to: how the operation stands, what was changed, and what failed, each alone."""

    operation: Operation
    changed: Sequence[Match]
    failed: Sequence[Exception] = ()


class _Failed(Exception):
    """A batch that cannot be done, and how many it was about. Nothing was changed."""

    def __init__(self, found: Sequence[Match]) -> None:
        super().__init__(len(found))
        self.found = found


async def work_on(
    pool: "Pool", operation: UUID, *, rows_max: int, walk_max: int = WALK_MAX
) -> Batch | None:
    """Do the next batch of an operation; None when it is over, or somebody else works on it.

    Where it cannot be done as a whole, each of it is done alone, and what fails is counted and left behind. A database
    that is away, and a row that somebody holds, are raised: both are for the next time.
    """
    try:
        return await _work(pool, operation, rows_max, walk_max)
    except Busy:
        if rows_max == 1:
            raise
        count = rows_max
    except _Failed as failed:
        if len(failed.found) == 1:
            return await _leave(pool, operation, failed)
        count = len(failed.found)
    batch: Batch | None = None
    until = time.monotonic() + SINGLES_SECONDS_MAX
    for _ in range(count):
        one = await work_on(pool, operation, rows_max=1, walk_max=walk_max)
        if one is None:
            break
        earlier = batch or Batch(one.operation, ())
        batch = Batch(
            one.operation, (*earlier.changed, *one.changed), (*earlier.failed, *one.failed)
        )
        if one.operation.state != "running" or time.monotonic() > until:
            break
    return batch


async def _work(pool: "Pool", operation: UUID, rows_max: int, walk_max: int) -> Batch | None:
    about: Sequence[Match] = ()

    async def work(connection: "Link") -> Batch | None:
        nonlocal about
        for row in await SQL["hold_operation"].rows(connection, id=operation):
            held = operation_of(row)
            matches = await next_matches(
                connection,
                held.order.kind,
                held.order.wanted,
                after=held.last_id or FIRST,
                until=held.until_id,
                rows_max=rows_max,
                walk_max=walk_max,
            )
            about = matches.found
            changed = await _do(connection, held, [match.id for match in about])
            advanced = await _advance(
                connection,
                operation,
                end=matches.end,
                found=len(about),
                changed=len(changed),
                refused=len(about) - len(changed),
            )
            return Batch(advanced, [match for match in about if match.id in changed])
        return None

    try:
        return await transact(pool, work, lock_wait_ms=LOCK_WAIT_MS)
    except NotReady:
        raise
    except Exception as error:
        if not about:
            raise
        raise _Failed(about) from error


async def _do(connection: "Link", operation: Operation, ids: list[UUID]) -> set[UUID]:
    """Do it to those that are still what was asked for; returns which were changed."""
    if not ids:
        return set()
    order, by = operation.order, operation.created_by
    still: Sequence[UUID]
    if order.kind == "turn":
        await (hold_for_cancel if order.verb == "cancel" else hold_for_redrive)(connection, ids)
        rows = await SQL["still_turns"].rows(
            connection, turns=ids, states=list(order.wanted.states), reason=order.wanted.reason
        )
    else:
        await hold_messages(connection, ids)
        rows = await SQL["still_messages"].rows(
            connection, messages=ids, states=list(order.wanted.states), reason=order.wanted.reason
        )
    still = [row["id"] for row in rows]
    if not still:
        return set()
    outcomes: list[Changed | None]
    match order.kind, order.verb:
        case "turn", "cancel":
            outcomes = await cancel_held_turns(connection, still, by=by)
        case "turn", "redrive":
            outcomes = await redrive_held_turns(connection, still, by=by)
        case "message", "cancel":
            outcomes = await cancel_messages_in(connection, still, by=by)
        case "message", "redrive":
            outcomes = await redrive_messages_in(connection, still, by=by)
        case "message", "resolve":
            state = order.outcome or "cancelled"
            outcomes = await resolve_messages_in(connection, still, state=state, by=by)
        case "message", "resend":
            outcomes = await resend_messages_in(connection, still, by=by)
        case _:
            raise ValueError(order.verb)
    return {
        id_
        for id_, outcome in zip(still, outcomes, strict=True)
        if outcome is not None and outcome.changed
    }


async def _advance(
    connection: "Link",
    operation: UUID,
    *,
    end: UUID | None,
    found: int = 0,
    changed: int = 0,
    refused: int = 0,
    failed: int = 0,
) -> Operation:
    rows = await SQL["advance_operation"].rows(
        connection,
        id=operation,
        last_id=end,
        found=found,
        changed=changed,
        refused=refused,
        failed=failed,
        done=end is None,
    )
    return operation_of(rows[0])


async def _leave(pool: "Pool", operation: UUID, failed: _Failed) -> Batch | None:
    """Count one that cannot be done as failed, and go on behind it, unless somebody else has."""
    (match,) = failed.found

    async def work(connection: "Link") -> Batch | None:
        for row in await SQL["hold_operation"].rows(connection, id=operation):
            if (row["last_id"] or FIRST) < match.id:
                advanced = await _advance(connection, operation, end=match.id, found=1, failed=1)
                cause = failed.__cause__
                return Batch(advanced, (), (cause if isinstance(cause, Exception) else failed,))
        return None

    return await transact(pool, work)
