"""The verbs of turns as the model understands them: they move a world, and say what the answer must be."""

import math
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from app.domain.model import DraftMessage, HoldPlan
from app.domain.retry import turn_after_failure
from tests.model import hold_rules
from tests.model.policies import (
    INBOUND_MAX,
    LEASE_SECONDS,
    QUIET_SECONDS,
    QUIET_SECONDS_MAX,
    TURN_POLICY,
)
from tests.model.world import FollowUp, Lane, Turn, World


def accept(
    world: World,
    keys: Sequence[tuple[str, UUID]],
    *,
    conversation: str | None,
    priority: int,
    delay: float,
    joins: bool,
) -> list[UUID]:
    """One inbound for each key, with the id that is minted for its turn; the turn of each."""
    held = "source" in world.paused or any(turn.held for turn in scheduled(world))
    for key, id_ in keys:
        if key in world.keys:
            continue
        if held:
            own = world.now + delay if delay else None
            turn = Turn(id_, conversation, "scheduled", world.now, math.inf, priority)
            turn.held, turn.ages = True, own
            world.turns[id_] = turn
            world.keys[key] = id_
            continue
        last = _last_of_lane(world, conversation) if joins else None
        if last is not None:
            _join(world, last, priority)
            world.keys[key] = last.id
            continue
        due = world.now + (QUIET_SECONDS if joins else delay)
        turn = Turn(id_, conversation, "scheduled", world.now, due, priority)
        world.turns[id_] = turn
        world.keys[key] = id_
        if not delay:
            world.enter_lane(turn)
    return [world.keys[key] for key, _ in keys]


def scheduled(world: World) -> list[Turn]:
    return [turn for turn in world.turns.values() if turn.state == "scheduled"]


def _last_of_lane(world: World, conversation: str | None) -> Turn | None:
    lane = world.lanes.get(conversation or "", Lane())
    for turn in world.turns.values():
        is_last = turn.conversation == conversation and turn.seq == lane.tail
        if is_last and turn.state in ("queued", "waiting") and not turn.attempt:
            return turn if turn.inbound < INBOUND_MAX else None
    return None


def _join(world: World, turn: Turn, priority: int) -> None:
    turn.inbound += 1
    turn.priority = max(turn.priority, priority)
    bound = max(turn.due, turn.created + QUIET_SECONDS_MAX)
    turn.due = min(world.now + QUIET_SECONDS, bound)


def due(world: World) -> None:
    """Scheduled turns whose time has come take their places, in the order of their times."""
    ready = [t for t in world.turns.values() if t.state == "scheduled" and t.due <= world.now]
    for turn in sorted(ready, key=lambda t: (t.due, t.id)):
        turn.ages = turn.due
        world.enter_lane(turn)


def due_after_pause(world: World) -> None:
    """What the source held up takes its places in the order of ids, or waits for a time of its own."""
    if "source" in world.paused:
        return
    for turn in sorted(scheduled(world), key=lambda t: t.id):
        if turn.held and turn.ages is not None and turn.ages > world.now:
            turn.due, turn.ages, turn.held = turn.ages, None, False
        elif turn.held:
            turn.due, turn.ages, turn.held = world.now, world.now, False
            world.enter_lane(turn)


def _is_too_old(world: World, turn: Turn, age: float | None) -> bool:
    since = turn.created if turn.ages is None else turn.ages
    return age is not None and world.now - since > age


def _ready(world: World) -> list[Turn]:
    ready = [t for t in world.turns.values() if t.state == "queued" and t.due <= world.now]
    return sorted(ready, key=_rank)


def _fail_too_old(world: World, age: float | None) -> None:
    """All that are too old, and those behind them in their lanes."""
    while old := [turn for turn in _ready(world) if _is_too_old(world, turn, age)]:
        for turn in old:
            turn.state = "failed"
            world.leave_lane(turn)


def claim(
    world: World, turns_max: int, *, request: str | None, age: float | None = None
) -> list[UUID]:
    """The turns that a claim gives, in their order."""
    if request is not None and request in world.requests:
        expires, given = world.requests[request]
        if expires > world.now:
            held = [
                turn
                for turn in world.turns.values()
                if turn.state == "processing" and given.get(turn.id) == turn.attempt
            ]
            return [turn.id for turn in sorted(held, key=_rank)]
    if "queue" in world.paused:
        return []
    found = _ready(world)[:turns_max]
    claimed = [turn for turn in found if not _is_too_old(world, turn, age)]
    for turn in claimed:
        turn.state = "processing"
        turn.attempt += 1
        turn.used += 1
        turn.lease_until = world.now + LEASE_SECONDS
    if request is not None and claimed:
        given = {turn.id: turn.attempt for turn in claimed}
        world.requests[request] = (world.now + LEASE_SECONDS, given)
    if len(claimed) < len(found):
        _fail_too_old(world, age)
        if not claimed:
            return claim(world, turns_max, request=request, age=age)
    return [turn.id for turn in claimed]


def _rank(turn: Turn) -> tuple[int, float, UUID]:
    return -turn.priority, turn.due, turn.id


def holds(world: World, turn: UUID, attempt: int) -> bool:
    """Whether the token of this attempt still holds."""
    return world.turns[turn].state == "processing" and world.turns[turn].attempt == attempt


def renew(world: World, turn: UUID, attempt: int) -> int | None:
    """How many inbound wait behind it; None for a token that does not hold."""
    if not holds(world, turn, attempt):
        return None
    held = world.turns[turn]
    held.lease_until = world.now + LEASE_SECONDS
    return sum(
        other.inbound
        for other in world.turns.values()
        if other.conversation == held.conversation is not None and other.state == "waiting"
    )


def leave(world: World, turn: Turn, state: str, ended: str) -> None:
    """Out of processing."""
    turn.ended[turn.attempt] = ended
    turn.lease_until = None
    turn.state = state
    if state != "queued":
        world.leave_lane(turn)


def hand_back(world: World, turn: UUID, attempt: int, *, how: str, delay: float) -> str | None:
    """The turn's state behind a release, a failure or a final failure; None when the token is lost."""
    it = world.turns[turn]
    if not holds(world, turn, attempt):
        return it.state if it.ended.get(attempt) in ("released", "failed") else None
    if how == "release":
        spent = it.releases >= TURN_POLICY.releases_max
        it.used -= 1
        it.releases += 1
        state = "failed" if spent else "queued"
    elif how == "fail":
        state, backoff = turn_after_failure(attempts_used=it.used, policy=TURN_POLICY, jitter=0.0)
        delay = max(delay, backoff)
    else:
        state = "failed"
    if state == "queued":
        it.due = world.now + delay
    leave(world, it, state, "released" if how == "release" else "failed")
    return it.state


def sweep_turns(world: World) -> None:
    """Turns whose holder did not come back in time."""
    lapsed = [t for t in world.turns.values() if (t.lease_until or world.now + 1) <= world.now]
    for turn in lapsed:
        state, backoff = turn_after_failure(attempts_used=turn.used, policy=TURN_POLICY, jitter=0.0)
        if state == "queued":
            turn.due = world.now + backoff
        leave(world, turn, state, "swept")


def seal(
    world: World,
    turn: UUID,
    attempt: int,
    *,
    request: bytes,
    drafts: Sequence[tuple[UUID, DraftMessage]],
    strict: bool,
    follow_ups: Sequence[FollowUp] = (),
    plan: HoldPlan | None = None,
) -> str:
    """What a seal is told: sealed, repeated, already_sealed or lease_lost."""
    it = world.turns[turn]
    if not holds(world, turn, attempt):
        if it.ended.get(attempt) != "sealed":
            return "lease_lost"
        return "repeated" if it.requests.get(attempt) == request else "already_sealed"
    it.requests[attempt], it.seal, it.live = request, it.seal + 1, True
    it.seals[attempt] = it.seal
    for id_, draft in drafts:
        hold_rules.add_message(world, it, id_, draft, strict=strict)
    for one in follow_ups:
        world.later.setdefault(turn, []).append(replace(one, seal=it.seal))
    if plan is not None and (drafts or follow_ups):
        hold_rules.hold(world, it, plan, strict=strict)
    else:
        leave(world, it, "sealed" if drafts else "replied", "sealed")
        hold_rules.let_go(world, it)
    return "sealed"
