"""Expire: what happens to a held set that nobody has decided about until its deadline, with nobody asking.

Somebody is told, again and again at longer intervals, and it can still be decided; or its turn ends; or its set is let
go, where the configuration says so. It is recorded as the system's doing, never as a person's.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.ids import IdFactory
from app.domain.lifecycle import TurnState
from app.domain.model import SYSTEM, TurnPolicy
from app.domain.seal import spell
from app.engine.ending import end_holds
from app.engine.held_turn import HeldTurn, end_by_deadline, read_held_turns, sets_of
from app.engine.statements import load
from app.engine.sweep import Swept
from app.engine.transaction import each_or_all, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

# A set that is let go is read whole: so many at once.
SETS_MAX: Final = 10
_DOUBLINGS_MAX: Final = 40


async def expire_holds(
    pool: "Pool",
    *,
    policies: Mapping[str, TurnPolicy],
    turns_max: int,
    ids: IdFactory,
    key_seconds: float,
) -> Swept:
    """Expire up to `turns_max` holds of these queues: escalated, cancelled, sealed, or reminded of."""

    async def find(connection: "Link") -> "list[Record]":
        return await SQL["find_expired_holds"].rows(
            connection, queues=list(policies), turns_max=turns_max
        )

    async def send(turns: Sequence[UUID]) -> list[str]:
        async def work(connection: "Link") -> list[str]:
            held = _over(await read_held_turns(connection, turns))
            sent = [one for one in held if one.expired == "send"]
            endings = [end_by_deadline(one, "send") for one in sent if one.is_intact]
            await end_holds(connection, endings, sets_of(held), ids=ids, key_seconds=key_seconds)
            # What is not what was sealed is for a person to decide, as if the configuration did not say so.
            spoiled = [one for one in sent if not one.is_intact]
            await _tell(connection, spoiled, policies, reason="integrity")
            return ["sealed"] * len(endings) + ["escalated"] * len(spoiled)

        return await transact(pool, work)

    async def end(turns: Sequence[UUID]) -> list[str]:
        async def work(connection: "Link") -> list[str]:
            held = _over(await read_held_turns(connection, turns, with_sets=False))
            endings = [end_by_deadline(one, "cancel") for one in held if one.expired == "cancel"]
            await end_holds(connection, endings, {}, ids=ids, key_seconds=key_seconds)
            left = [one for one in held if one.expired is None]
            await _tell(connection, left, policies, reason="hold_expired")
            told = ["escalated" if one.state == TurnState.HELD else "reminded" for one in left]
            return ["cancelled"] * len(endings) + told

        return await transact(pool, work)

    rows = await transact(pool, find, explicit=False)
    sent = [row["id"] for row in rows if row["is_sent"]]
    ended = [row["id"] for row in rows if not row["is_sent"]]
    states: Counter[str] = Counter()
    failed: list[Exception] = []
    for turns, work in [
        *((sent[n : n + SETS_MAX], send) for n in range(0, len(sent), SETS_MAX)),
        (ended, end),
    ]:
        if turns:
            done, broken = await each_or_all(turns, work)
            states.update(state for some in done for state in some)
            failed += broken
    return Swept(len(rows), states, tuple(failed))


def _over(held: Mapping[UUID, HeldTurn]) -> list[HeldTurn]:
    """Those that still wait for a decision, and whose deadline is over, under their locks."""
    return [one for one in held.values() if one.live is not None and one.row["is_over"]]


async def _tell(
    connection: "Link",
    held: Sequence[HeldTurn],
    policies: Mapping[str, TurnPolicy],
    *,
    reason: str,
) -> None:
    """Escalate turns, or remind of them: somebody is told, and told again later."""
    if not held:
        return
    await SQL["escalate_holds"].run(
        connection,
        turns=[one.row["id"] for one in held],
        from_states=[one.state for one in held],
        reason=reason,
        seconds=[_until_reminder(one, policies[one.row["queue"]]) for one in held],
        details=[
            json.dumps({"by": SYSTEM, "payload_hash": spell(one.row["payload_hash"])})
            for one in held
        ],
    )


def _until_reminder(held: HeldTurn, policy: TurnPolicy) -> float:
    """How long it takes until somebody is told again: twice as long each time, within reason."""
    reminders = 0 if held.live is None else held.live["reminders"]
    seconds = policy.reminder_seconds * 2.0 ** min(reminders, _DOUBLINGS_MAX)
    return min(seconds, policy.reminder_seconds_max)
