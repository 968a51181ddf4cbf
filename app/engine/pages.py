"""Pages, newest first: where one ends, the next one begins, and nothing between them is left out or shown twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from asyncpg import Record

# Every id comes before this one.
LATEST: Final = UUID(int=(1 << 128) - 1)
# How many rows one page looks at where no index fits, and how many live ones it sorts.
WALK_MAX: Final = 2000
GATHER_MAX: Final = 2000

_MILLISECOND: Final = 1 << 80


@dataclass(frozen=True, slots=True)
class Page:
    """What was found, newest first. There may be more behind `next`, although the page holds little or nothing."""

    ids: tuple[UUID, ...]
    next: UUID | None


def page_of(rows: "Sequence[Record]", *, before: UUID, limit: int) -> Page:
    """The first `limit` of what was found behind `before`.

    A row is a place and an id; one without an id is where a walk was cut, which makes the page end there.
    """
    found = {row["place"]: row["id"] for row in rows if row["id"] is not None}
    cut = max((row["place"] for row in rows if row["id"] is None), default=None)
    edge = cut if cut is None or cut in found else _whole_millisecond(cut, before=before)
    places = sorted((place for place in found if edge is None or place >= edge), reverse=True)
    if len(places) > limit:
        places = places[:limit]
        edge = places[-1]
    return Page(tuple(found[place] for place in places), edge)


def _whole_millisecond(cut: UUID, *, before: UUID) -> UUID:
    """Let a walk end with a millisecond: what stood last in it is perhaps not for the reader's eyes."""
    behind = UUID(int=min((cut.int // _MILLISECOND + 1) * _MILLISECOND, LATEST.int))
    return behind if behind < before else cut
