"""Search for turns, newest first: every page is bounded work, whatever is asked and however much is finished.

By key, by root, by what they are about and by conversation through their indexes. By state through the index of the
state, where it is in the order of ids, and through all of its turns, where those are few enough to be sorted. Else
through the ids: a bounded walk, which may end before it has found as many as were asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.engine.pages import GATHER_MAX, LATEST, WALK_MAX, Page, page_of
from app.engine.standing import TurnView, turn_views
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# States with an index in the order of ids, and states whose turns somebody works off in another order.
KEPT: Final = frozenset(
    {"sealed", "failed", "undelivered", "cancelled", "parked", "held", "escalated"}
)
# How many of those that belong together one page looks at.
RELATED_MAX: Final = 1000
LIVE: Final = frozenset({"queued", "waiting", "scheduled", "processing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """What to look for; None is everything. `queues` are those that may be seen."""

    queues: Sequence[str] | None
    states: frozenset[str] | None = None
    conversation: str | None = None
    key: str | None = None
    root: UUID | None = None
    about: UUID | None = None

    @property
    def states_list(self) -> list[str] | None:
        """The states as a parameter."""
        return None if self.states is None else sorted(self.states)


async def search_turns(
    pool: "Pool",
    wanted: TurnFilter,
    *,
    limit: int,
    before: UUID | None = None,
    walk_max: int = WALK_MAX,
    gather_max: int = GATHER_MAX,
) -> tuple[list[TurnView], UUID | None]:
    """A page of at most `limit` (200) turns, without their messages, and where the next one begins, if there is one.

    `before` is where this page begins, as the page before it said.
    """
    start = LATEST if before is None else before

    async def work(connection: "Link") -> tuple[list[TurnView], UUID | None]:
        page = await _find(connection, wanted, start, limit, walk_max, gather_max)
        views = {view.id: view for view in await turn_views(connection, page.ids)}
        # What has moved on since it was found is no longer what was asked for.
        turns = [
            view
            for id_ in page.ids
            if (view := views.get(id_)) is not None
            and (wanted.states is None or view.state in wanted.states)
        ]
        return turns, page.next

    return await transact(pool, work, explicit=False)


async def _find(
    connection: "Link",
    wanted: TurnFilter,
    before: UUID,
    limit: int,
    walk_max: int,
    gather_max: int,
) -> Page:
    common = {"queues": wanted.queues, "states": wanted.states_list, "before": before}
    rows_max = limit + 1
    if wanted.key is not None:
        rows = await SQL["keyed_turns"].rows(
            connection,
            **common,
            key=wanted.key,
            conversation=wanted.conversation,
            root=wanted.root,
            about=wanted.about,
            rows_max=rows_max,
        )
    elif wanted.root is not None or wanted.about is not None:
        rows = await SQL["related_turns"].rows(
            connection,
            **common,
            conversation=wanted.conversation,
            root=wanted.root,
            about=wanted.about,
            rows_max=rows_max,
            walk_max=min(walk_max, RELATED_MAX),
        )
    elif wanted.conversation is not None:
        rows = await SQL["conversation_turns"].rows(
            connection,
            **common,
            conversation=wanted.conversation,
            rows_max=rows_max,
            walk_max=walk_max if wanted.states else rows_max,
        )
    elif (indexed := await _by_state(connection, wanted, before, rows_max, gather_max)) is not None:
        rows = indexed
    else:
        everything = wanted.queues is None and wanted.states is None
        rows = await SQL["near_turns"].rows(
            connection,
            **common,
            rows_max=rows_max,
            walk_max=rows_max if everything else walk_max,
        )
    return page_of(rows, before=before, limit=limit)


async def _by_state(
    connection: "Link", wanted: TurnFilter, before: UUID, rows_max: int, gather_max: int
) -> "list[Record] | None":
    """What the indexes of the states know; None where they do not know all, or too much to be sorted."""
    if wanted.states is None or wanted.states - KEPT - LIVE:
        return None
    found: list[Record] = []
    if live := wanted.states & LIVE:
        rows = await SQL["live_turns"].rows(
            connection, queues=wanted.queues, states=sorted(live), gather_max=gather_max
        )
        if len(rows) > gather_max:
            return None
        found += (row for row in rows if row["is_visible"] and row["place"] < before)
    if kept := wanted.states & KEPT:
        found += await SQL["kept_turns"].rows(
            connection,
            queues=wanted.queues,
            states=sorted(kept),
            before=before,
            rows_max=rows_max,
        )
    return found
