"""Message sets: each message gets its place among those before it, in its set and in its lane of deliveries.

What is given at once is given in one order, whoever lets it go: a seal, a person, or a deadline.
"""

import json
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from app.domain.ids import MESSAGE_PREFIX, format_id
from app.domain.model import DraftMessage
from app.domain.record import record
from app.engine.statements import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.engine.statements import Link

SQL = load(__file__)

T = TypeVar("T")

# A queue, a conversation and a destination.
DeliveryLane = tuple[str, str, str]


@record(frozen=True, slots=True)
class Standing:
    """A message that stands somewhere in a set: all that decides about its place."""

    id: UUID
    turn: UUID
    queue: str
    conversation: str | None
    destination: str
    strict: bool

    @property
    def lane(self) -> DeliveryLane | None:
        """Its lane of deliveries, over the borders of turns; None without a conversation."""
        if self.conversation is None:
            return None
        return (self.queue, self.conversation, self.destination)


@record(frozen=True, slots=True)
class Placed:
    """A message with its place. `behind` is its predecessor, where the same call gives places to both: in its lane, or
    in its set where order is strict.
    """

    standing: Standing
    place: int | None
    behind: UUID | None


@record(frozen=True, slots=True)
class NewMessage:
    """A message to be recorded. Held, it has no place yet."""

    placed: Placed
    seal: int
    position: int
    draft: DraftMessage
    key: str
    state: str = field(default="pending")


@record(frozen=True, slots=True)
class Moved:
    """What became of a move: how long the turn was held by who seals it, and whether it gave its lane to another."""

    held_seconds: float
    promotes: bool


@record(frozen=True, slots=True)
class Move:
    """A turn that leaves processing with its set. `deadline_seconds` is how long the set waits for a person."""

    turn: UUID
    token: UUID
    state: str
    request_hash: bytes
    payload_hash: bytes
    deadline_seconds: float | None
    leaves_lane: bool


def own_key(message: UUID) -> str:
    """A message's idempotency key is its own id, unless it replaces another: it needs none, and can never change."""
    return format_id(MESSAGE_PREFIX, message)


def give_places(
    messages: Sequence[Standing], tails: "Mapping[DeliveryLane, int]"
) -> dict[UUID, Placed]:
    """Give places to whole sets: the messages of each in their order, the sets in that of the call.

    `tails` are the last places before. Without a conversation the set is the lane.
    """
    next_place = dict(tails)
    last: dict[tuple[object, str | None, str], UUID] = {}
    placed: dict[UUID, Placed] = {}
    before: Standing | None = None
    for message in messages:
        place = None
        if message.lane is not None:
            place = next_place[message.lane] = next_place[message.lane] + 1
        scope = message.turn if message.conversation is None else message.queue
        after = (scope, message.conversation, message.destination)
        in_set = message.strict and before is not None and before.turn == message.turn
        behind = before.id if in_set and before is not None else last.get(after)
        placed[message.id] = Placed(message, place, behind)
        last[after] = message.id
        before = message
    return placed


def unplaced(messages: Sequence[Standing]) -> dict[UUID, Placed]:
    """Messages that wait for a decision stand nowhere."""
    return {message.id: Placed(message, None, None) for message in messages}


async def enter_lanes(
    connection: "Link", messages: Sequence[Standing]
) -> "dict[DeliveryLane, int]":
    """Lock the delivery lanes of these messages, in order, with room for them; returns the last place before it."""
    lanes = [message.lane for message in messages if message.lane is not None]
    if not lanes:
        return {}
    rows = await SQL["enter_delivery_lanes"].rows(
        connection,
        queues=[queue for queue, _, _ in lanes],
        conversations=[conversation for _, conversation, _ in lanes],
        destinations=[destination for _, _, destination in lanes],
    )
    return {(row["queue"], row["conversation"], row["destination"]): row["tail"] for row in rows}


async def record_sets(
    connection: "Link", moves: "Sequence[Move]", messages: Sequence[NewMessage], *, verb: str
) -> dict[UUID, Moved]:
    """Seal turns, free the lanes that they leave, and record the messages of sets; `verb` is what records them.

    Returns what became of each turn. Its caller holds the locks on all of them.
    """
    drafts = [message.draft for message in messages]
    standing = [message.placed.standing for message in messages]
    rows = await SQL["record_sets"].rows(
        connection,
        turns=[move.turn for move in moves],
        tokens=[move.token for move in moves],
        request_hashes=[move.request_hash for move in moves],
        payload_hashes=[move.payload_hash for move in moves],
        turn_states=[move.state for move in moves],
        deadlines=_sparse([move.deadline_seconds for move in moves]),
        leave_lane=[move.leaves_lane for move in moves],
        messages=[one.id for one in standing],
        message_turns=[one.turn for one in standing],
        seals=[message.seal for message in messages],
        positions=[message.position for message in messages],
        queues=[one.queue for one in standing],
        conversations=_sparse([one.conversation for one in standing]),
        destinations=[one.destination for one in standing],
        places=_sparse([message.placed.place for message in messages]),
        behind=_sparse([message.placed.behind for message in messages]),
        strict=_sparse([one.strict or None for one in standing]),
        states=[message.state for message in messages],
        delays=_sparse([draft.delay_seconds or None for draft in drafts]),
        keys=[message.key for message in messages],
        recipients=_sparse([draft.recipient for draft in drafts]),
        headers=_sparse(
            [json.dumps(dict(draft.headers)) if draft.headers else None for draft in drafts]
        ),
        content_types=[draft.content_type for draft in drafts],
        bodies=[draft.body for draft in drafts],
        hashes=[draft.hash for draft in drafts],
        addresses=_sparse([draft.address for draft in drafts]),
        replies_of=_sparse([draft.reply_of for draft in drafts]),
        expiries=_sparse([draft.expires_at for draft in drafts]),
        paces=_sparse([draft.pace_seconds or None for draft in drafts]),
        verb=verb,
    )
    return {row["turn"]: Moved(row["held_seconds"], row["promotes"]) for row in rows}


def _sparse(values: list[T | None]) -> list[T | None] | None:
    """No array instead of one without a value: its driver looks at each element, and unnest makes the same of both."""
    return None if all(value is None for value in values) else values


async def let_messages_go(
    connection: "Link", messages: Sequence[Placed], verbs: "Mapping[UUID, str]"
) -> None:
    """Held messages become pending at their places; `verbs` is what lets the set of each turn go."""
    await SQL["let_messages_go"].run(
        connection,
        messages=[message.standing.id for message in messages],
        places=[message.place for message in messages],
        behind=[message.behind for message in messages],
        verbs=[verbs[message.standing.turn] for message in messages],
    )
