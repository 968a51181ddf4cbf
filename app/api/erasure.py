"""Erasure over HTTP: a conversation is forgotten, step by step, until the answer says that it is done."""

import logging
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import json_answer
from app.api.arrivals import DEFAULT_QUEUE
from app.api.calls import Api
from app.api.fields import Fields
from app.api.problems import Refusal
from app.core import retention_windows
from app.domain.json_text import Kind, parse_envelope
from app.engine.erase import Conversation, Erased, StillLive, erase
from app.engine.keys import Principal
from app.engine.operation import queue_is_known
from app.engine.purge import FIRST
from app.engine.wake import OUTBOX, queue_topic

CURSOR_BYTES_MAX: Final = 36

_SHAPE: Final = {
    "queue": Kind.VALUE,
    "conversation": Kind.VALUE,
    "cancel": Kind.VALUE,
    "cursor": Kind.VALUE,
}

log = logging.getLogger(__name__)


async def erase_conversation(api: Api, request: Request, principal: Principal) -> Response:
    """Remove what a conversation said and was told. What has not ended is cancelled before, if that is wished."""
    fields = Fields(parse_envelope(await api.body(request), _SHAPE))
    queue = fields.name("queue") or DEFAULT_QUEUE
    name = fields.name("conversation", code="conversation_invalid", required=True)
    cancel = fields.flag("cancel")
    after = _after(fields)
    fields.check()
    # A misspelt one must not look like one whose conversation is gone.
    known = queue in api.core.settings.queues or await queue_is_known(api.core.pool, queue)
    if not (known and principal.sees(queue)):
        fields.refuse("queue", "queue_unknown")
    fields.check()
    settings = api.core.settings.queues.get(queue)
    conversation = Conversation(
        queue=queue,
        name=name or "",
        # Whoever may have written into it is looked for, too.
        is_open=settings is None or settings.conversations == "any",
    )
    outcome = await erase(
        api.core.pool,
        conversation,
        windows=retention_windows(api.core.settings),
        cancel=cancel,
        by=principal.key_id,
        after=after,
    )
    if cancel:
        api.core.wakes.tell(queue_topic(queue), OUTBOX)
    if isinstance(outcome, StillLive):
        code = "conversation_sending" if cancel and outcome.sending else "conversation_live"
        raise Refusal(code, members={"live": outcome.live, "sending": outcome.sending})
    for kind, rows in outcome.counts.items():
        api.core.metrics.purged.labels(kind).inc(rows)
    told = {"queue": queue, "count": outcome.counts["turn"]}
    log.info("a conversation was erased", extra=told)
    return json_answer(_fields(outcome))


def _after(fields: Fields) -> UUID:
    text = fields.text("cursor", bytes_max=CURSOR_BYTES_MAX)
    if text is None:
        return FIRST
    try:
        return UUID(text)
    except ValueError:
        fields.refuse("cursor", "cursor_invalid")
        return FIRST


def _cursor(after: UUID) -> str | None:
    """Where it goes on: by the whole millisecond, since what stands there may be another queue's."""
    return None if after == FIRST else str(UUID(int=after.int >> 80 << 80))


def _fields(erased: Erased) -> dict[str, object]:
    counts = erased.counts
    return {
        "done": erased.is_done,
        "next_cursor": _cursor(erased.after),
        "turns": counts["turn"],
        "inbound": counts["inbound"],
        "attempts": counts["attempt"],
        "messages": counts["message"],
        "events": counts["event"],
        "loopback": counts["loopback"],
    }
