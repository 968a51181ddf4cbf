"""The verbs of messages as the model understands them: they move a world, and say what the answer must be."""

from dataclasses import replace
from uuid import UUID

from app.domain.model import Verdict
from app.domain.outcome import Unknown
from app.domain.retry import after_attempt
from tests.model import breaker_rules as breakers
from tests.model.policies import DELIVERY_POLICIES, DELIVERY_SECONDS, HELD
from tests.model.world import Message, World


def take(world: World, destination: str, count: int) -> list[UUID]:
    """The messages that a take gives."""
    ready = [
        message
        for message in world.messages.values()
        if message.destination == destination
        and message.state == "pending"
        and message.by is None
        and message.due <= world.now
    ]
    most = breakers.may_take(world, destination, count)
    taken = sorted(ready, key=lambda message: (message.due, message.id))[:most]
    if taken and world.standing[destination].breaker == "open":
        world.standing[destination].breaker = "probing"
    for message in taken:
        message.state = "sending"
        message.attempts += 1
        message.used += 1
        message.holds = destination == HELD
        message.lease_until = world.now + DELIVERY_SECONDS
    return [message.id for message in taken]


def sends(world: World, message: UUID, attempt: int) -> bool:
    """Whether this attempt still has its lease."""
    return world.messages[message].state == "sending" and (
        world.messages[message].attempts == attempt
    )


def settle(world: World, message: UUID, attempt: int, verdict: Verdict) -> bool:
    """Whether the verdict was written."""
    if not sends(world, message, attempt):
        return False
    it = world.messages[message]
    _settled(world, it, verdict)
    world.moved(it)
    breakers.ended(world, it.destination, verdict)
    return True


def _settled(world: World, it: Message, verdict: Verdict) -> None:
    if breakers.spares(world, it.destination, verdict):
        delay = verdict.spare_seconds or 0.0
        verdict = replace(verdict, state="pending", delay_seconds=delay, counted=False)
    it.state = "cancelled" if it.stop and verdict.state != "delivered" else verdict.state
    it.may = it.may or verdict.may_have_arrived
    it.used -= not verdict.counted
    it.stop, it.lease_until = False, None
    if verdict.state == "pending":
        it.due = world.now + verdict.delay_seconds


def sweep_messages(world: World) -> None:
    """Attempts whose worker did not come back in time: each may have arrived."""
    lapsed = [m for m in world.messages.values() if (m.lease_until or world.now + 1) <= world.now]
    for message in lapsed:
        verdict = after_attempt(
            Unknown("lease_lapsed", ours=True),
            attempts_used=message.used,
            may_have_arrived=message.may,
            age_seconds=0.0,
            policy=DELIVERY_POLICIES[message.destination],
            jitter=0.0,
            hold_unknown=message.holds,
        )
        _settled(world, message, verdict)
    world.moved(*lapsed)
    for destination in {message.destination for message in lapsed}:
        breakers.ended(world, destination, None)


def tell(world: World, message: UUID) -> bool:
    """Whether a fact made the message delivered."""
    it = world.messages[message]
    if it.state == "delivered":
        return False
    was_sent = it.state == "sending"
    it.state, it.may, it.by, it.stop, it.lease_until = "delivered", True, None, False, None
    world.moved(it)
    if was_sent:
        breakers.ended(world, it.destination, None)
    return True
