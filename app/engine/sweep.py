"""Sweep: put back whatever a crash stranded, and end what has used up its attempts.

Candidates are found without a lock and decided by guarded writes: a holder who seals, settles or renews meanwhile has
won, and the sweep changes nothing of his.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from app.domain.model import DeliveryPolicy, HandedBack, Settlement, TurnPolicy
from app.domain.outcome import Unknown
from app.domain.retry import after_attempt, turn_after_failure
from app.engine.put_back import PutBack, lock_held, put_back
from app.engine.settle import settle_attempts
from app.engine.statements import Statement, load
from app.engine.transaction import each_or_all, transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)


@dataclass(frozen=True, slots=True)
class Swept:
    """One sweep: how many were found, what they came to by state, and what failed: each alone, and only that.

    `wasted` is what the attempts that were swept had used, by field.
    """

    found: int
    states: Mapping[str, int]
    failed: tuple[Exception, ...]
    wasted: Mapping[str, Decimal] = field(default_factory=dict)


async def sweep_turns(
    pool: "Pool", *, policies: Mapping[str, TurnPolicy], turns_max: int, jitter: random.Random
) -> Swept:
    """Put back up to `turns_max` turns whose lease lapsed."""
    lapsed = await _find(pool, SQL["find_lapsed_turns"], turns_max=turns_max)
    wasted: dict[str, Decimal] = {}

    async def put_back_some(rows: "Sequence[Record]") -> list[str]:
        async def work(connection: "Link") -> list[HandedBack]:
            held = await lock_held(
                connection, [(row["id"], row["token"]) for row in rows], lapsed=True
            )
            decided = [
                _stranded(row, policies.get(row["queue"]), jitter.random()) for row in held.values()
            ]
            return list((await put_back(connection, decided)).values())

        done = await transact(pool, work)
        for name, total in (used for one in done for used in one.wasted.items()):
            wasted[name] = wasted.get(name, Decimal()) + total
        return [one.state for one in done]

    return replace(await _sweep(lapsed, put_back_some), wasted=wasted)


async def sweep_messages(
    pool: "Pool",
    *,
    policies: Mapping[str, DeliveryPolicy],
    messages_max: int,
    jitter: random.Random,
) -> Swept:
    """Settle up to `messages_max` attempts whose worker did not come back.

    Whoever took them may have sent them: each ends as an unknown attempt. It is repeated with the same key, unless it
    was begun at a destination that holds these for a person.
    """
    lapsed = await _find(pool, SQL["find_lapsed_messages"], messages_max=messages_max)

    async def settle_some(rows: "Sequence[Record]") -> list[str]:
        settlements = [
            Settlement(
                row["id"],
                row["attempt_id"],
                after_attempt(
                    Unknown("lease_lapsed", ours=True),
                    attempts_used=row["attempts_used"],
                    may_have_arrived=row["may_have_arrived"],
                    age_seconds=row["age_seconds"],
                    policy=policies.get(row["destination"]),
                    jitter=jitter.random(),
                    hold_unknown=row["hold_unknown"],
                ),
            )
            for row in rows
        ]

        async def work(connection: "Link") -> list[str]:
            held = await settle_attempts(
                connection, settlements, verb="sweep", lapsed=True, policies=policies
            )
            return ["unknown_attempt"] * len(held)

        return await transact(pool, work)

    return await _sweep(lapsed, settle_some)


async def _find(pool: "Pool", statement: Statement, **limits: int) -> "list[Record]":
    async def work(connection: "Link") -> "list[Record]":
        return await statement.rows(connection, **limits)

    return await transact(pool, work, explicit=False)


async def _sweep(
    rows: "Sequence[Record]", work: "Callable[[Sequence[Record]], Awaitable[list[str]]]"
) -> Swept:
    if not rows:
        return Swept(0, {}, ())
    done, failed = await each_or_all(rows, work)
    return Swept(len(rows), Counter(state for states in done for state in states), tuple(failed))


def _stranded(row: "Record", policy: TurnPolicy | None, jitter: float) -> PutBack:
    state, delay = turn_after_failure(
        attempts_used=row["attempts_used"], policy=policy, jitter=jitter
    )
    why = "attempts_exhausted" if state == "failed" else None
    return PutBack(
        turn=row["id"],
        token=row["token"],
        state=state,
        reason="lease_lapsed",
        turn_reason=why,
        delay_seconds=delay,
        counted=True,
        releases=0,
        ended="swept",
        verb="sweep",
    )
