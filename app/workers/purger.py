"""The purger: removes what ended long ago, a little at a time. Any number of them may run.

One walk goes over everything that can be over, then rests. After each step it rests for as long as keeps its share of
time, so that a busy database is asked for less. Where a walk stands is remembered in this process only: whoever begins
anew looks at everything again, and finds less.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from app.core import Core, retention_windows
from app.domain.errors import NotReady
from app.engine.expire import (
    Timed,
    Walk,
    expire_pages,
    expire_timed,
    expire_tombstones,
    extent_of,
)
from app.engine.purge import FIRST, purge
from app.engine.transaction import Busy

log = logging.getLogger(__name__)

DAY_SECONDS: Final = 86_400
# Half a megabyte: milliseconds, where little of it goes.
PAGES_MAX: Final = 64
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 10.0
# No message may be older than a year, and it does not age while it stands still.
STANDSTILL_DAYS: Final = 400

Step = Callable[[], Awaitable[bool]]


class Purger:
    """One purger. `tick` is one step of a walk."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._retention = core.settings.retention
        self._windows = retention_windows(core.settings)
        self._turn: UUID = FIRST
        self._page = 0
        self._pages: int | None = None
        self._keys_at: datetime | None = None
        self._steps = self._walk()
        self._step = next(self._steps)

    async def tick(self) -> float:
        """Do one step; a walk that has come to its end rests until the next."""
        began = time.monotonic()
        if await self._is_done():
            following = next(self._steps, None)
            if following is None:
                self._steps = self._walk()
                self._step = next(self._steps)
                return self._retention.interval_seconds
            self._step = following
        worked = time.monotonic() - began
        rest = worked * (1 / self._retention.share_max - 1)
        return min(max(rest, PAUSE_SECONDS), PAUSE_SECONDS_MAX)

    async def _is_done(self) -> bool:
        """Do one step. What fails is left to the next walk, so that it keeps nothing else."""
        try:
            return await self._step()
        except Busy:
            log.warning("held by somebody else", extra={"loop": "purge"})
        except NotReady:
            raise
        except Exception:
            log.exception("a step failed", extra={"loop": "purge"})
        self._pages = None
        return True

    def _walk(self) -> Iterator[Step]:
        """Turns before their keys, keys before their tombstones, and inbound before the lanes they were in."""
        days: Mapping[Timed, int] = {
            "differing": self._core.settings.keys.idempotency_days,
            "loopback": self._retention.loopback_days,
            "operation": self._retention.operations_days,
            "schedule": self._core.settings.keys.idempotency_days,
            "standstill": STANDSTILL_DAYS,
        }
        yield self._turns
        yield self._pages_of("idempotency_key")
        yield self._tombstones
        yield self._pages_of("lane")
        yield self._pages_of("delivery_lane")
        for table, kept in days.items():
            yield self._timed(table, kept * DAY_SECONDS)

    async def _turns(self) -> bool:
        done = await purge(
            self._core.pool,
            windows=self._windows,
            after=self._turn,
            rows_max=self._retention.batch_max,
        )
        for kind, rows in done.counts.items():
            self._count(kind, rows)
        if done.failed:
            fields = {"count": len(done.failed), "error": type(done.failed[0]).__name__}
            log.error("some could not be purged", extra=fields, exc_info=done.failed[0])
        self._turn = done.after or FIRST
        return done.after is None

    def _pages_of(self, table: Walk) -> Step:
        async def step() -> bool:
            if self._pages is None:
                extent = await extent_of(self._core.pool, table)
                self._page, self._pages = 0, extent.pages
                if table == "idempotency_key":
                    self._keys_at = extent.at
            behind = min(self._page + PAGES_MAX, self._pages)
            if self._page < behind:
                rows = await expire_pages(self._core.pool, table, first=self._page, behind=behind)
                self._count(table, rows)
                self._page = behind
            if behind < self._pages:
                return False
            self._pages = None
            return True

        return step

    async def _tombstones(self) -> bool:
        if self._keys_at is None:
            return True
        most = self._retention.batch_max
        rows = await expire_tombstones(self._core.pool, until=self._keys_at, rows_max=most)
        self._count("tombstone", rows)
        return rows < most

    def _timed(self, table: Timed, seconds: float) -> Step:
        async def step() -> bool:
            most = self._retention.batch_max
            rows = await expire_timed(self._core.pool, table, seconds=seconds, rows_max=most)
            self._count(table, rows)
            return rows < most

        return step

    def _count(self, kind: str, rows: int) -> None:
        if rows:
            self._core.metrics.purged.labels(kind).inc(rows)
