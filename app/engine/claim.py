"""Claim: lease due turns to agents, a batch of requests in one transaction.

A claim commits only for clients that are still there, and can be repeated under its request id: the repeat gives what
the first answer gave and still holds.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from app.domain.errors import InvalidContent, Problem
from app.domain.model import Claimed, ClaimedInbound, ClaimRequest, EndedAttempt
from app.engine.statements import load
from app.engine.transaction import TRIES_MAX, DatabaseUnavailable, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


class _Withdrawn(Exception):
    """Not everybody may keep what this transaction claimed: undo it."""


async def claim(
    pool: "Pool",
    requests: Sequence[ClaimRequest],
    *,
    still_wanted: Callable[[int], bool] = lambda _position: True,
) -> list[list[Claimed]]:
    """Give each request up to its `turns_max` due turns: one list for each request, empty where there was nothing.

    `still_wanted(position)` is asked just before the commit; who has left gets nothing and nothing is leased to him.
    A request id that is known gives what it gave before; with other parameters it raises `InvalidContent`
    (`request_id_reused`).
    """
    answers: list[list[Claimed]] = [[] for _ in requests]
    left = list(range(len(requests)))
    for _ in range(TRIES_MAX):
        left = [n for n in left if still_wanted(n)]
        for n in [n for n in left if requests[n].request_id is not None]:
            repeated = await _repeat(pool, requests[n])
            if repeated is not None:
                answers[n] = repeated
                left.remove(n)
        if not left:
            return answers
        first = _first_of_each(requests, left)
        now = [n for n in left if first[n] == n]
        try:
            found = await _claim(pool, [requests[n] for n in now], now, still_wanted)
        except _Withdrawn:
            continue
        for n, claimed in zip(now, found, strict=True):
            answers[n] = claimed
        # A twin in the same call repeats what the first of them was given, if anything.
        left = [n for n in left if first[n] != n and answers[first[n]]]
        if not left:
            return answers
    raise DatabaseUnavailable


def _first_of_each(requests: Sequence[ClaimRequest], positions: Sequence[int]) -> dict[int, int]:
    """The position that claims for each of these: its own, or that of the first with its request id."""
    firsts: dict[tuple[object, ...], int] = {}
    found = {}
    for n in positions:
        one = requests[n]
        name = (one.principal, one.queue, one.agent, one.request_id)
        found[n] = n if one.request_id is None else firsts.setdefault(name, n)
        if one.parameters != requests[found[n]].parameters:
            raise InvalidContent(Problem("/request_id", "request_id_reused"))
    return found


async def _claim(
    pool: "Pool",
    requests: Sequence[ClaimRequest],
    positions: Sequence[int],
    still_wanted: Callable[[int], bool],
) -> list[list[Claimed]]:
    async def work(connection: "Link") -> list[list[Claimed]]:
        named = [uuid4() if request.request_id is not None else None for request in requests]
        rows = await SQL["claim_turns"].rows(
            connection,
            positions=list(range(len(requests))),
            queues=[request.queue for request in requests],
            agents=[request.agent for request in requests],
            turns_max=[request.turns_max for request in requests],
            leases=[request.lease_seconds for request in requests],
            code_versions=[request.code_version for request in requests],
            requests=named,
            answer_bytes=[request.answer_bytes_max for request in requests],
        )
        answers: list[list[Record]] = [[] for _ in requests]
        for row in rows:
            answers[row["position"]].append(row)
        given = [n for n in range(len(requests)) if answers[n] and named[n] is not None]
        # In one order for everybody, so that two claims never wait for each other.
        for n in sorted(given, key=lambda n: _identity(requests[n])):
            await _remember(connection, requests[n], named[n])
        claimed = await _with_inputs(connection, rows, requests)
        for n, position in enumerate(positions):
            if answers[n] and not still_wanted(position):
                raise _Withdrawn
        return [[claimed[row["id"]] for row in answer] for answer in answers]

    return await transact(pool, work)


def _identity(request: ClaimRequest) -> tuple[str, str, str, str]:
    return request.principal, request.queue, request.agent, request.request_id or ""


async def _remember(connection: "Link", request: ClaimRequest, name: UUID | None) -> None:
    kept = await SQL["remember_request"].rows(
        connection,
        id=name,
        principal=request.principal,
        queue=request.queue,
        agent=request.agent,
        request_id=request.request_id,
        parameters=request.parameters,
        lease_seconds=request.lease_seconds,
    )
    if not kept:
        # The same request was answered meanwhile: give these turns back and join it.
        raise _Withdrawn


async def _repeat(pool: "Pool", request: ClaimRequest) -> list[Claimed] | None:
    """What this request gave before and still holds; None when it is new."""

    async def work(connection: "Link") -> list[Claimed] | None:
        found = await SQL["find_request"].rows(
            connection,
            principal=request.principal,
            queue=request.queue,
            agent=request.agent,
            request_id=request.request_id,
        )
        if not found:
            return None
        if found[0]["parameters"] != request.parameters:
            raise InvalidContent(Problem("/request_id", "request_id_reused"))
        rows = await SQL["read_claimed"].rows(connection, request=found[0]["id"])
        claimed = await _with_inputs(connection, rows, [request])
        return [claimed[row["id"]] for row in rows]

    return await transact(pool, work)


async def _with_inputs(
    connection: "Link", rows: "Sequence[Record]", requests: Sequence[ClaimRequest]
) -> dict[UUID, Claimed]:
    if not rows:
        return {}
    turns = [row["id"] for row in rows]
    inputs: dict[UUID, list[ClaimedInbound]] = defaultdict(list)
    for row in await SQL["read_inbound"].rows(connection, turns=turns):
        inputs[row["turn"]].append(_inbound(row))
    history: dict[UUID, list[EndedAttempt]] = defaultdict(list)
    again = [row["id"] for row in rows if row["attempt"] > 1]
    for row in await SQL["read_history"].rows(connection, turns=again) if again else ():
        history[row["turn"]].append(
            EndedAttempt(row["number"], row["ended"], row["reason"], row["ended_at"])
        )
    bytes_max = min(request.answer_bytes_max for request in requests)
    return {
        row["id"]: Claimed(
            turn=row["id"],
            token=row["token"],
            attempt=row["attempt"],
            lease_expires_in_seconds=row["expires_in_seconds"],
            conversation=row["conversation"],
            inbound=_within(inputs[row["id"]], bytes_max),
            history=history[row["id"]],
        )
        for row in rows
    }


def _within(inputs: list[ClaimedInbound], bytes_max: int) -> list[ClaimedInbound]:
    """A turn that alone is over the answer's limit comes with the bodies that fit, and without the others."""
    kept: list[ClaimedInbound] = []
    left = bytes_max
    for one in inputs:
        size = len(one.body or b"")
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
    )


async def forget_request(pool: "Pool", request: ClaimRequest) -> None:
    """Forget that a request was answered, where the answer came to nobody: its repeat is a new one."""

    async def work(connection: "Link") -> None:
        await SQL["forget_request"].run(
            connection,
            principal=request.principal,
            queue=request.queue,
            agent=request.agent,
            request_id=request.request_id,
        )

    await transact(pool, work, explicit=False)


async def forget_requests(pool: "Pool", *, rows_max: int) -> int:
    """Drop up to `rows_max` claim requests whose lease is over; returns how many."""

    async def work(connection: "Link") -> int:
        return len(await SQL["forget_requests"].rows(connection, rows_max=rows_max))

    return await transact(pool, work, explicit=False)
