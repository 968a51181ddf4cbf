"""Names: what open rows name and nobody configured here is told, counted and shown. It waits, and never dies.

Replicas that are configured differently are no fault by themselves: another one may know the name.
"""

import asyncio
import logging

from app.core import Core
from app.engine.overview import names_in_use

log = logging.getLogger(__name__)

# Intervals of the sweep between two looks, while anything happens and while nothing does.
EVERY_INTERVALS = 5
EVERY_INTERVALS_QUIET = 30
TOLD_MAX = 20


class Names:
    """Looks, and tells of each name once as long as it stays unknown. `tick` is one look."""

    def __init__(self, core: Core, stirred: asyncio.Event | None = None) -> None:
        self._core = core
        interval = core.settings.sweep.interval_seconds
        self.rest_seconds = EVERY_INTERVALS * interval
        self._quiet_seconds = EVERY_INTERVALS_QUIET * interval
        # Set by whatever is told to anybody: only then rows name something new.
        self._stirred = stirred or asyncio.Event()

    async def tick(self) -> float:
        """Compare what rows name with what is configured here."""
        core = self._core
        self._stirred.clear()
        for kind, named in (await names_in_use(core.pool)).items():
            unknown = sorted(named - core.configured[kind])
            core.metrics.unconfigured.labels(kind).set(len(unknown))
            new = [name for name in unknown if name not in core.unconfigured.get(kind, ())]
            for name in new[:TOLD_MAX]:
                log.warning(
                    "work waits for a %s that is not configured here", kind, extra={kind: name}
                )
            core.unconfigured[kind] = unknown
        return self._quiet_seconds if core.wakes.listening else self.rest_seconds
