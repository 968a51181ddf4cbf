"""Seal: end an attempt and record its whole outbound set, in one transaction or not at all.

A set that is held waits for a person, and nothing of it leaves before. The same request with the same token gets the
first answer again; another one learns the first hash.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.ids import IdFactory
from app.domain.lifecycle import TurnState
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
from app.engine.message_set import DeliveryLane, Move, record_sets
from app.engine.sealed import Before, answer_again, sealed_before
from app.engine.sealing import Sealing, new_messages, sealing_of, state_of
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
        sealed = await _seal(connection, [requests[n] for n in first.values()], ids, key_seconds)
        rest = [pair for pair in first if pair not in sealed]
        found = await find_attempts(connection, rest) if rest else {}
        before = await sealed_before(connection, list(found.values()))
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


async def _seal(
    connection: "Link", requests: Sequence[SealRequest], ids: IdFactory, key_seconds: float
) -> dict[_Pair, Outcome]:
    """Seal those whose tokens hold."""
    held, tails = await _hold_turns(connection, requests)
    sealings = [
        sealing_of(request, held[request.turn, request.token])
        for request in requests
        if (request.turn, request.token) in held
    ]
    if not sealings:
        return {}
    messages = new_messages(sealings, tails, ids)
    moved = await record_sets(connection, [_move(one) for one in sealings], messages, verb="seal")
    holds = await _hold(connection, sealings)
    later = await _follow_up(connection, sealings, ids, key_seconds)
    of_turn: dict[UUID, list[SealedMessage]] = defaultdict(list)
    for message in messages:
        standing = message.placed.standing
        of_turn[standing.turn].append(SealedMessage(standing.id, message.key, message.state))
    return {
        (one.request.turn, one.request.token): Sealed(
            one.state,
            spell(one.digest),
            of_turn[one.request.turn],
            repeated=False,
            follow_ups=later.get((one.request.turn, one.seal), ()),
            hold=holds.get(one.request.turn),
            seal=one.seal,
            held_seconds=moved[one.request.turn].held_seconds,
            age_seconds=one.turn["age_seconds"],
            promotes=moved[one.request.turn].promotes,
        )
        for one in sealings
    }


async def _hold_turns(
    connection: "Link", requests: Sequence[SealRequest]
) -> "tuple[dict[_Pair, Record], dict[DeliveryLane, int]]":
    """Lock the turns whose tokens hold with all their lanes: the turns, and the last places before their messages."""
    entering = [
        (request.turn, message.conversation, message.destination)
        for request in requests
        if state_of(request) != TurnState.HELD
        for message in request.messages
        if message.conversation is not None
    ]
    rows = await SQL["hold_turns"].rows(
        connection,
        turns=[request.turn for request in requests],
        tokens=[request.token for request in requests],
        entering_turns=[turn for turn, _, _ in entering],
        entering_conversations=[conversation for _, conversation, _ in entering],
        entering_destinations=[destination for _, _, destination in entering],
    )
    held = {(row["id"], row["token"]): row for row in rows if row["id"] is not None}
    queues = {turn: row["queue"] for (turn, _), row in held.items()}
    places = Counter(
        (queues[turn], conversation, destination)
        for turn, conversation, destination in entering
        if turn in queues
    )
    tails = {
        lane: row["tail"] - places[lane]
        for row in rows
        if row["id"] is None
        for lane in [(row["queue"], row["conversation"], row["destination"])]
    }
    return held, tails


def _move(one: Sealing) -> Move:
    request = one.request
    hold = request.hold if one.is_held else None
    return Move(
        request.turn,
        request.token,
        one.state,
        request.request_hash,
        one.digest,
        None if hold is None else hold.deadline_seconds,
        one.leaves_lane,
    )


async def _hold(connection: "Link", sealings: Sequence[Sealing]) -> dict[UUID, Hold]:
    holds = [
        NewHold(
            one.request.turn,
            one.seal,
            one.turn["attempt"],
            one.digest,
            one.request.order == "strict",
            one.request.hold,
        )
        for one in sealings
        if one.is_held and one.request.hold is not None
    ]
    return await add_holds(connection, holds) if holds else {}


async def _follow_up(
    connection: "Link", sealings: Sequence[Sealing], ids: IdFactory, key_seconds: float
) -> dict[SetOf, list[SealedFollowUp]]:
    """Record what is asked for later; where nothing is held it comes to be at once."""
    asked = [(one, (one.request.turn, one.seal)) for one in sealings if one.request.follow_ups]
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
