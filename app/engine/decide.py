"""Decide: a person approves a held set, changes it, rejects it, or asks for another. The first decision stays.

It is bound to the hash of what was seen: another set is never decided about. Whoever says the same again is given the
first answer, whoever says something else learns what was decided. A deadline that ends the hold is carried out first.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.domain.ids import IdFactory
from app.domain.model import (
    AlreadyDecided,
    Decided,
    Decision,
    NotIntact,
    PayloadChanged,
    TurnPolicy,
)
from app.engine.ending import end_holds
from app.engine.follow_ups import find_follow_ups
from app.engine.held_turn import read_held_turns, sets_of
from app.engine.hold import find_holds, hold_view
from app.engine.inspect import states_of
from app.engine.judgement import Judgement, Refused, judge
from app.engine.sealed import find_messages
from app.engine.statements import load
from app.engine.transaction import transact

if TYPE_CHECKING:
    from asyncpg import Record

    from app.engine.database import Pool
    from app.engine.statements import Link

SQL = load(__file__)

Outcome = Decided | AlreadyDecided | Refused


async def decide(
    pool: "Pool",
    decisions: Sequence[Decision],
    *,
    policies: Mapping[str, TurnPolicy],
    ids: IdFactory,
    key_seconds: float,
) -> list[Outcome]:
    """Decide about each set; one outcome each, in order. `policies` has the queue of whatever is sent back."""
    first: dict[UUID, int] = {}
    for n, decision in enumerate(decisions):
        first.setdefault(decision.turn, n)

    async def work(connection: "Link") -> dict[int, Outcome]:
        held = await read_held_turns(connection, list(first))
        judged = [judge(decisions[n], held.get(turn), policies) for turn, n in first.items()]
        await end_holds(
            connection,
            [one.ending for one in judged if one.ending is not None],
            sets_of(list(held.values())),
            ids=ids,
            key_seconds=key_seconds,
        )
        spoiled = [one.turn for one in judged if isinstance(one.refused, NotIntact)]
        if spoiled:
            await tell_of_spoiled(connection, spoiled)
        outcomes = await _answers(connection, judged)
        return dict(zip(first.values(), outcomes, strict=True))

    outcomes = await transact(pool, work)
    # Twice about the same turn in one list: the later ones find what the first has left.
    later = [n for n in range(len(decisions)) if n not in outcomes]
    if later:
        rest = [decisions[n] for n in later]
        again = await decide(pool, rest, policies=policies, ids=ids, key_seconds=key_seconds)
        outcomes |= dict(zip(later, again, strict=True))
    return [outcomes[n] for n in range(len(decisions))]


async def tell_of_spoiled(connection: "Link", turns: Collection[UUID]) -> None:
    """Have somebody told that what is stored of these sets is not what was sealed."""
    await SQL["tell_of_spoiled"].run(connection, turns=list(turns))


async def _answers(connection: "Link", judged: Sequence[Judgement]) -> list[Outcome]:
    """What each is told, with everything as this call leaves it."""
    told = [one for one in judged if one.refused is None]
    states = await states_of(connection, [one.turn for one in judged])
    holds: dict[tuple[UUID, int], Record] = {}
    if told:
        for turn, rows in (await find_holds(connection, [one.turn for one in told])).items():
            holds |= {(turn, row["seal"]): row for row in rows}
    # An edit has made the next set of it.
    live = {
        (turn, seal): (turn, seal + (row["decision"] == "edit"))
        for (turn, seal), row in holds.items()
    }
    messages = await find_messages(connection, list(live.values())) if live else {}
    follow_ups = await find_follow_ups(connection, list(live.values())) if live else {}
    answers: list[Outcome] = []
    for one in judged:
        state = states.get(one.turn, "")
        match one.refused:
            case None:
                pass
            case PayloadChanged(payload_hash):
                answers.append(PayloadChanged(payload_hash, state))
                continue
            case refused:
                answers.append(refused)
                continue
        set_ = (one.turn, one.seal)
        hold = hold_view(holds[set_])
        if not one.said:
            answers.append(AlreadyDecided(one.seal, hold, state))
            continue
        answers.append(
            Decided(
                one.seal,
                hold,
                state,
                messages.get(live[set_], []),
                follow_ups.get(live[set_], []),
                repeated=one.ending is None,
            )
        )
    return answers
