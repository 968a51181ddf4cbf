"""Parks, signals and cancels as the model understands them: they move a world, and say what the answer must be."""

from typing import Any
from uuid import UUID

from tests.model.hold_rules import WAITS, void
from tests.model.world import Told, Turn, Wait, World

ENDED = ("sealed", "replied", "undelivered", "failed", "cancelled")


def cancel(world: World, turn: Turn) -> None:
    """What ends with a turn that nobody wants any more, while it waits."""
    if turn.state in WAITS:
        world.holds[turn.id][-1].decision = "cancel"
        void(world, turn)
    if turn.state == "parked":
        world.waits[turn.id][-1].ended = "cancelled"
    turn.deadline = None


def _live(world: World, turn: UUID, name: str) -> Told | None:
    told = world.told.get(turn, ())
    return next((one for one in told if one.name == name and not one.dropped), None)


def park(
    world: World, turn: UUID, attempt: int, *, name: str, seconds: float, asks: str | None
) -> str | None:
    """The turn's state behind it; None when the token is lost."""
    it = world.turns[turn]
    waits = world.waits.setdefault(turn, [])
    if not (it.state == "processing" and it.attempt == attempt):
        asked = [(one.name, one.asks) for one in waits if one.attempt == attempt]
        return it.state if asked == [(name, asks)] else None
    it.ended[attempt], it.lease_until = "parked", None
    it.state, it.deadline = "parked", world.now + seconds
    it.used -= 1
    it.parks += 1
    waits.append(Wait(attempt, name, asks, world.now))
    kept = _live(world, turn, name)
    if kept is not None and (asks is None or (kept.decides and kept.about == asks)):
        _wake(world, it, "signal")
    elif kept is not None:
        kept.dropped = True
    return it.state


def _wake(world: World, turn: Turn, by: str) -> None:
    wait = world.waits[turn.id][-1]
    wait.ended = by
    since = turn.created if turn.ages is None else turn.ages
    turn.ages = since + world.now - wait.asked
    turn.state, turn.deadline, turn.due = "queued", None, world.now


def signal(world: World, turn: UUID, one: Any) -> str:
    """What a signal is told: kept, duplicate, already, ended, or why it does not count."""
    it, told = world.turns[turn], world.told.setdefault(turn, [])
    kept = _live(world, turn, one.name)
    if kept is not None:
        as_good = kept.about is None or kept.decides == one.may_decide
        return "duplicate" if kept.request == one.request_hash and as_good else "already"
    if it.state in ENDED:
        return "ended"
    wait = world.waits[turn][-1] if it.state == "parked" else None
    awaited = wait is not None and wait.name == one.name
    if wait is not None and awaited and wait.asks is not None:
        if not one.may_decide:
            return "person"
        if one.payload_hash != wait.asks:
            return "otherwise"
    number = 1 + max((before.number for before in told if before.name == one.name), default=0)
    told.append(Told(one.name, number, one.request_hash, one.may_decide, one.payload_hash))
    if awaited:
        _wake(world, it, "signal")
    return "kept"


def wake_parked(world: World) -> None:
    """Parked turns whose deadline is over."""
    for turn in world.turns.values():
        if turn.state == "parked" and (turn.deadline or 0.0) <= world.now:
            _wake(world, turn, "deadline")
