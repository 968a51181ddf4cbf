"""Claim: lease due turns to agents, a batch of requests in one transaction.

A claim commits only for clients that are still there, and can be repeated under its request id: the repeat gives what
the first answer gave and still holds.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from app.domain.errors import InvalidContent, NotReady, Problem
from app.domain.model import Claimed, ClaimRequest
from app.engine.claim_request import known_requests, remember_requests
from app.engine.claimed import read_claimed, with_inputs
from app.engine.marks import FROM_THE_FRONT, Marks, Stepped
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


# What is given to each position.
_Given = dict[int, list[Claimed]]
# A request with its position in the call.
_Wanted = tuple[int, ClaimRequest]


class _Withdrawn(Exception):
    """Not everybody may keep what this transaction claimed: undo it."""


async def claim(
    pool: "Pool",
    requests: Sequence[ClaimRequest],
    *,
    still_wanted: Callable[[int], bool] = lambda _position: True,
    marks: Marks | None = None,
) -> list[list[Claimed] | None]:
    """Give each request up to its `turns_max` due turns; one answer each, in order. None: nothing was due.

    `still_wanted(position)` is asked just before the commit; who has left gets nothing and nothing is leased to him.
    A request id that is known gives what of its first answer still holds, perhaps nothing (an empty list); with other
    parameters it raises `InvalidContent` (`request_id_reused`).

    With `marks` it may begin where earlier claims have been; without them it reads each queue from the front. They
    know afterwards whether it left nothing.
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
            found = await _claim(pool, new, still_wanted, marks)
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
    pool: "Pool",
    wanted: Sequence[_Wanted],
    still_wanted: Callable[[int], bool],
    marks: Marks | None,
) -> _Given:
    """What each position is given that is given anything. What is too old for that fails, and the next is looked at."""
    until = time.monotonic() + TOO_OLD_SECONDS_MAX
    ages = {
        request.queue: request.input_age_seconds_max
        for _, request in wanted
        if request.input_age_seconds_max is not None
    }
    while wanted:
        given, too_old = await _lease(pool, wanted, still_wanted, marks)
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
    pool: "Pool",
    wanted: Sequence[_Wanted],
    still_wanted: Callable[[int], bool],
    marks: Marks | None,
) -> tuple[_Given, list[UUID]]:
    """What each position is given, and which turns are too old for anybody."""
    requests = [request for _, request in wanted]
    queues = _queues(requests)
    named = [uuid4() if request.request_id is not None else None for request in requests]
    look = FROM_THE_FRONT if marks is None else marks.look(queues, now=time.monotonic())

    async def work(connection: "Link") -> "tuple[_Given, list[UUID], list[Record], Stepped | None]":
        before = await _stepped(connection) if look.measured else None
        found = await SQL["claim_turns"].rows(
            connection,
            wanted_queues=list(queues),
            wanted_turns=[turns for turns, _ in queues.values()],
            wanted_ages=[age for _, age in queues.values()],
            mark_queues=[queue for queue, _, _ in look.marks],
            mark_priorities=[priority for _, priority, _ in look.marks],
            marks=[at for _, _, at in look.marks],
            positions=[n for n, _ in wanted],
            queues=[request.queue for request in requests],
            agents=[request.agent for request in requests],
            turns_max=[request.turns_max for request in requests],
            taken_before=_taken_before(requests),
            leases=[request.lease_seconds for request in requests],
            code_versions=[request.code_version for request in requests],
            requests=named,
            answer_bytes=[request.answer_bytes_max for request in requests],
        )
        stepped = None if before is None else (await _stepped(connection)).since(before)
        rows = sorted((row for row in found if row["position"] is not None), key=_order)
        given = {row["position"] for row in rows}
        kept = [
            (name, request)
            for name, (n, request) in zip(named, wanted, strict=True)
            if name is not None and n in given
        ]
        if kept and not await remember_requests(connection, kept):
            # The same request was answered meanwhile: give these turns back and join it.
            raise _Withdrawn
        claimed = await with_inputs(connection, rows, bytes_max=_bytes_max(requests))
        positions = {row["id"]: row["position"] for row in rows}
        answers: _Given = defaultdict(list)
        for one in claimed:
            answers[positions[one.turn]].append(one)
        if not all(map(still_wanted, given)):
            raise _Withdrawn
        too_old = [row["id"] for row in found if row["position"] is None]
        return answers, too_old, rows, stepped

    answers, too_old, rows, stepped = await transact(pool, work)
    if marks is not None:
        given = {row["id"]: (row["queue"], row["priority"], row["due_at"]) for row in rows}
        found = max((row["found"] for row in rows), default=0)
        marks.note(
            look,
            queues,
            list(given.values()),
            stepped,
            is_empty=not too_old and len(given) == found < _turns_of_one(queues),
            now=time.monotonic(),
        )
    return answers, too_old


async def _stepped(connection: "Link") -> Stepped:
    (row,) = await SQL["find_stepped"].rows(connection)
    return Stepped(row["entries"], row["at"])


def _order(row: "Record") -> tuple[int, int, int]:
    return (row["position"], row["nth"], row["inbound_position"] or 0)


def _queues(requests: Sequence[ClaimRequest]) -> dict[str, tuple[int, float | None]]:
    """How many turns are wanted of each queue, and how old their input may be."""
    found: dict[str, tuple[int, float | None]] = {}
    for one in requests:
        turns, age = found.get(one.queue, (0, None))
        ages = [x for x in (age, one.input_age_seconds_max) if x is not None]
        found[one.queue] = (turns + one.turns_max, min(ages, default=None))
    return found


def _turns_of_one(queues: dict[str, tuple[int, float | None]]) -> int:
    """How many turns are wanted of the only queue. Of several it is not known which of them had less."""
    return max(turns for turns, _ in queues.values()) if len(queues) == 1 else 0


def _taken_before(requests: Sequence[ClaimRequest]) -> list[int]:
    """How many turns of its queue go to those before each request."""
    taken: dict[str, int] = defaultdict(int)
    before: list[int] = []
    for one in requests:
        before.append(taken[one.queue])
        taken[one.queue] += one.turns_max
    return before


def _bytes_max(requests: Sequence[ClaimRequest]) -> int:
    return min(request.answer_bytes_max for request in requests)


async def _repeat(pool: "Pool", wanted: Sequence[_Wanted]) -> _Given:
    """What each position was given before and still holds, for those that are known."""
    named = [(n, request) for n, request in wanted if request.request_id is not None]
    if not named:
        return {}

    async def work(connection: "Link") -> _Given:
        requests = [request for _, request in named]
        known = await known_requests(connection, requests)
        if not known:
            return {}
        held = await read_claimed(connection, list(known.values()), bytes_max=_bytes_max(requests))
        return {named[at][0]: held[name] for at, name in known.items()}

    return await transact(pool, work, explicit=False)
