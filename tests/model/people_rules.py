"""The verbs of people as the model understands them: they move a world, and say what the answer must be."""

from collections.abc import Sequence
from uuid import UUID

from tests.model import waiting_rules
from tests.model.world import CLOSED, STUCK, World

RUNNING = (
    "scheduled",
    "waiting",
    "queued",
    "processing",
    "parked",
    "held",
    "escalated",
    "failed",
)


def cancel_turn(world: World, turn: UUID) -> str:
    """The turn's state, once nobody wants it."""
    it = world.turns[turn]
    if it.state in RUNNING:
        if it.state == "processing":
            it.ended[it.attempt] = "cancelled"
        waiting_rules.cancel(world, it)
        it.state, it.lease_until = "cancelled", None
        world.leave_lane(it)
    elif it.state in ("sealed", "undelivered"):
        cancel_messages(world, [m.id for m in world.set_of(turn) if m.state not in CLOSED])
    return it.state


def cancel_messages(world: World, messages: Sequence[UUID]) -> list[str]:
    """The state of each, once nobody wants them."""
    them = [world.messages[id_] for id_ in messages]
    moved = []
    for it in them:
        if it.state == "sending":
            it.stop = True
        elif it.state in ("pending", *STUCK):
            it.state, it.by = "cancelled", None
            moved.append(it)
    world.moved(*moved)
    return [it.state for it in them]


def redrive_turn(world: World, turn: UUID) -> str:
    """The turn's state, with a new allowance."""
    it = world.turns[turn]
    if it.state == "failed":
        it.used, it.releases, it.due, it.ages = 0, 0, world.now, world.now
        world.line_up(it)
    elif it.state == "undelivered":
        redrive_messages(world, [m.id for m in world.set_of(turn) if m.state in STUCK])
    return it.state


def redrive_messages(world: World, messages: Sequence[UUID]) -> list[str]:
    """The state of each, with a new allowance."""
    them = [world.messages[id_] for id_ in messages]
    moved = [it for it in them if it.state in STUCK]
    blockers = [world.blocker(it) for it in moved]
    for it, by in zip(moved, blockers, strict=True):
        it.state, it.by, it.due, it.used = "pending", by, world.now, 0
    world.moved(*moved)
    return [it.state for it in them]


def resolve(world: World, message: UUID, state: str) -> str:
    """The message's state, once somebody has looked."""
    it = world.messages[message]
    if it.state == "unknown":
        it.state = state
        world.moved(it)
    return it.state
