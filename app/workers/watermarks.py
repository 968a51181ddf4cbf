"""Watermarks: from when on a take looks for what is due, so that it does not step over what it has taken before.

While somebody holds an old snapshot, no vacuum takes away what a take leaves in front of the due index. Nothing leans
on a watermark: every second a look goes back to the beginning, and finds what was committed late, or was held by
somebody who let go. That look alone grows with the age of the snapshot, so it is rarer the longer it takes: what became
due unseen is passed over for `FULL_SECONDS`, and never for longer than `FULL_SECONDS_MAX`.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

# What becomes due may be seen only a moment later: when its transaction is committed.
SLACK: Final = timedelta(seconds=0.25)
FULL_SECONDS: Final = 1.0
FULL_SECONDS_MAX: Final = 10.0
# A full look takes at most so much of the time.
_FULL_SHARE: Final = 0.05


class Watermarks:
    """Those of one worker, by destination. Times are the database's."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._since: dict[str, datetime] = {}
        self._full_at = seconds()
        self._began: float | None = None

    def begin(self) -> Mapping[str, datetime]:
        """Since when each destination is to be looked at by the take that begins; nothing of those without a bound."""
        now = self._seconds()
        if now < self._full_at:
            self._began = None
            return self._since
        self._began = now
        # Unless it ends well: one that takes longer than it may would do so again.
        self._full_at = now + FULL_SECONDS_MAX
        return {}

    def end(self, latest: Mapping[str, datetime]) -> None:
        """The take has ended: `latest` is when the last that each destination gave was due."""
        if self._began is not None:
            now = self._seconds()
            rest = (now - self._began) / _FULL_SHARE
            self._full_at = now + min(max(rest, FULL_SECONDS), FULL_SECONDS_MAX)
            self._began = None
        self._since.update({name: due_at - SLACK for name, due_at in latest.items()})
