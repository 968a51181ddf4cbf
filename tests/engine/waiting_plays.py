"""The verbs of what waits, with every parameter that makes a difference, played against whatever turn was placed."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from app.domain.model import Claimed, HoldPlan, Taken
from tests.engine.held_stories import PLAN, decide, deciding, expire, holding, later
from tests.engine.stories import Sink, draft
from tests.engine.waiting_stories import parking, telling

Moved = tuple[str, str | None, str]
# One verb with its parameters; what it returns are moves that leave no event.
Play = Callable[[Sink, Claimed, Taken | None], Awaitable[set[Moved] | None]]


def _seal(plan: HoldPlan | None, *, empty: bool = False) -> Play:
    async def play(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
        drafts = () if empty else (draft("new", "c"), draft("new"))
        await sink.seal(holding(held, *drafts, follow_ups=(later(), later("c", "c")), plan=plan))

    return play


async def _hashes(sink: Sink) -> dict[UUID, str]:
    """What each turn shows now, where it shows anything."""
    query = "select id, 'sha256:' || encode(payload_hash, 'hex') as hash from sink.turn"
    async with sink.pool.acquire() as connection:
        rows = await connection.fetch(query)
    return {row["id"]: row["hash"] or "sha256:" + "0" * 64 for row in rows}


def _decide(decision: Any, **options: Any) -> Play:
    async def play(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
        shown = await _hashes(sink)
        for _ in range(2):
            await decide(
                sink,
                *(deciding(turn, digest, decision, **options) for turn, digest in shown.items()),
            )

    return play


def _out_of_revisions(play: Play) -> Play:
    async def played(sink: Sink, held: Claimed, taken: Taken | None) -> set[Moved] | None:
        policies = {name: replace(one, revisions_max=0) for name, one in sink.turn_policies.items()}
        return await play(replace(sink, turn_policies=policies), held, taken)

    return played


async def _decide_about_another(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for turn in await _hashes(sink):
        for decision in ("approve", "reject", "revise"):
            await decide(sink, deciding(turn, "sha256:" + "1" * 64, decision))


async def _expire(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await expire(sink)


async def _park(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.park(parking(held))


async def _park_for_what_is_known(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.signal(telling(held.turn, "known"))
    await sink.park(parking(held, "known"))


async def _ask_a_person(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.park(parking(held, payload_hash="sha256:question"))


async def _signal(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for turn in await _hashes(sink):
        await sink.signal(telling(turn), telling(turn, said='"another"'))


async def _wake(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.wake_parked()


async def _escalate(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.escalate()
    await sink.escalate()


REVISE = _decide("revise")
VERBS: dict[str, Play] = {
    "seal, held": _seal(PLAN),
    "seal, held without its lane": _seal(replace(PLAN, keeps_lane=False)),
    "seal what is only to follow, held": _seal(PLAN, empty=True),
    "seal with what is to follow": _seal(None),
    "seal what is only to follow": _seal(None, empty=True),
    "approve": _decide("approve"),
    "edit": _decide("approve", edited=(draft("1", "c"), draft("added", "c"), draft("alone"))),
    "edit to nothing": _decide("approve", edited=()),
    "reject": _decide("reject"),
    "revise": REVISE,
    "revise, none left": _out_of_revisions(REVISE),
    "decide about another set": _decide_about_another,
    "expire": _expire,
    "park": _park,
    "park for what is known": _park_for_what_is_known,
    "park to ask a person": _ask_a_person,
    "signal": _signal,
    "wake": _wake,
    "escalate": _escalate,
}
