"""Where turns belong, remembered: that never changes, and every call on a turn needs it."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.api.problems import Refusal
from app.engine.inspect import Place, find_place

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.keys import Principal

PLACES_MAX: Final = 20_000


class Places:
    """The places of the turns that were asked for last."""

    def __init__(self, pool: "Pool", *, known: "OrderedDict[UUID, Place] | None" = None) -> None:
        self._pool = pool
        self._known: OrderedDict[UUID, Place] = OrderedDict() if known is None else known

    def over(self, pool: "Pool") -> "Places":
        """The same memory, and another way to the database."""
        return Places(pool, known=self._known)

    def remember(self, place: Place) -> None:
        """Keep what is known anyway."""
        self._known[place.turn] = place
        self._known.move_to_end(place.turn)
        while len(self._known) > PLACES_MAX:
            self._known.popitem(last=False)

    async def find(self, turn: UUID, *, principal: "Principal") -> Place:
        """Find a turn that this key may see; raises `Refusal` (`not_found`)."""
        place = self._known.get(turn)
        if place is None:
            place = await find_place(self._pool, turn)
            if place is None:
                raise Refusal("not_found")
            self.remember(place)
        if not principal.sees(place.queue):
            raise Refusal("not_found")
        return place
