"""One attempt to send, which ends in time and in an outcome, whatever the channel does."""

import asyncio
import logging
import time
from typing import Final

from app.core import Core
from app.domain.model import Taken
from app.domain.outcome import Outcome, Unknown, word_of

log = logging.getLogger(__name__)

# What is cut may have been sent.
CUT: Final = Unknown("worker_stopped", ours=True)
# What a send may take beyond its own deadline before it is given up as hung: at most this, and half of what its lease
# has in reserve.
_OVERTIME_SECONDS_MAX: Final = 2.0


async def attempt(core: Core, taken: Taken) -> Outcome:
    """Send it once, and count that. Cancelled, it is counted as `CUT`."""
    route = core.routes[taken.destination]
    overtime = min(_OVERTIME_SECONDS_MAX, core.settings.delivery.lease_margin_seconds / 2)
    began = time.monotonic()
    outcome: Outcome = CUT
    try:
        async with asyncio.timeout(route.settings.timeout_seconds + overtime):
            outcome = await route.send(taken, wire=core.wire)
    except TimeoutError:
        outcome = Unknown("timeout")
    except Exception:
        # A channel that breaks may have sent.
        log.exception("a channel failed", extra={"destination": taken.destination})
        outcome = Unknown("channel_failed")
    finally:
        core.metrics.attempts.labels(taken.destination, word_of(outcome)).inc()
        core.metrics.attempt_seconds.labels(taken.destination).observe(time.monotonic() - began)
    return outcome
