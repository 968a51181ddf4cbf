"""Holds, decisions and follow-ups as the model understands them: they move a world, and say what the answer must be."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from app.domain.model import DraftMessage, HoldPlan
from app.domain.seal import payload_hash, spell
from tests.model.policies import TURN_POLICY
from tests.model.world import FollowUp, Hold, Lane, Message, Turn, World

WAITS = ("held", "escalated")


def add_message(
    world: World,
    turn: Turn,
    id_: UUID,
    draft: DraftMessage,
    *,
    strict: bool,
    key: UUID | None = None,
) -> None:
    """A message of the last set, which stands nowhere yet."""
    position = len(world.set_of(turn.id))
    world.messages[id_] = Message(
        id_,
        turn.id,
        position,
        draft.conversation,
        draft.destination,
        None,
        world.now,
        draft.delay_seconds,
        strict,
        state="held",
        seal=turn.seal,
        key=key or id_,
        hash=draft.hash,
    )


def hash_of(world: World, turn: Turn, *, strict: bool) -> str:
    """What binds the last set of a turn."""
    digest = payload_hash(
        turn=turn.id,
        attempt=turn.attempt,
        order="strict" if strict else None,
        messages=[message.hash for message in world.set_of(turn.id)],
        follow_ups=[one.hash for one in follow_ups_of(world, turn)],
    )
    return spell(digest)


def follow_ups_of(world: World, turn: Turn) -> list[FollowUp]:
    """What the last set of a turn asks for later."""
    return [one for one in world.later.get(turn.id, ()) if one.seal == turn.seal]


def hold(world: World, turn: Turn, plan: HoldPlan, *, strict: bool) -> None:
    """The last set of a turn waits for a decision."""
    turn.ended[turn.attempt] = "sealed"
    turn.lease_until, turn.state = None, "held"
    turn.deadline = world.now + plan.deadline_seconds
    digest = hash_of(world, turn, strict=strict)
    one = Hold(turn.seal, turn.attempt, digest, strict, plan.on_deadline, plan.keeps_lane)
    world.holds.setdefault(turn.id, []).append(one)
    if not plan.keeps_lane:
        world.leave_lane(turn)


def let_go(world: World, turn: Turn) -> None:
    """The last set of a turn is delivered from now on, and what it asked for later comes to be."""
    for message in world.set_of(turn.id):
        if message.conversation is not None:
            lane = (message.conversation, message.destination)
            message.place = world.places[lane] = world.places.get(lane, 0) + 1
        message.state, message.due = "pending", world.now + message.delay
        message.by = world.blocker(message)
    for one in follow_ups_of(world, turn):
        one.state = "accepted"
        if one.key is not None and one.key in world.follow_keys:
            one.child = world.follow_keys[one.key]
            continue
        if one.key is not None:
            world.follow_keys[one.key] = one.child
        due = world.now + one.delay
        child = Turn(one.child, one.conversation, "scheduled", world.now, due, turn.priority)
        child.root, child.depth = turn.root or turn.id, turn.depth + 1
        world.turns[child.id] = child


def void(world: World, turn: Turn) -> None:
    for message in world.set_of(turn.id):
        message.state = "cancelled"
    for one in follow_ups_of(world, turn):
        one.state = "cancelled" if one.state == "held" else one.state


def _approve(world: World, turn: Turn) -> None:
    turn.state, turn.deadline = "sealed", None
    world.leave_lane(turn)
    let_go(world, turn)
    world.settle_turn(turn)


def _end(world: World, turn: Turn) -> None:
    void(world, turn)
    turn.state, turn.deadline = "cancelled", None
    world.leave_lane(turn)


def _revise(world: World, turn: Turn) -> None:
    void(world, turn)
    turn.live, turn.deadline = False, None
    turn.used -= 1
    turn.revisions += 1
    turn.due = turn.ages = world.now
    lane = world.lanes[turn.conversation] if turn.conversation is not None else Lane()
    turn.state = "queued" if lane.holder in (None, turn.id) else "waiting"
    if turn.state == "queued" and turn.conversation is not None:
        lane.holder = turn.id


def _edit(
    world: World,
    turn: Turn,
    strict: bool,
    edited: Sequence[tuple[UUID, DraftMessage, UUID | None]],
) -> str:
    later = follow_ups_of(world, turn)
    for message in world.set_of(turn.id):
        message.state = "cancelled"
    turn.seal += 1
    for one in later:
        one.seal = turn.seal
    for id_, draft, key in edited:
        add_message(world, turn, id_, draft, strict=strict, key=key)
    digest = hash_of(world, turn, strict=strict)
    _approve(world, turn)
    return digest


def keys_of(world: World, turn: UUID, drafts: Sequence[DraftMessage]) -> list[UUID | None]:
    """Whose key each message of an edit takes over: one that says the same, else the next one to the same address."""
    left = [one for one in world.set_of(turn) if one.state == "held"]
    keys: list[UUID | None] = [None] * len(drafts)
    for says_the_same in (True, False):
        for n, draft in enumerate(drafts):
            for one in left:
                same = (one.destination, one.conversation) == (
                    draft.destination,
                    draft.conversation,
                )
                if keys[n] is None and (one.hash == draft.hash if says_the_same else same):
                    keys[n] = one.key
                    left.remove(one)
                    break
    return keys


def decide(
    world: World,
    turn: UUID,
    shown: str,
    decision: str,
    *,
    request: bytes,
    edited: Sequence[tuple[UUID, DraftMessage]] | None = None,
) -> str:
    """What a decision is told: what was decided, or `already`, `changed`, `not_held` or `exhausted`."""
    it, holds = world.turns[turn], world.holds.get(turn, [])
    seen = next((one for one in holds if one.hash == shown), None)
    if seen is not None and seen.request == request and seen.decision is not None:
        return seen.decision
    live = holds[-1] if it.state in WAITS else None
    if live is None:
        made = seen or next((one for one in holds if one.new_hash == shown), None)
        return "not_held" if not holds else "already" if made else "changed"
    over = it.state == "held" and it.deadline is not None and it.deadline <= world.now
    if over and live.on_deadline != "escalate":
        _expire_one(world, it, live)
        return "already" if seen is live else "changed"
    if seen is not live:
        return "changed"
    if decision == "revise" and it.revisions >= TURN_POLICY.revisions_max:
        return "exhausted"
    live.request = request
    live.decision = "edit" if edited is not None else decision
    if edited is not None:
        keys = keys_of(world, turn, [draft for _, draft in edited])
        them = [(*one, key) for one, key in zip(edited, keys, strict=True)]
        live.new_hash = _edit(world, it, live.strict, them)
    elif decision == "approve":
        _approve(world, it)
    elif decision == "reject":
        _end(world, it)
    else:
        _revise(world, it)
    return live.decision


def expire(world: World) -> None:
    """Everything whose deadline is over, or whose reminder is due: what is sent first, the longest over first."""
    over = [
        turn
        for turn in world.turns.values()
        if turn.state in WAITS and (turn.deadline or 0.0) <= world.now
    ]
    over.sort(key=lambda turn: (turn.deadline or 0.0, turn.id))
    sent = [t for t in over if t.state == "held" and world.holds[t.id][-1].on_deadline == "send"]
    for turn in (*sent, *(turn for turn in over if turn not in sent)):
        _expire_one(world, turn, world.holds[turn.id][-1])


def _expire_one(world: World, turn: Turn, live: Hold) -> None:
    if turn.state == "escalated" or live.on_deadline == "escalate":
        turn.state = "escalated"
        wait = TURN_POLICY.reminder_seconds * 2.0**live.reminders
        turn.deadline = world.now + min(wait, TURN_POLICY.reminder_seconds_max)
        live.reminders += 1
        return
    live.decision = live.on_deadline
    if live.on_deadline == "send":
        _approve(world, turn)
    else:
        _end(world, turn)


def as_kept(follow_ups: Sequence[Any], children: Sequence[UUID]) -> list[FollowUp]:
    """Follow-ups as the model keeps them, with the ids that are made for their turns."""
    return [
        FollowUp(0, position, child, one.conversation, one.delay_seconds, one.key, one.hash)
        for position, (one, child) in enumerate(zip(follow_ups, children, strict=True))
    ]
