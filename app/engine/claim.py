"""Claim: lease due turns to agents, a batch of requests in one transaction.

A claim commits only for clients that are still there, and can be repeated under its request id: the repeat gives what
the first answer gave and still holds.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from app.domain.errors import InvalidContent, NotReady, Problem
from app.domain.model import Claimed, ClaimedInbound, ClaimRequest, HistoryEntry
from app.engine.claim_request import known_requests, remember_requests
from app.engine.history import read_history
from app.engine.statements import load
from app.engine.too_old import fail_too_old
from app.engine.transaction import TRIES_MAX, DatabaseUnavailable, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# How long a claim that finds nothing but what is too old goes on looking.
TOO_OLD_SECONDS_MAX = 1.0


# A request with its position in the call.
_Wanted = tuple[int, ClaimRequest]


class _Withdrawn(Exception):
    """Not everybody may keep what this transaction claimed: undo it."""


async def claim(
    pool: "Pool",
    requests: Sequence[ClaimRequest],
    *,
    still_wanted: Callable[[int], bool] = lambda _position: True,
) -> list[list[Claimed] | None]:
    """Give each request up to its `turns_max` due turns; one answer each, in order. None: nothing was due.

    `still_wanted(position)` is asked just before the commit; who has left gets nothing and nothing is leased to him.
    A request id that is known gives what of its first answer still holds, perhaps nothing (an empty list); with other
    parameters it raises `InvalidContent` (`request_id_reused`).
    """
    answers: list[list[Claimed] | None] = [None] * len(requests)
    left = list(range(len(requests)))
    for _ in range(TRIES_MAX):
        left = [n for n in left if still_wanted(n)]
        first = _first_of_each(requests, left)
        heads = [(n, requests[n]) for n in left if first[n] == n]
        repeated = await _repeat(pool, heads)
        try:
            new = [(n, request) for n, request in heads if n not in repeated]
            found = await _claim(pool, new, still_wanted)
        except _Withdrawn:
            continue
        for n, claimed in (repeated | found).items():
            answers[n] = claimed
        # The same request twice in one call has one answer.
        return [answers[first[n]] if n in first else None for n in range(len(requests))]
    raise DatabaseUnavailable


def _first_of_each(requests: Sequence[ClaimRequest], positions: Sequence[int]) -> dict[int, int]:
    """The position that claims for each of these: its own, or that of the first with its request id."""
    firsts: dict[tuple[object, ...], int] = {}
    found: dict[int, int] = {}
    for n in positions:
        one = requests[n]
        name = (one.principal, one.queue, one.agent, one.request_id)
        found[n] = n if one.request_id is None else firsts.setdefault(name, n)
        if one.parameters != requests[found[n]].parameters:
            raise InvalidContent(Problem("/request_id", "request_id_reused"))
    return found


async def _claim(
    pool: "Pool", wanted: Sequence[_Wanted], still_wanted: Callable[[int], bool]
) -> dict[int, list[Claimed]]:
    """What each position is given that is given anything. What is too old for that fails, and the next is looked at."""
    until = time.monotonic() + TOO_OLD_SECONDS_MAX
    ages = {
        request.queue: request.input_age_seconds_max
        for _, request in wanted
        if request.input_age_seconds_max is not None
    }
    while wanted:
        given, too_old = await _lease(pool, wanted, still_wanted)
        if not too_old:
            return given
        try:
            await fail_too_old(pool, too_old, ages_max=ages, until=until)
        except NotReady:
            # What was leased is committed, and the next claim finds the others again.
            if not given:
                raise
        if given or time.monotonic() > until:
            return given
    return {}


async def _lease(
    pool: "Pool", wanted: Sequence[_Wanted], still_wanted: Callable[[int], bool]
) -> tuple[dict[int, list[Claimed]], list[UUID]]:
    """What each position is given, and which turns are too old for anybody."""

    async def work(connection: "Link") -> tuple[dict[int, list[Claimed]], list[UUID]]:
        requests = [request for _, request in wanted]
        named = [uuid4() if request.request_id is not None else None for request in requests]
        found = await SQL["claim_turns"].rows(
            connection,
            positions=[n for n, _ in wanted],
            queues=[request.queue for request in requests],
            agents=[request.agent for request in requests],
            turns_max=[request.turns_max for request in requests],
            leases=[request.lease_seconds for request in requests],
            code_versions=[request.code_version for request in requests],
            requests=named,
            answer_bytes=[request.answer_bytes_max for request in requests],
            ages_max=[request.input_age_seconds_max for request in requests],
        )
        rows = [row for row in found if row["position"] is not None]
        given = {row["position"] for row in rows}
        kept = [
            (name, request)
            for name, (n, request) in zip(named, wanted, strict=True)
            if name is not None and n in given
        ]
        if kept and not await remember_requests(connection, kept):
            # The same request was answered meanwhile: give these turns back and join it.
            raise _Withdrawn
        claimed = await _with_inputs(connection, rows, requests)
        if not all(map(still_wanted, given)):
            raise _Withdrawn
        answers: dict[int, list[Claimed]] = defaultdict(list)
        for row in rows:
            answers[row["position"]].append(claimed[row["id"]])
        return answers, [row["id"] for row in found if row["position"] is None]

    return await transact(pool, work)


async def _repeat(pool: "Pool", wanted: Sequence[_Wanted]) -> dict[int, list[Claimed]]:
    """What each position was given before and still holds, for those that are known."""
    named = [(n, request) for n, request in wanted if request.request_id is not None]
    if not named:
        return {}

    async def work(connection: "Link") -> dict[int, list[Claimed]]:
        requests = [request for _, request in named]
        known = await known_requests(connection, requests)
        if not known:
            return {}
        rows = await SQL["read_claimed"].rows(connection, requests=list(known.values()))
        claimed = await _with_inputs(connection, rows, requests)
        return {
            named[at][0]: [claimed[row["id"]] for row in rows if row["request"] == name]
            for at, name in known.items()
        }

    return await transact(pool, work, explicit=False)


async def _with_inputs(
    connection: "Link", rows: "Sequence[Record]", requests: Sequence[ClaimRequest]
) -> dict[UUID, Claimed]:
    if not rows:
        return {}
    turns = [row["id"] for row in rows]
    inputs: dict[UUID, list[ClaimedInbound]] = defaultdict(list)
    for row in await SQL["read_inbound"].rows(connection, turns=turns):
        inputs[row["turn"]].append(_inbound(row))
    bytes_max = min(request.answer_bytes_max for request in requests)
    again = [row["id"] for row in rows if row["attempt"] > 1]
    left = bytes_max - sum(len(one.body or b"") for some in inputs.values() for one in some)
    history: Mapping[UUID, list[HistoryEntry]] = (
        await read_history(connection, again, bytes_max=max(left, 0)) if again else {}
    )
    return {
        row["id"]: Claimed(
            turn=row["id"],
            token=row["token"],
            attempt=row["attempt"],
            lease_expires_in_seconds=row["expires_in_seconds"],
            conversation=row["conversation"],
            inbound=_within(inputs[row["id"]], bytes_max),
            history=history.get(row["id"], []),
            waited_seconds=row.get("waited_seconds"),
        )
        for row in rows
    }


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
        id=row["id"],
        source=row["source"],
        received_at=row["received_at"],
        content_type=row["content_type"],
        headers=json.loads(row["headers"]),
        metadata=row["metadata"],
        body=row["body"],
        strict_json=row["strict_json"],
        view=row["view"],
    )
