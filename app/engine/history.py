"""History: how the earlier attempts of claimed turns ended, and what a signal or a reviewer said about them.

It is bounded: the newest attempts are told. What was said last comes whole; what was said before that as far as there
is room for it, the newest first.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.model import (
    HistoryEntry,
    Revision,
    Said,
    VoidFollowUp,
    VoidMessage,
    Woken,
)
from app.domain.seal import spell
from app.engine.follow_ups import OWN_SCOPE
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)

ENTRIES_MAX: Final = 100

_Set = tuple[UUID, int]


async def read_history(
    connection: "Link", turns: Sequence[UUID], *, bytes_max: int
) -> dict[UUID, list[HistoryEntry]]:
    """The history of each of these turns, oldest first, inside a transaction of somebody else.

    All that was said to all of them takes `bytes_max`, beside what was said last to each.
    """
    rows = await SQL["read_history"].rows(
        connection, turns=list(turns), entries_max=ENTRIES_MAX, bytes_max=bytes_max // len(turns)
    )
    told = [row for row in rows if row["seal"] is not None and not row["is_omitted"]]
    void = _Void()
    if told:
        await void.read(connection, told)
    history: dict[UUID, list[HistoryEntry]] = defaultdict(list)
    for row in rows:
        history[row["turn"]].append(_entry(row, void))
    return history


@dataclass(frozen=True, slots=True)
class _Void:
    """What is in the sets that were sent back, in its order."""

    messages: dict[_Set, list[VoidMessage]] = field(default_factory=lambda: defaultdict(list))
    follow_ups: dict[_Set, list[VoidFollowUp]] = field(default_factory=lambda: defaultdict(list))

    async def read(self, connection: "Link", rows: "Sequence[Record]") -> None:
        turns, seals = [row["turn"] for row in rows], [row["seal"] for row in rows]
        for row in await SQL["read_void_messages"].rows(connection, turns=turns, seals=seals):
            message = VoidMessage(**{name: row[name] for name in VoidMessage.__slots__})
            self.messages[row["turn"], row["seal"]].append(message)
        for row in await SQL["read_void_follow_ups"].rows(
            connection, turns=turns, seals=seals, own_scope=OWN_SCOPE
        ):
            follow_up = VoidFollowUp(**{name: row[name] for name in VoidFollowUp.__slots__})
            self.follow_ups[row["turn"], row["seal"]].append(follow_up)


def _entry(row: "Record", void: _Void) -> HistoryEntry:
    ended, reason, at = row["ended"], row["reason"], row["ended_at"]
    said: Said | None = None
    if row["seal"] is not None:
        ended, at = "revised", row["decided_at"]
        said = Revision(
            by=row["decided_by"],
            comment=row["comment"],
            payload_hash=spell(row["payload_hash"]),
            messages=void.messages[row["turn"], row["seal"]],
            follow_ups=void.follow_ups[row["turn"], row["seal"]],
            omitted=row["is_omitted"],
        )
    elif row["wait_ended"] is not None:
        reason = row["wait_ended"]
        said = Woken(
            name=row["name"],
            by=row["sent_by"] or row["sent_with"],
            at=row["wait_ended_at"],
            content_type=row["content_type"],
            body=row["body"],
            strict_json=bool(row["strict_json"]),
            omitted=row["is_omitted"],
        )
    return HistoryEntry(row["number"], ended, reason, at, said)
