"""The pause in the middle: what an agent waits for under its turn's handle, and what the turn is told meanwhile."""

from datetime import datetime
from uuid import UUID

from app.domain.record import record


@record(frozen=True, slots=True)
class Parking:
    """An attempt that ends to wait for a signal of this name, `seconds` at most.

    With `payload_hash` it asks a person about that. A turn parks `parks_max` times at most. Without `seconds`, where
    nobody knows how long its queue lets it park, nothing is parked, and what was before is told.
    """

    turn: UUID
    token: UUID
    name: str
    seconds: float | None
    payload_hash: str | None
    note: str | None
    parks_max: int


@record(frozen=True, slots=True)
class Parked:
    """The turn waits, or did: `deadline_at` is None once this wait has ended. `repeated`: it had parked before."""

    state: str
    deadline_at: datetime | None
    repeated: bool = False


@record(frozen=True, slots=True)
class ParksExhausted:
    """It has parked as often as it may. Its lease is unharmed."""


@record(frozen=True, slots=True)
class NoParkSeconds:
    """Nobody says how long it may park. Its lease is unharmed."""


@record(frozen=True, slots=True)
class Signal:
    """What somebody tells a turn under a name. `may_decide`: the key it comes with has the right to decide.

    `request_hash` tells the same signal from another one.
    """

    turn: UUID
    name: str
    content_type: str | None
    body: bytes | None
    strict_json: bool
    payload_hash: str | None
    may_decide: bool
    sent_by: str | None
    sent_with: str
    request_hash: bytes


@record(frozen=True, slots=True)
class Signalled:
    """The turn has been told. `woken`: it waited for this; `duplicate`: it had been told the same before."""

    state: str
    duplicate: bool = False
    woken: bool = False


@record(frozen=True, slots=True)
class AlreadySignalled:
    """It was told something else under this name: when, and by whom."""

    state: str
    by: str
    at: datetime


@record(frozen=True, slots=True)
class PersonNeeded:
    """A person was asked, and the key has no right to decide."""


@record(frozen=True, slots=True)
class AskedOtherwise:
    """A person was asked about this, and not about what the signal names."""

    payload_hash: str
    state: str


@record(frozen=True, slots=True)
class TurnEnded:
    """No attempt of it will hear of anything any more."""

    state: str


@record(frozen=True, slots=True)
class TooManySignals:
    """It was told as much as a turn may be told."""

    state: str
