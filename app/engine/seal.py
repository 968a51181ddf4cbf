"""Seal: end an attempt and record its whole outbound set, in one transaction or not at all.

A set that is held waits for a person, and nothing of it leaves before. The same request with the same token gets the
first answer again; another one learns the first hash.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.ids import IdFactory
from app.domain.model import (
    AlreadySealed,
    Hold,
    LeaseLost,
    NoSuchTurn,
    Sealed,
    SealedFollowUp,
    SealedMessage,
    SealRequest,
)
from app.domain.seal import spell
from app.engine.fence import find_attempts, lease_lost
from app.engine.follow_ups import (
    SetOf,
    accept_follow_ups,
    find_follow_ups,
    record_follow_ups,
)
from app.engine.hold import NewHold, add_holds
from app.engine.lane import lock_lanes, promote
from app.engine.message_set import DeliveryLane, add_messages
from app.engine.sealed import Before, answer_again, sealed_before
from app.engine.sealing import Sealing, new_messages, sealing_of
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# How long the key of a follow-up is remembered, unless it is told otherwise: thirty days.
KEY_SECONDS: Final = 2_592_000.0

Outcome = Sealed | AlreadySealed | LeaseLost | NoSuchTurn
_Pair = tuple[UUID, UUID]


async def seal(
    pool: "Pool",
    requests: Sequence[SealRequest],
    *,
    ids: IdFactory,
    key_seconds: float = KEY_SECONDS,
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
        sealings = [sealing_of(requests[n], found[pairs[n]]) for n in open_]
        sealed = await _seal(connection, sealings, ids, key_seconds) if sealings else {}
        rest = [pair for pair, n in first.items() if pair not in sealed]
        if open_ and rest:
            # The token was dropped between looking and locking: look again at what it was dropped for.
            found |= await find_attempts(connection, rest)
        before = await sealed_before(connection, [found[pair] for pair in rest if pair in found])
        return {
            n: sealed[pair] if pair in sealed else _answer(requests[n], found.get(pair), before)
            for pair, n in first.items()
        }

    outcomes = await transact(pool, work, lock_wait_ms=lock_wait_ms)
    # The same token twice in one list: the later ones find what the first has left.
    later = [n for n in range(len(requests)) if n not in outcomes]
    if later:
        rest = [requests[n] for n in later]
        again = await seal(pool, rest, ids=ids, key_seconds=key_seconds, lock_wait_ms=lock_wait_ms)
        outcomes |= dict(zip(later, again, strict=True))
    return [outcomes[n] for n in range(len(requests))]


def _may_hold(row: "Record") -> bool:
    return row["attempt"] is not None and row["ended"] is None


async def _seal(
    connection: "Link", sealings: Sequence[Sealing], ids: IdFactory, key_seconds: float
) -> dict[_Pair, Outcome]:
    if any(one.attempt["conversation"] is not None for one in sealings):
        await lock_lanes(connection, [one.request.turn for one in sealings])
    moved, tails = await _move_turns(connection, sealings)
    held = [one for one in sealings if one.request.turn in moved]
    # A waiting turn is locked only by who holds its lane, so promoting behind a delivery lane breaks no order.
    # One whose token was dropped meanwhile still holds its lane.
    await promote(connection, [one.request.turn for one in held if one.leaves_lane])
    messages = new_messages(held, moved, tails, ids)
    if messages:
        await add_messages(connection, messages, verb="seal")
    holds = await _hold(connection, held, moved)
    later = await _follow_up(connection, held, moved, ids, key_seconds)
    of_turn: dict[UUID, list[SealedMessage]] = defaultdict(list)
    for message in messages:
        standing = message.placed.standing
        sealed = SealedMessage(standing.id, message.key, message.state)
        of_turn[standing.turn].append(sealed)
    return {
        (one.request.turn, one.request.token): Sealed(
            moved[one.request.turn]["state"],
            spell(one.digest),
            of_turn[one.request.turn],
            repeated=False,
            follow_ups=later.get((one.request.turn, moved[one.request.turn]["seal"]), ()),
            hold=holds.get(one.request.turn),
            seal=moved[one.request.turn]["seal"],
            held_seconds=one.attempt["held_seconds"],
            age_seconds=one.attempt["age_seconds"],
        )
        for one in held
    }


async def _move_turns(
    connection: "Link", sealings: Sequence[Sealing]
) -> "tuple[dict[UUID, Record], dict[DeliveryLane, int]]":
    """Move the turns whose tokens hold, and make room for their messages: the turns, and the last places before."""
    requests = [one.request for one in sealings]
    entering = [
        (one.request.turn, message.conversation, message.destination)
        for one in sealings
        if not one.is_held
        for message in one.request.messages
        if message.conversation is not None
    ]
    rows = await SQL["seal_turns"].rows(
        connection,
        turns=[request.turn for request in requests],
        tokens=[request.token for request in requests],
        request_hashes=[request.request_hash for request in requests],
        payload_hashes=[one.digest for one in sealings],
        states=[one.state for one in sealings],
        deadlines=[
            one.request.hold.deadline_seconds if one.is_held and one.request.hold else None
            for one in sealings
        ],
        lane_turns=[turn for turn, _, _ in entering],
        lane_conversations=[conversation for _, conversation, _ in entering],
        lane_destinations=[destination for _, _, destination in entering],
    )
    moved = {row["id"]: row for row in rows if row["id"] is not None}
    tails = {
        (row["queue"], row["conversation"], row["destination"]): row["tail"]
        for row in rows
        if row["id"] is None
    }
    return moved, tails


async def _hold(
    connection: "Link", sealings: Sequence[Sealing], moved: "dict[UUID, Record]"
) -> dict[UUID, Hold]:
    holds = [
        NewHold(
            one.request.turn,
            moved[one.request.turn]["seal"],
            one.attempt["attempt"],
            one.digest,
            one.request.order == "strict",
            one.request.hold,
        )
        for one in sealings
        if one.is_held and one.request.hold is not None
    ]
    return await add_holds(connection, holds) if holds else {}


async def _follow_up(
    connection: "Link",
    sealings: Sequence[Sealing],
    moved: "dict[UUID, Record]",
    ids: IdFactory,
    key_seconds: float,
) -> dict[SetOf, list[SealedFollowUp]]:
    """Record what is asked for later; where nothing is held it comes to be at once."""
    asked = [
        (one, (one.request.turn, moved[one.request.turn]["seal"]))
        for one in sealings
        if one.request.follow_ups
    ]
    if not asked:
        return {}
    await record_follow_ups(
        connection, [(set_of, one.request.follow_ups) for one, set_of in asked], ids=ids
    )
    free = [set_of for one, set_of in asked if not one.is_held]
    if free:
        await accept_follow_ups(connection, free, key_seconds=key_seconds)
    return await find_follow_ups(connection, [set_of for _, set_of in asked])


def _answer(request: SealRequest, row: "Record | None", before: Before) -> Outcome:
    if row is None:
        return NoSuchTurn()
    if row["ended"] != "sealed":
        return lease_lost(row)
    return answer_again(request, row, before)
