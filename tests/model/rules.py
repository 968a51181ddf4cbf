"""Every verb as the model understands it: pure functions that move a world, and say what the answer must be."""

from collections.abc import Sequence
from uuid import UUID

from app.domain.model import DeliveryPolicy, TurnPolicy, Verdict
from app.domain.outcome import Unknown
from app.domain.retry import after_attempt, turn_after_failure
from tests.model.world import CLOSED, STUCK, Lane, Message, Turn, World

LEASE_SECONDS = 60
DELIVERY_SECONDS = 30.0
QUIET_SECONDS = 2.0
QUIET_SECONDS_MAX = 10.0
INBOUND_MAX = 3
TURN_POLICY = TurnPolicy(
    attempts_max=3, releases_max=2, backoff_seconds=1.0, backoff_seconds_max=8.0
)
CRM, MAIL = "crm", "mail"
# One that gives up at once, so that messages get stuck, and one that tries again, so that others wait.
DELIVERY_POLICIES = {
    destination: DeliveryPolicy(
        attempts_max=attempts, age_seconds_max=1e9, backoff_seconds=1.0, backoff_seconds_max=8.0
    )
    for destination, attempts in ((CRM, 1), (MAIL, 3))
}

RUNNING = ("scheduled", "waiting", "queued", "processing", "failed")


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
    for key, id_ in keys:
        if key in world.keys:
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
        world.enter_lane(turn)


def claim(world: World, turns_max: int, *, request: str | None) -> list[UUID]:
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
    ready = [t for t in world.turns.values() if t.state == "queued" and t.due <= world.now]
    claimed = sorted(ready, key=_rank)[:turns_max]
    for turn in claimed:
        turn.state = "processing"
        turn.attempt += 1
        turn.used += 1
        turn.lease_until = world.now + LEASE_SECONDS
    if request is not None and claimed:
        given = {turn.id: turn.attempt for turn in claimed}
        world.requests[request] = (world.now + LEASE_SECONDS, given)
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
    drafts: Sequence[tuple[UUID, str, str | None, float]],
) -> str:
    """What a seal is told: sealed, repeated, already_sealed or lease_lost. `drafts`: id, destination, lane, delay."""
    it = world.turns[turn]
    if not holds(world, turn, attempt):
        if it.ended.get(attempt) != "sealed":
            return "lease_lost"
        return "repeated" if it.request == request else "already_sealed"
    it.sealed, it.request = True, request
    leave(world, it, "sealed" if drafts else "replied", "sealed")
    for position, (id_, destination, conversation, delay) in enumerate(drafts):
        place = None
        if conversation is not None:
            lane = (conversation, destination)
            place = world.places[lane] = world.places.get(lane, 0) + 1
        message = Message(
            id_, turn, position, conversation, destination, place, world.now + delay, delay
        )
        world.messages[id_] = message
        message.by = world.blocker(message)
    return "sealed"


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
    taken = sorted(ready, key=lambda message: (message.due, message.id))[:count]
    for message in taken:
        message.state = "sending"
        message.attempts += 1
        message.used += 1
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
    return True


def _settled(world: World, it: Message, verdict: Verdict) -> None:
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
            Unknown("lease_lapsed"),
            attempts_used=message.used,
            may_have_arrived=message.may,
            age_seconds=0.0,
            policy=DELIVERY_POLICIES[message.destination],
            jitter=0.0,
        )
        _settled(world, message, verdict)
    world.moved(*lapsed)


def tell(world: World, message: UUID) -> bool:
    """Whether a fact made the message delivered."""
    it = world.messages[message]
    if it.state == "delivered":
        return False
    it.state, it.may, it.by, it.stop, it.lease_until = "delivered", True, None, False, None
    world.moved(it)
    return True


def cancel_turn(world: World, turn: UUID) -> str:
    """The turn's state, once nobody wants it."""
    it = world.turns[turn]
    if it.state in RUNNING:
        if it.state == "processing":
            it.ended[it.attempt] = "cancelled"
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
        it.used, it.releases, it.due = 0, 0, world.now
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
