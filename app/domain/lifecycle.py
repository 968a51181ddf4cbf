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
    PARKED = "parked"  # waits for a signal or a time, without a lease: `wake`
    HELD = "held"  # its set waits for a person: `approve`, `edit`, `reject`, `revise`, or `expire`
    ESCALATED = (
        "escalated"  # its hold is past the deadline and can still be decided: a person, as before
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

    HELD = "held"  # waits for a person, with its whole set: a decision, or `expire`
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
    "park": frozenset({("processing", "parked")}),
    "wake": frozenset({("parked", "queued")}),
    "seal": frozenset(
        {("processing", "sealed"), ("processing", "held"), ("processing", "replied")}
    ),
    "approve": frozenset({("held", "sealed"), ("escalated", "sealed")}),
    "edit": frozenset({("held", "sealed"), ("escalated", "sealed")}),
    "reject": frozenset({("held", "cancelled"), ("escalated", "cancelled")}),
    "revise": frozenset(
        {
            ("held", "queued"),
            ("held", "waiting"),
            ("escalated", "queued"),
            ("escalated", "waiting"),
        }
    ),
    "expire": frozenset({("held", "escalated"), ("held", "cancelled"), ("held", "sealed")}),
    # A turn of its own, which tells somebody of another.
    "escalate": frozenset({(None, "sealed")}),
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
            ("parked", "cancelled"),
            ("held", "cancelled"),
            ("escalated", "cancelled"),
            ("failed", "cancelled"),
        }
    ),
}

MESSAGE_MOVES: Mapping[str, frozenset[Move]] = {
    "seal": frozenset({(None, "pending"), (None, "held")}),
    # An edited set is a new one: its messages are new rows, and what stays of the old one keeps its key.
    "edit": frozenset({(None, "pending"), ("held", "cancelled")}),
    "approve": frozenset({("held", "pending")}),
    "reject": frozenset({("held", "cancelled")}),
    "revise": frozenset({("held", "cancelled")}),
    "expire": frozenset({("held", "pending"), ("held", "cancelled")}),
    "escalate": frozenset({(None, "pending")}),
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
        {
            ("held", "cancelled"),
            ("pending", "cancelled"),
            ("dead", "cancelled"),
            ("unknown", "cancelled"),
        }
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
LANE_HOLDING = frozenset({TurnState.QUEUED, TurnState.PROCESSING, TurnState.PARKED})

# So it is by one in these, unless its queue frees the lane of what is held.
LANE_HOLDING_IF_KEPT = frozenset({TurnState.HELD, TurnState.ESCALATED})

# No verb that runs by itself moves a turn out of these.
TURN_ENDED = frozenset(
    {TurnState.REPLIED, TurnState.UNDELIVERED, TurnState.FAILED, TurnState.CANCELLED}
)

# A message in one of these no longer stops the ones behind it.
MESSAGE_CLOSED = frozenset({MessageState.DELIVERED, MessageState.CANCELLED})

# A message in one of these stops the later ones of its set in its lane, and no other set.
MESSAGE_STUCK = frozenset({MessageState.DEAD, MessageState.UNKNOWN})
