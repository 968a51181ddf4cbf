"""The verbs whose calls share transactions when they meet: accept and seal."""

import asyncio
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from app.core import Core
from app.domain.model import Accepted, Arrival, SealRequest
from app.engine.accept import accept
from app.engine.gather import Bounds, Gatherer
from app.engine.seal import Outcome, seal

# What a message and an inbound take beside their bodies, roughly.
_OVERHEAD_BYTES: Final = 1000


class GroupCommits:
    """One for each process. `tasks` outlives every call of it."""

    def __init__(self, core: Core, *, tasks: asyncio.TaskGroup) -> None:
        self._core = core
        bounds = Bounds()
        # Apart, since joining is a transaction of its own: what is gathered is done as a whole.
        self._accept, self._join = (
            Gatherer(self._accept_all, size=_size_of_arrivals, tasks=tasks, bounds=bounds)
            for _ in range(2)
        )
        self._seal = Gatherer(self._seal_all, size=_size_of_set, tasks=tasks, bounds=bounds)

    async def accept(self, arrival: Arrival) -> Accepted:
        """Accept one arrival; see `engine.accept`."""
        gatherer = self._join if arrival.may_join else self._accept
        return (await gatherer.call((arrival,)))[0]

    async def accept_together(self, arrivals: Sequence[Arrival]) -> Sequence[Accepted]:
        """Accept all of these in one transaction, or none; see `engine.accept`."""
        joins = any(arrival.may_join for arrival in arrivals)
        return await (self._join if joins else self._accept).call(arrivals)

    async def seal(self, request: SealRequest) -> Outcome:
        """Seal one turn; see `engine.seal`."""
        return await self._seal.call(request)

    async def _accept_all(
        self, calls: Sequence[Sequence[Arrival]], lock_wait_ms: int | None
    ) -> list[Sequence[Accepted]]:
        core = self._core
        accepted = await accept(
            core.pool,
            [arrival for call in calls for arrival in call],
            ids=core.ids,
            key_seconds=core.settings.keys.idempotency_seconds,
            lock_wait_ms=lock_wait_ms,
            together=True,
        )
        ends = list(accumulate(map(len, calls), initial=0))
        return [accepted[start:end] for start, end in pairwise(ends)]

    async def _seal_all(
        self, requests: Sequence[SealRequest], lock_wait_ms: int | None
    ) -> list[Outcome]:
        core = self._core
        return await seal(
            core.urgent,
            requests,
            ids=core.ids,
            key_seconds=core.settings.keys.idempotency_seconds,
            lock_wait_ms=lock_wait_ms,
        )


def _size_of_arrivals(arrivals: Sequence[Arrival]) -> int:
    size = 0
    for one in arrivals:
        size += len(one.body) + len(one.metadata or "") + len(one.view or "") + _OVERHEAD_BYTES
    return size


def _size_of_set(request: SealRequest) -> int:
    bodies = [one.body for one in request.messages] + [one.body for one in request.follow_ups]
    return sum(len(body) + _OVERHEAD_BYTES for body in bodies)
