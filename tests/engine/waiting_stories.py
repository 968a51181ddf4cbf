"""Parks and signals, with what a test does not care about filled in."""

import hashlib
from typing import TYPE_CHECKING, Any
from uuid import UUID

from app.domain.model import Claimed, Parked, Parking, Signal, Signalled
from app.engine import park as parks
from app.engine import signal as signals
from app.engine import wake_parked as waking
from tests.engine.sweeping_stories import raise_first

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.conftest import Travel
    from tests.engine.stories import Sink

DAY = 86_400.0


def parking(held: Claimed, name: str = "answer", **changes: Any) -> Parking:
    """The park of a held turn that waits a day for a signal of this name."""
    fields: dict[str, Any] = {"seconds": DAY, "payload_hash": None, "note": None}
    return Parking(held.turn, held.token, name, **{**fields, "parks_max": 100, **changes})


def telling(turn: UUID, name: str = "answer", said: str = '"yes"', **changes: Any) -> Signal:
    """A signal to a turn, from somebody who has no right to decide unless told otherwise."""
    fields: dict[str, Any] = {
        "content_type": "application/json",
        "body": said.encode(),
        "strict_json": True,
        "payload_hash": None,
        "may_decide": False,
        "sent_by": None,
        "sent_with": "key-1",
        **changes,
    }
    spelled = repr((fields["content_type"], fields["body"], fields["payload_hash"]))
    digest = hashlib.sha256(spelled.encode()).digest()
    return Signal(turn, name, **fields, request_hash=digest)


class Waits:
    """The verbs of turns that wait for an event, over one pool."""

    __slots__ = ()

    pool: "Pool"

    async def park(self, *parkings: Parking) -> list[parks.Outcome]:
        return await parks.park(self.pool, parkings)

    async def park_one(self, held: Claimed, name: str = "answer", **changes: Any) -> str:
        """Park one turn that is held for sure; returns its state."""
        (outcome,) = await self.park(parking(held, name, **changes))
        assert isinstance(outcome, Parked)
        return outcome.state

    async def signal(self, *told: Signal) -> list[signals.Outcome]:
        return await signals.signal(self.pool, told)

    async def signal_one(
        self, turn: UUID, name: str = "answer", said: str = '"yes"', **changes: Any
    ) -> Signalled:
        """Tell a turn something that it may be told for sure."""
        (outcome,) = await self.signal(telling(turn, name, said, **changes))
        assert isinstance(outcome, Signalled)
        return outcome

    async def wake_parked(self, turns_max: int = 100) -> dict[str, int]:
        swept = await waking.wake_parked(self.pool, turns_max=turns_max)
        raise_first(swept.failed)
        return dict(swept.states)


async def overdue(sink: "Sink", travel: "Travel") -> Claimed:
    """A parked turn whose deadline is past, and nobody has looked yet: the lease that it had."""
    held = await sink.parked("a", "c")
    await travel(DAY + 1)
    return held
