"""The states of a turn and of an outbox message, and every move between them: declared once, here.

SQL performs the moves, CHECK constraints shape them, and a test runs every verb against every state and demands that
what it saw equals what stands here. Metric labels, the OpenAPI enums and docs/lifecycle.md derive from it.
"""

from collections.abc import Mapping
from enum import StrEnum


class TurnState(StrEnum):
    """Where a turn is. The comment says who moves it on."""

    SCHEDULED = "scheduled"  # not due yet, or from a paused source: `due`, when the clock or a person says so
    WAITING = "waiting"  # due, and its lane is taken: `promote`, by whoever frees the lane
    QUEUED = "queued"  # the head of its lane, perhaps backing off: `claim`
    PROCESSING = (
        "processing"  # an agent holds it under a lease: `seal`, `release`, `fail`, or `sweep`
    )
    SEALED = "sealed"  # its set is recorded and being delivered: `settle`
    REPLIED = "replied"  # every message is confirmed: the end
    UNDELIVERED = "undelivered"  # nothing of its set can move by itself: a late fact, or a person
    FAILED = (
        "failed"  # out of attempts or releases, too old, or failed for good: a person, by `redrive`
    )
    CANCELLED = "cancelled"  # a person wanted it no more: the end


class MessageState(StrEnum):
    """Where an outbox message is. The comment says who moves it on."""

    PENDING = "pending"  # waits for its time, its predecessor or a free worker: `take`
    SENDING = "sending"  # an attempt is recorded and runs under a lease: `settle`, or `sweep`
    DELIVERED = "delivered"  # the destination confirmed it: the end
    DEAD = "dead"  # it certainly did not arrive and will not: a late fact as a guard, or a person
    UNKNOWN = "unknown"  # it may have arrived and is not repeated: a late fact, or a person
    CANCELLED = "cancelled"  # a person wanted it no more: a late fact, if it was on its way


Move = tuple[str | None, str]

TURN_MOVES: Mapping[str, frozenset[Move]] = {
    "accept": frozenset({(None, "queued"), (None, "waiting"), (None, "scheduled")}),
    "join": frozenset({("queued", "queued"), ("waiting", "waiting")}),
    "due": frozenset({("scheduled", "queued"), ("scheduled", "waiting")}),
    "promote": frozenset({("waiting", "queued")}),
    "claim": frozenset({("queued", "processing"), ("queued", "failed")}),
    "renew": frozenset({("processing", "processing")}),
    "release": frozenset({("processing", "queued"), ("processing", "failed")}),
    "fail": frozenset({("processing", "queued"), ("processing", "failed")}),
    "seal": frozenset({("processing", "sealed"), ("processing", "replied")}),
    "sweep": frozenset({("processing", "queued"), ("processing", "failed")}),
    "settle": frozenset(
        {
            ("sealed", "replied"),
            ("sealed", "undelivered"),
            ("undelivered", "replied"),
            ("undelivered", "sealed"),
        }
    ),
    "redrive": frozenset({("failed", "queued"), ("failed", "waiting"), ("undelivered", "sealed")}),
    "cancel": frozenset(
        {
            ("scheduled", "cancelled"),
            ("waiting", "cancelled"),
            ("queued", "cancelled"),
            ("processing", "cancelled"),
            ("failed", "cancelled"),
        }
    ),
}

MESSAGE_MOVES: Mapping[str, frozenset[Move]] = {
    "seal": frozenset({(None, "pending")}),
    "take": frozenset({("pending", "sending"), ("pending", "dead"), ("pending", "unknown")}),
    "settle": frozenset(
        {
            ("sending", "delivered"),
            ("sending", "pending"),
            ("sending", "dead"),
            ("sending", "unknown"),
            ("sending", "cancelled"),
        }
    ),
    "sweep": frozenset({("sending", "pending"), ("sending", "unknown"), ("sending", "cancelled")}),
    "redrive": frozenset({("dead", "pending"), ("unknown", "pending")}),
    "resolve": frozenset({("unknown", "delivered"), ("unknown", "cancelled")}),
    "cancel": frozenset(
        {("pending", "cancelled"), ("dead", "cancelled"), ("unknown", "cancelled")}
    ),
    # An attempt of its own, which moves neither the message nor its turn.
    "resend": frozenset({("delivered", "delivered")}),
    "fact": frozenset(
        {
            ("cancelled", "delivered"),
            ("pending", "delivered"),
            ("sending", "delivered"),
            ("unknown", "delivered"),
            ("dead", "delivered"),
        }
    ),
}

# The lane of a conversation is taken by a turn in one of these states, and free from the seal on.
LANE_HOLDING = frozenset({TurnState.QUEUED, TurnState.PROCESSING})

# No verb that runs by itself moves a turn out of these.
TURN_ENDED = frozenset(
    {TurnState.REPLIED, TurnState.UNDELIVERED, TurnState.FAILED, TurnState.CANCELLED}
)

# A message in one of these no longer stops the ones behind it.
MESSAGE_CLOSED = frozenset({MessageState.DELIVERED, MessageState.CANCELLED})

# A message in one of these stops the later ones of its set in its lane, and no other set.
MESSAGE_STUCK = frozenset({MessageState.DEAD, MessageState.UNKNOWN})
