"""Search for outbox messages, newest first: every page is bounded work; see `search_turns`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.engine.inspect import MessageView, message_view
from app.engine.pages import GATHER_MAX, LATEST, WALK_MAX, Page, page_of
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# States with an index in the order of ids, and states whose messages somebody works off in another order.
KEPT: Final = frozenset({"dead", "unknown", "cancelled"})
LIVE: Final = frozenset({"pending", "sending"})
# How many messages of one state and destination a page looks at for those of some queues.
SHELF_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """What to look for; None is everything. `queues` are those that may be seen."""

    queues: Sequence[str] | None
    states: frozenset[str] | None = None
    destination: str | None = None
    turn: UUID | None = None

    @property
    def states_list(self) -> list[str] | None:
        """The states as a parameter."""
        return None if self.states is None else sorted(self.states)


async def search_messages(
    pool: "Pool",
    wanted: MessageFilter,
    *,
    limit: int,
    before: UUID | None = None,
    walk_max: int = WALK_MAX,
    gather_max: int = GATHER_MAX,
) -> tuple[list[MessageView], UUID | None]:
    """A page of at most `limit` (200) messages, without bodies, and where the next one begins, if there is one."""
    start = LATEST if before is None else before

    async def work(connection: "Link") -> tuple[list[MessageView], UUID | None]:
        page = await _find(connection, wanted, start, limit, walk_max, gather_max)
        rows = await SQL["show_messages"].rows(connection, messages=list(page.ids))
        views = {row["id"]: message_view(row) for row in rows}
        messages = [
            view
            for id_ in page.ids
            if (view := views.get(id_)) is not None
            and (wanted.states is None or view.state in wanted.states)
        ]
        return messages, page.next

    return await transact(pool, work, explicit=False)


async def _find(
    connection: "Link",
    wanted: MessageFilter,
    before: UUID,
    limit: int,
    walk_max: int,
    gather_max: int,
) -> Page:
    rows_max = limit + 1
    common = {
        "queues": wanted.queues,
        "states": wanted.states_list,
        "destination": wanted.destination,
        "before": before,
        "rows_max": rows_max,
    }
    if wanted.turn is not None:
        rows = await SQL["turn_messages"].rows(connection, **common, turn=wanted.turn)
    elif (
        indexed := await _by_state(connection, wanted, before, rows_max, walk_max, gather_max)
    ) is not None:
        rows = indexed
    else:
        everything = wanted.queues is None and wanted.states is None and wanted.destination is None
        rows = await SQL["near_messages"].rows(
            connection, **common, walk_max=rows_max if everything else walk_max
        )
    return page_of(rows, before=before, limit=limit)


async def _by_state(
    connection: "Link",
    wanted: MessageFilter,
    before: UUID,
    rows_max: int,
    walk_max: int,
    gather_max: int,
) -> "list[Record] | None":
    if wanted.states is None or wanted.states - KEPT - LIVE:
        return None
    found: list[Record] = []
    if live := wanted.states & LIVE:
        rows = await SQL["live_messages"].rows(
            connection,
            queues=wanted.queues,
            destination=wanted.destination,
            states=sorted(live),
            gather_max=gather_max,
        )
        if len(rows) > gather_max:
            return None
        found += (row for row in rows if row["is_visible"] and row["place"] < before)
    if kept := wanted.states & KEPT:
        found += await SQL["troubled_messages"].rows(
            connection,
            queues=wanted.queues,
            states=sorted(kept),
            destination=wanted.destination,
            before=before,
            rows_max=rows_max,
            walk_max=rows_max if wanted.queues is None else min(walk_max, SHELF_MAX),
        )
    return found
