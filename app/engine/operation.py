"""Operations: a verb over everything that a filter finds, done in batches by any sweeper, watched, and stopped.

An operation is about what exists when it begins, and remembers how far it came; `operation_batch` works on it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from app.engine.matching import FIRST, WALK_MAX, Filter, Kind, next_matches
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.domain.ids import IdFactory
    from app.engine.database import Pool
    from app.engine.statements import Link, Statement

SQL = load(__file__)

Verb = Literal["cancel", "redrive", "resolve", "resend"]

# What each verb can do something to: what an operation without states is about.
STATES: Final[Mapping[tuple[Kind, Verb], tuple[str, ...]]] = {
    ("turn", "cancel"): (
        "scheduled",
        "waiting",
        "queued",
        "processing",
        "parked",
        "held",
        "escalated",
        "failed",
        "sealed",
        "undelivered",
    ),
    ("turn", "redrive"): ("failed", "undelivered"),
    ("message", "cancel"): ("pending", "sending", "dead", "unknown"),
    ("message", "redrive"): ("dead", "unknown"),
    ("message", "resolve"): ("unknown",),
    ("message", "resend"): ("delivered",),
}
# A dry run counts so many exactly, in so many looks.
COUNT_MAX: Final = 10_000
LOOKS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be done to what: `outcome` is for resolve alone; `asked` is the filter as it was given."""

    kind: Kind
    verb: Verb
    wanted: Filter
    asked: Mapping[str, object]
    outcome: Literal["delivered", "cancelled"] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation as it is. `found` are those that were worked on: they were changed, refused or failed."""

    id: UUID
    order: Order
    state: Literal["running", "done", "cancelled"]
    created_at: datetime
    created_by: str
    ended_at: datetime | None
    last_id: UUID | None
    until_id: UUID
    found: int
    changed: int
    refused: int
    failed: int


async def begin_operation(pool: "Pool", order: Order, *, ids: "IdFactory", by: str) -> Operation:
    """Note an operation, for the sweepers to work on. `by` is who wanted it."""
    rows = await _rows(
        pool,
        SQL["begin_operation"],
        id=ids.new(),
        kind=order.kind,
        verb=order.verb,
        filter=_stored(order),
        queues=None if order.wanted.queues is None else list(order.wanted.queues),
        reason=order.reason,
        by=by,
    )
    return operation_of(rows[0])


async def find_operation(pool: "Pool", operation: UUID) -> Operation | None:
    """An operation; None if there is none."""
    rows = await _rows(pool, SQL["find_operation"], id=operation)
    return operation_of(rows[0]) if rows else None


async def list_operations(
    pool: "Pool", *, queues: Sequence[str] | None, before: UUID, limit: int
) -> list[Operation]:
    """Operations behind `before`, newest first; with `queues` those that are about nothing else."""
    rows = await _rows(pool, SQL["list_operations"], queues=queues, before=before, rows_max=limit)
    return [operation_of(row) for row in rows]


async def cancel_operation(pool: "Pool", operation: UUID) -> Operation | None:
    """Stop an operation behind the batch that is being done; returns how it stands, None if there is none."""
    rows = await _rows(pool, SQL["cancel_operation"], id=operation)
    return operation_of(rows[0]) if rows else await find_operation(pool, operation)


async def running_operations(pool: "Pool", *, operations_max: int) -> list[UUID]:
    """What there is to work on, oldest first."""
    rows = await _rows(pool, SQL["running_operations"], rows_max=operations_max)
    return [row["id"] for row in rows]


async def queue_is_known(pool: "Pool", queue: str) -> bool:
    """Whether anything was ever accepted for a queue, as far as it is remembered."""
    (row,) = await _rows(pool, SQL["queue_is_known"], queue=queue)
    return bool(row["is_known"])


async def count_matches(
    pool: "Pool", order: Order, *, until: UUID, walk_max: int = WALK_MAX
) -> tuple[int, bool]:
    """How many match now, and whether there may be more: it stops counting at 10,000, or having looked at enough."""

    async def work(connection: "Link") -> tuple[int, bool]:
        found, after = 0, FIRST
        for _ in range(LOOKS_MAX):
            matches = await next_matches(
                connection,
                order.kind,
                order.wanted,
                after=after,
                until=until,
                rows_max=COUNT_MAX - found,
                walk_max=walk_max,
            )
            found += len(matches.found)
            if matches.end is None or found >= COUNT_MAX:
                return found, matches.end is not None
            after = matches.end
        return found, True

    return await transact(pool, work, explicit=False)


async def _rows(pool: "Pool", statement: "Statement", **values: object) -> "list[Record]":
    async def work(connection: "Link") -> "list[Record]":
        return await statement.rows(connection, **values)

    return await transact(pool, work, explicit=False)


def _stored(order: Order) -> str:
    """What an operation remembers of what it is about; its queues have a column of their own."""
    wanted = order.wanted
    return json.dumps(
        {
            "asked": order.asked,
            "outcome": order.outcome,
            "states": list(wanted.states),
            "conversation": wanted.conversation,
            "destination": wanted.destination,
            "reason": wanted.reason,
            "created_after": wanted.created_after and wanted.created_after.isoformat(),
            "created_before": wanted.created_before and wanted.created_before.isoformat(),
            "delivered_after": wanted.delivered_after and wanted.delivered_after.isoformat(),
            "delivered_before": wanted.delivered_before and wanted.delivered_before.isoformat(),
        }
    )


def operation_of(row: "Record") -> Operation:
    """An operation from its row."""
    stored = json.loads(row["filter"])
    delivered_before = _moment(stored.get("delivered_before"))
    if row["verb"] == "resend":
        # What was on its way when it began is delivered once.
        delivered_before = min(delivered_before or row["created_at"], row["created_at"])
    wanted = Filter(
        states=stored["states"],
        queues=row["queues"],
        conversation=stored["conversation"],
        destination=stored["destination"],
        reason=stored["reason"],
        created_after=_moment(stored["created_after"]),
        created_before=_moment(stored["created_before"]),
        delivered_after=_moment(stored.get("delivered_after")),
        delivered_before=delivered_before,
    )
    order = Order(
        kind=row["kind"],
        verb=row["verb"],
        wanted=wanted,
        asked=stored["asked"],
        outcome=stored["outcome"],
        reason=row["reason"],
    )
    own = (
        "id", "state", "created_at", "created_by", "ended_at", "last_id", "until_id",
        "found", "changed", "refused", "failed",
    )  # fmt: skip
    return Operation(order=order, **{name: row[name] for name in own})


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
