"""One attempt to send, which ends in time and in an outcome, whatever the channel does.

Where a destination can be asked, an attempt that may have arrived is looked for before another one is made: under the
same lease, so that nobody sends meanwhile.
"""

import asyncio
import logging
import time
from typing import Final, assert_never, cast

from app.core import Core, Route
from app.domain.model import Taken
from app.domain.outcome import Delivered, NotThere, Outcome, RetryLater, Unknown, word_of

log = logging.getLogger(__name__)

# What is cut may have been sent.
CUT: Final = Unknown("worker_stopped", ours=True)
# What a send may take beyond its own deadline before it is given up as hung: at most this, and half of what its lease
# has in reserve.
_OVERTIME_SECONDS_MAX: Final = 2.0


class _Limit:
    """Cancels the task in which it was made when its time is over, as `asyncio.timeout` does."""

    __slots__ = ("_cancelling", "_is_over", "_task")

    def __init__(self) -> None:
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._cancelling = self._task.cancelling()
        self._is_over = False

    def expire(self) -> None:
        self._is_over = True
        self._task.cancel()

    def is_why(self) -> bool:
        """Take back what it has cancelled; whether nobody else has wanted the task to end."""
        if not self._is_over:
            return False
        self._is_over = False
        return self._task.uncancel() <= self._cancelling


async def attempt(core: Core, taken: Taken) -> Outcome:
    """Send it once, or learn that this has been done, and count that. Cancelled, it is counted as `CUT`."""
    route = core.routes[taken.destination]
    overtime = min(_OVERTIME_SECONDS_MAX, core.settings.delivery.lease_margin_seconds / 2)
    looks_up = route.looks_up and taken.may_have_arrived
    seconds = route.attempt_seconds if looks_up else route.settings.timeout_seconds
    began = time.monotonic()
    outcome: Outcome = CUT
    limit = _Limit()
    core.attempt_limits.add(limit, asyncio.get_running_loop().time() + seconds + overtime)
    try:
        found = await _look_up(core, route, taken) if looks_up else None
        outcome = found or await route.send(taken, wire=core.wire)
    except TimeoutError:
        outcome = Unknown("timeout")
    except asyncio.CancelledError:
        if not limit.is_why():
            raise
        outcome = Unknown("timeout")
    except Exception:
        # A channel that breaks may have sent.
        log.exception("a channel failed", extra={"destination": taken.destination})
        outcome = Unknown("channel_failed")
    finally:
        core.attempt_limits.remove(limit)
        limit.is_why()
        core.metrics.attempts.labels(taken.destination, word_of(outcome)).inc()
        core.metrics.attempt_seconds.labels(taken.destination).observe(time.monotonic() - began)
    return outcome


async def _look_up(core: Core, route: Route, taken: Taken) -> Outcome | None:
    """What became of the earlier attempts; None where it is certain that none arrived, or a person wants it sent."""
    found = await route.lookup(taken, wire=core.wire)
    count = core.metrics.lookups
    match found:
        case Delivered(receipt, answer):
            count.labels(taken.destination, "there").inc()
            return Delivered(receipt, answer, reason="looked_up")
        case NotThere():
            count.labels(taken.destination, "not_there").inc()
            return None
        case RetryLater() | Unknown():
            count.labels(taken.destination, "unanswered").inc()
        case _:
            assert_never(found)
    if taken.is_wanted:
        return None
    if isinstance(found, Unknown):
        return Unknown(found.reason, found.answer, ours=True, held=True)
    return found
