"""What an operation over many is about: the turns or messages that match, found in the order of their ids.

Every look is bounded: it ends when it has found enough or has looked at enough, and tells where to go on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from app.engine.statements import load

if TYPE_CHECKING:
    from app.engine.statements import Link

SQL = load(__file__)

FIRST: Final = UUID(int=0)
# How many rows one look passes at most, and how many of each stretch of an index.
WALK_MAX: Final = 5000
SHELF_MAX: Final = 1000

Kind = Literal["turn", "message"]

# States with an index in the order of ids: they are found without passing what is in another state.
_KEPT: Final[Mapping[Kind, frozenset[str]]] = {
    "turn": frozenset(
        {"sealed", "failed", "undelivered", "cancelled", "parked", "held", "escalated"}
    ),
    "message": frozenset({"dead", "unknown", "cancelled"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What matches; None is everything. `queues` are those that may be touched.

    Times are the database's: turns are created, messages are delivered.
    """

    states: Sequence[str]
    queues: Sequence[str] | None = None
    conversation: str | None = None
    destination: str | None = None
    reason: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    delivered_after: datetime | None = None
    delivered_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A turn, or a message with its turn, and where it belongs."""

    id: UUID
    turn: UUID
    queue: str


@dataclass(frozen=True, slots=True)
class Matches:
    """What was found, and up to which id, all of it; None: there is nothing more."""

    found: Sequence[Match]
    end: UUID | None


async def next_matches(
    connection: "Link",
    kind: Kind,
    wanted: Filter,
    *,
    after: UUID,
    until: UUID,
    rows_max: int,
    walk_max: int = WALK_MAX,
) -> Matches:
    """At most `rows_max` of what matches behind `after`, up to `until`, inside a transaction of somebody else."""
    kept = _KEPT[kind].issuperset(wanted.states)
    if kept:
        # Where the index says all there is to know, no more is looked at than is wanted.
        walk_max = min(walk_max, SHELF_MAX if _chooses(kind, wanted) else rows_max + 1, SHELF_MAX)
    common = {
        "states": list(wanted.states),
        "queues": wanted.queues,
        "reason": wanted.reason,
        "after": after,
        "until": until,
        "rows_max": rows_max + 1,
        "walk_max": walk_max,
    }
    if kind == "turn":
        statement = SQL["next_kept_turns"] if kept else SQL["next_turns"]
        rows = await statement.rows(
            connection,
            **common,
            conversation=wanted.conversation,
            created_after=wanted.created_after,
            created_before=wanted.created_before,
        )
    elif kept:
        rows = await SQL["next_kept_messages"].rows(
            connection, **common, destination=wanted.destination
        )
    else:
        rows = await SQL["next_messages"].rows(
            connection,
            **common,
            destination=wanted.destination,
            delivered_after=wanted.delivered_after,
            delivered_before=wanted.delivered_before,
        )
    end = min((row["place"] for row in rows if row["id"] is None), default=None)
    found = sorted(
        (
            Match(row["id"], row["turn"], row["queue"])
            for row in rows
            if row["id"] is not None and (end is None or row["place"] <= end)
        ),
        key=lambda match: match.id,
    )
    if len(found) > rows_max:
        found = found[:rows_max]
        end = found[-1].id
    return Matches(found, end)


def _chooses(kind: Kind, wanted: Filter) -> bool:
    """Whether some of what stands together in an index may not match."""
    if wanted.reason is not None:
        return True
    if kind == "message":
        return wanted.queues is not None
    given = (wanted.conversation, wanted.created_after, wanted.created_before)
    return any(value is not None for value in given)
