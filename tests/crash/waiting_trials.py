"""The verbs of what waits, brought to where a crash in them would hurt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.domain.model import HoldPlan
from tests.crash.calls import Call
from tests.crash.scene import Scene, Trial
from tests.engine.held_stories import (
    HOLD_SECONDS,
    PLAN,
    decide,
    deciding,
    expire,
    holding,
    later,
    seal_held,
)
from tests.engine.stories import draft
from tests.engine.waiting_stories import parking, telling
from tests.engine.walks import DAY

# Soon enough for whoever waits until everything has come to rest.
SECONDS = 300.0
QUESTION = "sha256:question"


async def _park(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    await scene.sink.accept_one("behind", "c")
    return Call("park", (parking(held, seconds=SECONDS),))


async def _park_for_what_came(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    await scene.sink.signal_one(held.turn)
    return Call("park", (parking(held, seconds=SECONDS),))


async def _park_to_ask(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    # It does not answer what a person is asked, and is dropped.
    await scene.sink.signal_one(held.turn)
    return Call("park", (parking(held, seconds=SECONDS, payload_hash=QUESTION),))


async def _signal(scene: Scene) -> Call:
    held = await scene.sink.parked("a", "c", seconds=SECONDS)
    await scene.sink.accept_one("behind", "c")
    return Call("signal", (telling(held.turn),))


async def _signal_early(scene: Scene) -> Call:
    held = await scene.held("a", "c")
    return Call("signal", (telling(held.turn),))


async def _signal_by_a_person(scene: Scene) -> Call:
    held = await scene.sink.parked("a", "c", seconds=SECONDS, payload_hash=QUESTION)
    return Call("signal", (telling(held.turn, may_decide=True, payload_hash=QUESTION),))


async def _wake(scene: Scene) -> Call:
    await scene.sink.parked("a", "c", seconds=30.0)
    await scene.sink.parked("b", seconds=30.0)
    await scene.clock.move(31)
    return Call("wake parked")


def _seal(plan: HoldPlan | None, *, empty: bool = False) -> Trial:
    async def trial(scene: Scene) -> Call:
        await scene.sink.sealed("before", draft("0", "c"), conversation="c")
        held = await scene.held("a", "c")
        await scene.sink.accept_one("behind", "c")
        drafts = () if empty else (draft("1", "c"), draft("2", "c"), draft("3"))
        follow_ups = (later("now", "c"), later("soon", delay_seconds=30.0), later("own", key="k"))
        return Call("seal", (holding(held, *drafts, follow_ups=follow_ups, plan=plan),))

    return trial


async def _seal_what_is_known_to_follow(scene: Scene) -> Call:
    first = await scene.held("first")
    await seal_held(scene.sink, first, follow_ups=(later("own", key="k"),), plan=None)
    held = await scene.held("a", "c")
    follow_ups = (later("own", key="k"), later("new"))
    return Call("seal", (holding(held, draft("1", "c"), follow_ups=follow_ups, plan=None),))


async def _held(scene: Scene, *, plan: HoldPlan = PLAN, empty: bool = False) -> tuple[Any, str]:
    """A held set behind one that is on its way, and a turn behind it."""
    await scene.sink.sealed("before", draft("0", "c"), conversation="c")
    held = await scene.held("a", "c")
    await scene.sink.accept_one("behind", "c")
    drafts = () if empty else (draft("1", "c"), draft("2", "c"), draft("3"))
    follow_ups = (later("now", "c"), later("soon", delay_seconds=30.0))
    sealed = await seal_held(scene.sink, held, *drafts, follow_ups=follow_ups, plan=plan)
    return held.turn, sealed.payload_hash


def _decide(decision: Any = "approve", *, empty: bool = False, **options: Any) -> Trial:
    async def trial(scene: Scene) -> Call:
        turn, shown = await _held(scene, empty=empty)
        return Call("decide", (deciding(turn, shown, decision, **options),))

    return trial


async def _decide_without_its_lane(scene: Scene) -> Call:
    turn, shown = await _held(scene, plan=replace(PLAN, keeps_lane=False))
    return Call("decide", (deciding(turn, shown, "revise"),))


async def _decide_what_is_spoiled(scene: Scene) -> Call:
    turn, shown = await _held(scene)
    await scene.admin.execute("update sink.outbox_payload set body = 'forged' where body = '2'")
    return Call("decide", (deciding(turn, shown),))


async def _decide_too_late(scene: Scene) -> Call:
    turn, shown = await _held(scene, plan=replace(PLAN, on_deadline="cancel"))
    await scene.clock.move(HOLD_SECONDS)
    return Call("decide", (deciding(turn, shown),))


def _expire(on_deadline: Any, *, empty: bool = False) -> Trial:
    async def trial(scene: Scene) -> Call:
        await _held(scene, plan=replace(PLAN, on_deadline=on_deadline), empty=empty)
        await scene.clock.move(HOLD_SECONDS)
        return Call("expire")

    return trial


async def _remind(scene: Scene) -> Call:
    await _expire("escalate")(scene)
    await expire(scene.sink)
    await scene.clock.move(scene.sink.turn_policies["default"].reminder_seconds)
    return Call("expire")


async def _escalate(scene: Scene) -> Call:
    """A hold, a failed turn and a park that asks are to be told of at once."""
    await _held(scene)
    await scene.sink.hand_back(await scene.held("failed", "d"), final=True)
    await scene.sink.parked("asks", seconds=SECONDS, payload_hash=QUESTION)
    return Call("escalate")


def _cancel(*, escalated: bool = False) -> Trial:
    async def trial(scene: Scene) -> Call:
        turn, _ = await _held(scene)
        if escalated:
            await scene.clock.move(HOLD_SECONDS)
            await expire(scene.sink)
        return Call("cancel turns", (turn,))

    return trial


async def _cancel_parked(scene: Scene) -> Call:
    held = await scene.sink.parked("a", "c", seconds=SECONDS)
    await scene.sink.accept_one("behind", "c")
    return Call("cancel turns", (held.turn,))


async def _waited(scene: Scene) -> None:
    """Turns that are over, and have waited for a decision and an event, or been rejected with what was to follow."""
    turn, shown = await _held(scene)
    await decide(scene.sink, deciding(turn, shown, "reject"))
    held = await scene.sink.parked("waited", seconds=SECONDS)
    await scene.sink.cancel(held.turn)
    other = await scene.sink.parked("told", "d", seconds=SECONDS)
    await scene.sink.signal_one(other.turn)
    (again,) = await scene.sink.claim(1)
    await scene.sink.seal_one(again)
    await scene.clock.move(31 * DAY)


async def _purge(scene: Scene) -> Call:
    await _waited(scene)
    return Call("purge")


_EDITED = (draft("1", "c"), draft("another", "c"), draft("added", "c"))
TRIALS: Mapping[str, Trial] = {
    "park": _park,
    "park for what came before": _park_for_what_came,
    "park to ask a person": _park_to_ask,
    "signal": _signal,
    "signal early": _signal_early,
    "signal by a person": _signal_by_a_person,
    "wake at the deadline": _wake,
    "seal, held": _seal(PLAN),
    "seal, held without its lane": _seal(replace(PLAN, keeps_lane=False)),
    "seal what is only to follow, held": _seal(PLAN, empty=True),
    "seal with what is to follow": _seal(None),
    "seal what is only to follow": _seal(None, empty=True),
    "seal what is known to follow": _seal_what_is_known_to_follow,
    "approve": _decide(),
    "approve what is only to follow": _decide(empty=True),
    "edit": _decide(edited=_EDITED),
    "edit to nothing": _decide(edited=()),
    "reject": _decide("reject"),
    "revise": _decide("revise"),
    "revise without its lane": _decide_without_its_lane,
    "approve what is spoiled": _decide_what_is_spoiled,
    "approve too late": _decide_too_late,
    "expire to escalated": _expire("escalate"),
    "expire to cancelled": _expire("cancel"),
    "expire to sealed": _expire("send"),
    "expire to sealed, only to follow": _expire("send", empty=True),
    "remind": _remind,
    "escalate": _escalate,
    "cancel a held turn": _cancel(),
    "cancel an escalated turn": _cancel(escalated=True),
    "cancel a parked turn": _cancel_parked,
    "purge what has waited": _purge,
}
