"""What a seal asks for later, read and addressed: to its own queue and conversation, unless the queue allows others."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from app.api.arrivals import KEY
from app.api.fields import Fields, moment
from app.api.payloads import read_payload
from app.domain.json_text import Kind
from app.domain.media import reads_as_json
from app.domain.model import DraftFollowUp
from app.domain.seal import follow_up_hash
from app.engine.follow_ups import Depth
from app.engine.inspect import Place
from app.engine.keys import Principal
from app.settings import Limits, Settings

FOLLOW_UP: Final = {
    "queue": Kind.VALUE,
    "conversation": Kind.VALUE,
    "payload": Kind.RAW,
    "payload_base64": Kind.VALUE,
    "content_type": Kind.VALUE,
    "delay_seconds": Kind.VALUE,
    "not_before": Kind.VALUE,
    "key": Kind.VALUE,
}


@dataclass(frozen=True, slots=True)
class Reach:
    """How far what a turn seals may go: to which queues and conversations, how deep, and how far ahead."""

    place: Place
    queues: frozenset[str]
    any_conversation: bool
    limits: Limits
    depth: Depth | None

    def conversation(self, fields: Fields, against: Fields) -> str | None:
        """The conversation that an item names, or else that of the turn; one that is not allowed is noted."""
        named = fields.name("conversation", code="conversation_invalid")
        if named not in (None, self.place.conversation) and not self.any_conversation:
            against.refuse("conversation", "conversation_not_allowed")
        return self.place.conversation if named is None else named


def reach_of(
    settings: Settings, place: Place, *, principal: Principal, depth: Depth | None = None
) -> Reach:
    """How far a set of this place's turn may go, for whoever this key is. Follow-ups need the `depth` of the turn."""
    queue = settings.queues.get(place.queue)
    others = frozenset((queue and queue.follow_up_queues) or ()) & settings.queues.keys()
    return Reach(
        place=place,
        queues=frozenset(name for name in others if principal.sees(name)) | {place.queue},
        any_conversation=queue is not None and queue.conversations == "any",
        limits=settings.limits,
        depth=depth,
    )


def read_follow_up(fields: Fields, against: Fields, reach: Reach) -> DraftFollowUp | None:
    """One follow-up, unless it is wrong in itself. What the configuration says is noted in `against`."""
    queue = _queue(fields, against, reach)
    conversation = reach.conversation(fields, against)
    payload = read_payload(fields)
    delay = fields.seconds("delay_seconds", seconds_max=reach.limits.delay_seconds_max)
    not_before = moment(fields, "not_before", fields.values.get("not_before"))
    if not_before is not None:
        if fields.values.get("delay_seconds") is not None:
            fields.refuse("not_before", "delay_ambiguous")
        latest = timedelta(seconds=reach.limits.delay_seconds_max)
        if reach.depth is not None and not_before - reach.depth.now > latest:
            against.refuse("not_before", "out_of_range")
    key = fields.string("key")
    if key is not None and KEY.fullmatch(key) is None:
        fields.refuse("key", "idempotency_key_invalid", "1 to 255 visible ASCII characters")
    if queue is None or payload is None:
        return None
    content_type, body = payload
    try:
        digest = follow_up_hash(
            queue=queue,
            conversation=conversation,
            key=key,
            content_type=content_type,
            delay_seconds=delay,
            not_before=not_before,
            body=body,
        )
    except UnicodeEncodeError:
        # Half a character, which was noted as wrong.
        return None
    return DraftFollowUp(
        queue=queue,
        conversation=conversation,
        content_type=content_type,
        body=body,
        strict_json=reads_as_json(body, content_type=content_type),
        delay_seconds=delay,
        not_before=not_before,
        key=key,
        hash=digest,
    )


def _queue(fields: Fields, against: Fields, reach: Reach) -> str | None:
    if fields.values.get("queue") is None:
        return reach.place.queue
    queue = fields.string("queue")
    if queue is not None and queue not in reach.queues:
        # An unknown queue, one that the key may not see, and one that is not allowed are the same.
        against.refuse("queue", "queue_unknown")
    return queue
