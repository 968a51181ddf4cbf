"""What all workers together know of a destination, as the model understands it."""

from app.domain.breaker import Sign
from app.domain.model import Verdict
from tests.model.policies import DELIVERY_POLICIES
from tests.model.world import Standing, World


def may_take(world: World, destination: str, count: int) -> int:
    """How many of so many a take may give."""
    it = world.standing.setdefault(destination, Standing())
    if it.asked_until is not None and it.asked_until > world.now:
        return 0
    if it.breaker == "open":
        is_time = it.probe_at is not None and it.probe_at <= world.now
        return min(count, 1) if is_time and not sending(world, destination) else 0
    return count if it.breaker == "closed" else 0


def sending(world: World, destination: str) -> int:
    """How many are being sent."""
    mine = [m for m in world.messages.values() if m.destination == destination]
    return sum(message.state == "sending" for message in mine)


def spares(world: World, destination: str, verdict: Verdict) -> bool:
    """Whether this verdict costs its message nothing."""
    it = world.standing.setdefault(destination, Standing())
    return verdict.spare_seconds is not None and it.breaker != "closed"


def ended(world: World, destination: str, verdict: Verdict | None) -> None:
    """An attempt ended; without a verdict it tells nothing."""
    it, policy = world.standing.setdefault(destination, Standing()), DELIVERY_POLICIES[destination]
    sign = verdict.sign if verdict else Sign.NOTHING
    was, failed = it.breaker, sign is Sign.FAILS
    it.failures = 0 if sign is Sign.WORKS else it.failures + failed
    if verdict and verdict.hold_seconds:
        until = world.now + min(verdict.hold_seconds, policy.breaker.seconds_max)
        it.asked_until = max(until, it.asked_until or until)
    if it.failures < policy.breaker.failures and (was == "closed" or sign is Sign.WORKS):
        it.breaker, it.openings, it.probe_at = "closed", 0, None
        return
    it.breaker = "open"
    if was == "closed" or (was == "probing" and failed):
        rest = policy.breaker.seconds * 2**it.openings
        it.openings += 1
        it.probe_at = world.now + min(rest, policy.breaker.seconds_max)
    elif was == "probing":
        it.probe_at = world.now
