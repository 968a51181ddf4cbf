"""What became of a turn, as whoever looks at it is shown."""

from typing import TYPE_CHECKING
from uuid import UUID

from app.engine import inspect, standing

if TYPE_CHECKING:
    from app.engine.database import Pool


class Looks:
    """Looking, over one pool."""

    __slots__ = ()

    pool: "Pool"

    async def look(self, turn: UUID) -> standing.TurnView:
        """A turn that is there for sure, as it is."""
        view = await standing.find_turn(self.pool, turn)
        assert view is not None
        return view

    async def state(self, turn: UUID) -> str:
        return (await self.look(turn)).state

    async def states(self, turn: UUID) -> list[str]:
        """The states of a turn's messages, in their order."""
        return [message.state for message in (await self.look(turn)).messages]

    async def story(self, turn: UUID) -> list[tuple[str, str | None, str]]:
        """The moves of a turn itself, in order."""
        events = await inspect.find_events(self.pool, turn, after=0, events_max=1000)
        return [(e.verb, e.from_state, e.to_state) for e in events if e.message is None]
