"""Notices: tells people, at the destinations that their queue names, of what was committed for them to be told."""

import logging

from app.core import Core
from app.domain.notice import KINDS
from app.engine.escalate import NOBODY, TOLD, Escalated, Telling, escalate
from app.engine.wake import OUTBOX

log = logging.getLogger(__name__)

# What a notice lacks where it is dropped, by its kind.
_LACKS = {"escalation": "escalate_to", "hold": "approvers", "wait": "approvers"}


class Notices:
    """Makes turns of notices. `pass_on` is one batch."""

    def __init__(self, core: Core) -> None:
        self._core = core
        # Said once: a queue that is meant to tell nobody fills no log.
        self._said: set[tuple[str, str]] = set()
        for queue in core.settings.queues:
            for kind in KINDS:
                for result in (TOLD, NOBODY):
                    # A counter that begins with its first count shows nobody that it rose.
                    core.metrics.notices.labels(queue, kind, result)

    async def pass_on(self, notices_max: int) -> Escalated:
        """Tell up to `notices_max` of what there is to tell, count it, and wake who delivers."""
        core = self._core
        done = await escalate(
            core.pool,
            routes=core.notice_routes,
            notices_max=notices_max,
            ids=core.ids,
            telling=Telling(core.notice_forms, core.settings.server.public_url),
        )
        for (queue, kind, result), count in done.results.items():
            core.metrics.notices.labels(core.queue_label(queue), kind, result).inc(count)
            if result == NOBODY:
                self._say(queue, kind)
        if any(result == TOLD for _, _, result in done.results):
            core.wakes.tell(OUTBOX)
        return done

    def _say(self, queue: str, kind: str) -> None:
        if (queue, kind) not in self._said:
            self._said.add((queue, kind))
            text = "nobody is told of this: its queue has no %s"
            log.warning(text, _LACKS[kind], extra={"queue": queue, "reason": kind})
