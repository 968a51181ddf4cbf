"""What a claim gives: its turns, each with the input that it is about and what came of earlier attempts."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.model import Claimed, ClaimedInbound, HistoryEntry
from app.engine.history import read_history
from app.engine.statements import load

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.statements import Link

SQL = load(__file__)


async def with_inputs(
    connection: "Link", rows: "Sequence[Record]", *, bytes_max: int
) -> list[Claimed]:
    """The turns of these rows, one row for each inbound, with inputs and histories as far as there is room."""
    turns: dict[UUID, Record] = {row["id"]: row for row in rows}
    inputs: dict[UUID, list[ClaimedInbound]] = defaultdict(list)
    for row in rows:
        if row["inbound"] is not None:
            inputs[row["id"]].append(_inbound(row))
    joined = [id_ for id_, row in turns.items() if row["inbound_count"] != len(inputs[id_])]
    if joined:
        # The claim waited for nobody, but it was begun before they were there.
        inputs |= await _inputs(connection, joined)
    again = [id_ for id_, row in turns.items() if row["attempt"] > 1]
    history = await _histories(connection, again, inputs, bytes_max=bytes_max)
    return [
        Claimed(
            turn=id_,
            token=row["token"],
            attempt=row["attempt"],
            lease_expires_in_seconds=row["expires_in_seconds"],
            conversation=row["conversation"],
            inbound=_within(inputs[id_], bytes_max),
            history=history.get(id_, []),
            waited_seconds=row.get("waited_seconds"),
        )
        for id_, row in turns.items()
    ]


async def read_claimed(
    connection: "Link", requests: Sequence[UUID], *, bytes_max: int
) -> dict[UUID, list[Claimed]]:
    """What each of these requests gave and still holds."""
    rows = await SQL["read_claimed"].rows(connection, requests=requests)
    of_turn = {row["id"]: row["request"] for row in rows}
    held: dict[UUID, list[Claimed]] = {request: [] for request in requests}
    for one in await with_inputs(connection, rows, bytes_max=bytes_max):
        held[of_turn[one.turn]].append(one)
    return held


async def _inputs(connection: "Link", turns: Sequence[UUID]) -> dict[UUID, list[ClaimedInbound]]:
    inputs: dict[UUID, list[ClaimedInbound]] = defaultdict(list)
    for row in await SQL["read_inbound"].rows(connection, turns=turns):
        inputs[row["turn"]].append(_inbound(row))
    return inputs


async def _histories(
    connection: "Link",
    turns: Sequence[UUID],
    inputs: Mapping[UUID, Sequence[ClaimedInbound]],
    *,
    bytes_max: int,
) -> Mapping[UUID, list[HistoryEntry]]:
    """What was before, as far as what the turns are about leaves room for it."""
    if not turns:
        return {}
    left = bytes_max - sum(len(one.body or b"") for some in inputs.values() for one in some)
    return await read_history(connection, turns, bytes_max=max(left, 0))


def _within(inputs: list[ClaimedInbound], bytes_max: int) -> list[ClaimedInbound]:
    """A turn that alone is over the answer's limit comes with the bodies that fit, and without the others."""
    kept: list[ClaimedInbound] = []
    left = bytes_max
    for one in inputs:
        size = len(one.body or b"") + len(one.view or "")
        kept.append(one if size <= left else replace(one, body=None))
        left -= size if size <= left else 0
    return kept


def _inbound(row: "Record") -> ClaimedInbound:
    return ClaimedInbound(
        id=row["inbound"],
        source=row["source"],
        received_at=row["received_at"],
        content_type=row["content_type"],
        headers=json.loads(row["headers"]),
        metadata=row["metadata"],
        body=row["body"],
        strict_json=row["strict_json"],
        view=row["view"],
    )
