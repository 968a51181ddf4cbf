"""Signal: what a turn is told under a name. The first wins and is kept, also for who asks later.

A turn that waits for it wakes in the same transaction. What a person was asked nobody answers without the right to
decide, and nothing but what he was asked about.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.lifecycle import TURN_ENDED, TurnState
from app.domain.model import (
    AlreadySignalled,
    AskedOtherwise,
    NoSuchTurn,
    PersonNeeded,
    Signal,
    Signalled,
    TooManySignals,
    TurnEnded,
)
from app.engine.lane import lock_lanes, lock_turns
from app.engine.statements import load
from app.engine.transaction import transact
from app.engine.wake_parked import wake_turns

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# How many names a turn can be told something under.
SIGNALS_MAX: Final = 1000

Outcome = (
    Signalled
    | AlreadySignalled
    | PersonNeeded
    | AskedOtherwise
    | TurnEnded
    | TooManySignals
    | NoSuchTurn
)

# From the seal on no attempt follows that could be told anything. One that is held may come back from its reviewer.
_ENDED: Final = TURN_ENDED | {TurnState.SEALED}


async def signal(pool: "Pool", signals: Sequence[Signal]) -> list[Outcome]:
    """Tell each turn; one outcome each, in order. The same again is a duplicate, at any time."""
    first: dict[tuple[UUID, str], int] = {}
    for n, one in enumerate(signals):
        first.setdefault((one.turn, one.name), n)

    async def work(connection: "Link") -> dict[int, Outcome]:
        turns = {signals[n].turn for n in first.values()}
        # A waiting turn is locked behind its lane alone: who promotes it has that.
        await lock_lanes(connection, turns)
        await lock_turns(connection, turns)
        rows = await SQL["find_slots"].rows(
            connection, turns=[turn for turn, _ in first], names=[name for _, name in first]
        )
        slots = {(row["turn"], row["name"]): row for row in rows}
        refused = {
            n: outcome
            for slot, n in first.items()
            if (outcome := _refusal(signals[n], slots.get(slot))) is not None
        }
        told = {slot: n for slot, n in first.items() if n not in refused}
        woken = await _keep(connection, [(signals[n], slots[slot]) for slot, n in told.items()])
        return refused | {
            n: Signalled("queued", woken=True)
            if slot[0] in woken and slots[slot]["is_awaited"]
            else Signalled("queued" if slot[0] in woken else slots[slot]["state"])
            for slot, n in told.items()
        }

    outcomes = await transact(pool, work)
    # The same name twice in one list: the later ones find what the first has left.
    later = [n for n in range(len(signals)) if n not in outcomes]
    if later:
        again = await signal(pool, [signals[n] for n in later])
        outcomes |= dict(zip(later, again, strict=True))
    return [outcomes[n] for n in range(len(signals))]


def _refusal(one: Signal, slot: "Record | None") -> Outcome | None:
    """What else than done a signal is answered with; None where it is to be kept."""
    if slot is None:
        return NoSuchTurn()
    state: str = slot["state"]
    if slot["request_hash"] is not None:
        # Without a hash it answers no question: then it does not matter who may decide.
        as_good = one.payload_hash is None or slot["is_decision"] == one.may_decide
        if slot["request_hash"] == one.request_hash and as_good:
            return Signalled(state, duplicate=True)
        return AlreadySignalled(state, slot["sent_by"] or slot["sent_with"], slot["sent_at"])
    if state in _ENDED:
        return TurnEnded(state)
    if slot["asked_hash"] is not None:
        if not one.may_decide:
            return PersonNeeded()
        if one.payload_hash != slot["asked_hash"]:
            return AskedOtherwise(slot["asked_hash"], state)
    if slot["told"] >= SIGNALS_MAX and not slot["is_awaited"]:
        # What it waits for can always come, however many others were there before.
        return TooManySignals(state)
    return None


async def _keep(connection: "Link", told: "Sequence[tuple[Signal, Record]]") -> set[UUID]:
    """Keep these signals, and wake the turns that wait for them."""
    if not told:
        return set()
    signals = [one for one, _ in told]
    await SQL["add_signals"].run(
        connection,
        turns=[one.turn for one in signals],
        names=[one.name for one in signals],
        numbers=[slot["number"] for _, slot in told],
        content_types=[one.content_type for one in signals],
        bodies=[one.body for one in signals],
        strict_json=[one.strict_json for one in signals],
        payload_hashes=[one.payload_hash for one in signals],
        may_decide=[one.may_decide for one in signals],
        sent_by=[one.sent_by for one in signals],
        sent_with=[one.sent_with for one in signals],
        request_hashes=[one.request_hash for one in signals],
    )
    awaited = {one.turn: slot["number"] for one, slot in told if slot["is_awaited"]}
    return await wake_turns(connection, awaited)
