"""In vain: says when attempts do not deliver, and not so often that a day of outage fills a disk."""

import logging
from collections import Counter

from app.domain.model import Taken
from app.domain.outcome import Delivered, Outcome, word_of

log = logging.getLogger(__name__)


class AttemptsInVain:
    """Those of each destination since the last that delivered there."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, taken: Taken, outcome: Outcome) -> None:
        """Count an attempt that ended. The first in vain is told, and each power of two."""
        if isinstance(outcome, Delivered):
            self._counts.pop(taken.destination, None)
            return
        self._counts[taken.destination] += 1
        count = self._counts[taken.destination]
        if count.bit_count() == 1:
            told = {
                "destination": taken.destination,
                "message_id": taken.key,
                "attempt": taken.attempt,
                "outcome": word_of(outcome),
                "reason": outcome.reason,
            }
            text = "not delivered; attempts in vain since the last delivery there: %d"
            log.warning(text, count, extra=told)
