"""Seal: end an attempt and record its whole outbound set, in one transaction or not at all.

The same request with the same token gets the first answer again; another one learns the first hash.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.ids import MESSAGE_PREFIX, IdFactory, format_id
from app.domain.model import (
    AlreadySealed,
    DraftMessage,
    LeaseLost,
    NoSuchTurn,
    Sealed,
    SealedMessage,
    SealRequest,
)
from app.domain.seal import payload_hash, spell
from app.engine.fence import find_attempts, lease_lost
from app.engine.lane import lock_lanes, promote
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

Outcome = Sealed | AlreadySealed | LeaseLost | NoSuchTurn
_Pair = tuple[UUID, UUID]
_Lane = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Message:
    """A message with its place. `behind` is its predecessor, where the same call adds both: in its lane, or in its set
    where order is strict.
    """

    id: UUID
    turn: UUID
    seal: int
    position: int
    queue: str
    place: int | None
    behind: UUID | None
    strict: bool
    draft: DraftMessage


async def seal(
    pool: "Pool",
    requests: Sequence[SealRequest],
    *,
    ids: IdFactory,
    lock_wait_ms: int | None = None,
) -> list[Outcome]:
    """Seal each turn whose token holds; one outcome each, in order.

    With `lock_wait_ms` it is `Busy` where somebody holds what it needs longer than that.
    """
    pairs = [(request.turn, request.token) for request in requests]
    # In the order of the list, so that sets of one call stand in their lanes as they were given.
    first: dict[_Pair, int] = {}
    for n, pair in enumerate(pairs):
        first.setdefault(pair, n)

    async def work(connection: "Link") -> dict[int, Outcome]:
        found = await find_attempts(connection, list(first))
        open_ = [n for pair, n in first.items() if pair in found and _may_hold(found[pair])]
        sealed = await _seal(connection, [requests[n] for n in open_], found, ids) if open_ else {}
        rest = [pair for pair, n in first.items() if pair not in sealed]
        if open_ and rest:
            # The token was dropped between looking and locking: look again at what it was dropped for.
            found |= await find_attempts(connection, rest)
        before = await _sealed_before(connection, [found[pair] for pair in rest if pair in found])
        return {
            n: sealed[pair] if pair in sealed else _answer(requests[n], found.get(pair), before)
            for pair, n in first.items()
        }

    outcomes = await transact(pool, work, lock_wait_ms=lock_wait_ms)
    # The same token twice in one list: the later ones find what the first has left.
    later = [n for n in range(len(requests)) if n not in outcomes]
    if later:
        rest = [requests[n] for n in later]
        again = await seal(pool, rest, ids=ids, lock_wait_ms=lock_wait_ms)
        outcomes |= dict(zip(later, again, strict=True))
    return [outcomes[n] for n in range(len(requests))]


async def find_seal(pool: "Pool", request: SealRequest) -> Sealed | AlreadySealed | None:
    """What this token has sealed before, as `seal` would answer it; None if it has sealed nothing."""
    pair = (request.turn, request.token)

    async def work(connection: "Link") -> Sealed | AlreadySealed | None:
        found = await find_attempts(connection, [pair])
        if pair not in found or found[pair]["ended"] != "sealed":
            return None
        before = await _sealed_before(connection, [found[pair]])
        return _sealed_answer(request, found[pair], before)

    return await transact(pool, work, explicit=False)


def _may_hold(row: "Record") -> bool:
    return row["attempt"] is not None and row["ended"] is None


async def _seal(
    connection: "Link",
    requests: Sequence[SealRequest],
    found: "dict[_Pair, Record]",
    ids: IdFactory,
) -> dict[_Pair, Outcome]:
    rows = [found[request.turn, request.token] for request in requests]
    if any(row["conversation"] is not None for row in rows):
        await lock_lanes(connection, [row["turn"] for row in rows])
    hashes = [
        payload_hash(
            turn=request.turn,
            attempt=row["attempt"],
            order=request.order,
            messages=[message.hash for message in request.messages],
        )
        for request, row in zip(requests, rows, strict=True)
    ]
    in_lanes = [
        (request.turn, message.conversation, message.destination)
        for request in requests
        for message in request.messages
        if message.conversation is not None
    ]
    result = await SQL["seal_turns"].rows(
        connection,
        turns=[request.turn for request in requests],
        tokens=[request.token for request in requests],
        request_hashes=[request.request_hash for request in requests],
        payload_hashes=hashes,
        empty=[not request.messages for request in requests],
        lane_turns=[turn for turn, _, _ in in_lanes],
        lane_conversations=[conversation for _, conversation, _ in in_lanes],
        lane_destinations=[destination for _, _, destination in in_lanes],
    )
    moved = {row["id"]: row for row in result if row["id"] is not None}
    tails = {
        (row["queue"], row["conversation"], row["destination"]): row["tail"]
        for row in result
        if row["id"] is None
    }
    held = [
        (request, digest)
        for request, digest in zip(requests, hashes, strict=True)
        if request.turn in moved
    ]
    # A waiting turn is locked only by who holds its lane, so promoting behind a delivery lane breaks no order.
    # One whose token was dropped meanwhile still holds its lane.
    await promote(
        connection,
        [row["turn"] for row in rows if row["conversation"] is not None and row["turn"] in moved],
    )
    messages = _placed([request for request, _ in held], moved, tails, ids)
    if messages:
        await _add(connection, messages)
    of_turn: dict[UUID, list[SealedMessage]] = defaultdict(list)
    for message in messages:
        of_turn[message.turn].append(SealedMessage(message.id, _key(message.id), "pending"))
    return {
        (request.turn, request.token): Sealed(
            moved[request.turn]["state"],
            spell(digest),
            of_turn[request.turn],
            repeated=False,
            held_seconds=found[request.turn, request.token]["held_seconds"],
            age_seconds=found[request.turn, request.token]["age_seconds"],
        )
        for request, digest in held
    }


def _placed(
    requests: Sequence[SealRequest],
    moved: "dict[UUID, Record]",
    tails: dict[_Lane, int],
    ids: IdFactory,
) -> list[_Message]:
    """Number the messages: their positions in the set, their places in the delivery lanes.

    Without a conversation the set is the lane.
    """
    placed: list[_Message] = []
    last: dict[tuple[object, str | None, str], UUID] = {}
    for request in requests:
        row = moved[request.turn]
        strict = request.order == "strict"
        before: UUID | None = None
        for position, draft in enumerate(request.messages):
            place = None
            if draft.conversation is not None:
                lane = (row["queue"], draft.conversation, draft.destination)
                place = tails[lane] = tails[lane] + 1
            scope = request.turn if draft.conversation is None else row["queue"]
            after = (scope, draft.conversation, draft.destination)
            id_ = ids.new()
            placed.append(
                _Message(
                    id_,
                    request.turn,
                    row["seal"],
                    position,
                    row["queue"],
                    place,
                    before or last.get(after),
                    strict,
                    draft,
                )
            )
            last[after] = id_
            before = id_ if strict else None
    return placed


async def _add(connection: "Link", messages: Sequence[_Message]) -> None:
    drafts = [message.draft for message in messages]
    await SQL["add_messages"].run(
        connection,
        messages=[message.id for message in messages],
        turns=[message.turn for message in messages],
        seals=[message.seal for message in messages],
        positions=[message.position for message in messages],
        queues=[message.queue for message in messages],
        conversations=[draft.conversation for draft in drafts],
        destinations=[draft.destination for draft in drafts],
        places=[message.place for message in messages],
        behind=[message.behind for message in messages],
        strict=[message.strict for message in messages],
        delays=[draft.delay_seconds for draft in drafts],
        keys=[_key(message.id) for message in messages],
        recipients=[draft.recipient for draft in drafts],
        headers=[json.dumps(dict(draft.headers)) for draft in drafts],
        content_types=[draft.content_type for draft in drafts],
        bodies=[draft.body for draft in drafts],
        hashes=[draft.hash for draft in drafts],
        addresses=[draft.address for draft in drafts],
        replies_of=[draft.reply_of for draft in drafts],
        expiries=[draft.expires_at for draft in drafts],
        paces=[draft.pace_seconds for draft in drafts],
    )


def _key(message: UUID) -> str:
    """A message's idempotency key is its own id: it needs no other, and can never change."""
    return format_id(MESSAGE_PREFIX, message)


async def _sealed_before(
    connection: "Link", rows: "Sequence[Record]"
) -> dict[UUID, list[SealedMessage]]:
    turns = [row["turn"] for row in rows if row["ended"] == "sealed"]
    messages: dict[UUID, list[SealedMessage]] = defaultdict(list)
    for row in await SQL["find_sealed"].rows(connection, turns=turns) if turns else ():
        messages[row["turn"]].append(SealedMessage(row["id"], row["key"], row["state"]))
    return messages


def _answer(
    request: SealRequest, row: "Record | None", before: dict[UUID, list[SealedMessage]]
) -> Outcome:
    if row is None:
        return NoSuchTurn()
    if row["ended"] != "sealed":
        return lease_lost(row)
    return _sealed_answer(request, row, before)


def _sealed_answer(
    request: SealRequest, row: "Record", before: dict[UUID, list[SealedMessage]]
) -> Sealed | AlreadySealed:
    digest = spell(row["payload_hash"])
    if row["request_hash"] != request.request_hash:
        return AlreadySealed(digest)
    return Sealed(row["state"], digest, before[request.turn], repeated=True)
