"""Follow-ups: what a turn asks for later is committed with its seal, and comes to be once its set is let go.

Each becomes one inbound with a turn of its own, in the transaction that lets the set go; one that is rejected has none.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.ids import TURN_PREFIX, IdFactory, format_id
from app.domain.model import DraftFollowUp, SealedFollowUp
from app.engine.statements import load
from app.engine.transaction import TRIES_MAX, DatabaseUnavailable, transact

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# What the keys of follow-ups are unique in: those that were given, in their queue; others in nothing that can be given.
OWN_SCOPE: Final = "follow_up"

# A turn and the number of its seal.
SetOf = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Depth:
    """How far a turn is from the first of its chain, and the database's time."""

    depth: int
    now: datetime


async def find_depth(pool: "Pool", turn: UUID) -> Depth | None:
    """What bounds the follow-ups of a turn; None if there is no such turn."""

    async def work(connection: "Link") -> Depth | None:
        for row in await SQL["find_depth"].rows(connection, turn=turn):
            return Depth(row["depth"], row["now"])
        return None

    return await transact(pool, work, explicit=False)


async def record_follow_ups(
    connection: "Link", sets: Sequence[tuple[SetOf, Sequence[DraftFollowUp]]], *, ids: IdFactory
) -> None:
    """Record what these sets ask for later, with the ids that it is going to have."""
    rows = [
        (turn, seal, position, draft, ids.new(), ids.new())
        for (turn, seal), drafts in sets
        for position, draft in enumerate(drafts)
    ]
    drafts = [row[3] for row in rows]
    await SQL["record_follow_ups"].run(
        connection,
        turns=[row[0] for row in rows],
        seals=[row[1] for row in rows],
        positions=[row[2] for row in rows],
        inbounds=[row[4] for row in rows],
        children=[row[5] for row in rows],
        queues=[draft.queue for draft in drafts],
        conversations=[draft.conversation for draft in drafts],
        scopes=[
            OWN_SCOPE if draft.key is None else f"{OWN_SCOPE}/{draft.queue}" for draft in drafts
        ],
        keys=[
            draft.key or format_id(TURN_PREFIX, row[5])
            for draft, row in zip(drafts, rows, strict=True)
        ],
        content_types=[draft.content_type for draft in drafts],
        bodies=[draft.body for draft in drafts],
        stricts=[draft.strict_json for draft in drafts],
        delays=[draft.delay_seconds for draft in drafts],
        not_befores=[draft.not_before for draft in drafts],
        hashes=[draft.hash for draft in drafts],
    )


async def accept_follow_ups(
    connection: "Link", sets: Sequence[SetOf], *, key_seconds: float
) -> None:
    """Make inbound of what these sets asked for. Locks keys: nothing else is to be locked after it."""
    for _ in range(TRIES_MAX):
        rows = await SQL["accept_follow_ups"].rows(
            connection,
            turns=[turn for turn, _ in sets],
            seals=[seal for _, seal in sets],
            parents=[format_id(TURN_PREFIX, turn) for turn, _ in sets],
            key_seconds=key_seconds,
        )
        sets = sorted({(row["turn"], row["seal"]) for row in rows if not row["is_fresh"]})
        if not sets:
            return
        await SQL["point_follow_ups"].run(
            connection, turns=[turn for turn, _ in sets], seals=[seal for _, seal in sets]
        )
        # Between the two a key may have gone: its holder was rolled back or purged.
    raise DatabaseUnavailable


async def carry_follow_ups(connection: "Link", sets: Sequence[SetOf]) -> None:
    """Give what these sets asked for to those that replace them, unchanged."""
    await SQL["carry_follow_ups"].run(
        connection, turns=[turn for turn, _ in sets], seals=[seal for _, seal in sets]
    )


async def find_follow_ups(
    connection: "Link", sets: Sequence[SetOf]
) -> dict[SetOf, list[SealedFollowUp]]:
    """What these sets asked for, as it stands, in its order."""
    found: dict[SetOf, list[SealedFollowUp]] = defaultdict(list)
    rows = await SQL["find_sealed_follow_ups"].rows(
        connection, turns=[turn for turn, _ in sets], seals=[seal for _, seal in sets]
    )
    for row in rows:
        found[row["turn"], row["seal"]].append(
            SealedFollowUp(
                turn=row["child"],
                inbound=row["inbound"],
                state=row["state"],
                queue=row["queue"],
                key=row["key"],
                duplicate=row["is_duplicate"],
            )
        )
    return found
