"""A provider's items as inbound: named within their source, with what is kept beside their bytes."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Final

from app.core import Core, Intake
from app.domain.blot import NotBlotted, blot
from app.domain.conversation import spell_conversation
from app.domain.media import reads_as_json
from app.domain.model import Arrival, Joining
from app.domain.webhook import Attachment, Batch, Item, Refused, Result, body_key
from app.settings import Settings

TEXT_CHARACTERS_MAX: Final = 10_000
JOINED_MAX: Final = 100
ATTACHMENTS_MAX: Final = 20
_FIELD_CHARACTERS_MAX: Final = 2000
_KEY: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


def arrivals_of(
    core: Core, intake: Intake, batch: Batch, headers: Mapping[str, str]
) -> list[Arrival]:
    """The inbound of a batch, in order; raises `Refused` where leave to answer could not be blotted out."""
    kept = {name: headers[name] for name in intake.provider.keeps if name in headers}
    facts = _ENCODER.encode(dict(batch.facts)) if batch.facts else None
    return [_arrival(core, intake, item, headers=kept, facts=facts) for item in batch.items]


def _arrival(
    core: Core, intake: Intake, item: Item, *, headers: Mapping[str, str], facts: str | None
) -> Arrival:
    source = intake.settings
    conversation = _conversation(intake.name, item.conversation)
    key, *also = (_key(one) for one in item.keys)
    body = _blotted(item)
    reply = item.reply
    return Arrival(
        scope=scope_of(intake.name),
        key=key,
        also=tuple(also),
        # Of what was sent, whatever is blotted out of it.
        body_hash=hashlib.sha256(item.body if item.compared is None else item.compared).digest(),
        queue=source.queue,
        source=intake.name,
        conversation=conversation,
        content_type=item.content_type,
        body=body,
        strict_json=reads_as_json(body, content_type=item.content_type),
        headers=headers,
        metadata=facts,
        priority=source.priority,
        joining=joining_of(core.settings, source.queue),
        view=_view(item, conversation),
        reply=None if reply is None else _ENCODER.encode({**reply.facts, **reply.secrets}).encode(),
        reply_expires_at=None if reply is None else reply.expires_at,
    )


def joining_of(settings: Settings, queue: str) -> Joining | None:
    """How inbound of a queue share a turn, where they do."""
    policy = settings.queues[queue]
    if policy.coalesce_quiet_seconds is None:
        return None
    return Joining(
        quiet_seconds=policy.coalesce_quiet_seconds,
        seconds_max=policy.longest_coalesce_seconds,
        inbound_max=JOINED_MAX,
        # Joined turns fit into the answer of one claim.
        bytes_max=settings.limits.answer_bytes_max,
    )


def scope_of(source: str) -> str:
    """What the keys of a source are unique in."""
    return f"source/{source}"


def _key(key: str) -> str:
    """A key as it is; its hash where it is too long or no text that can be shown."""
    return key if _KEY.fullmatch(key) else body_key(key.encode("utf-8", "surrogatepass"))


def _conversation(source: str, parts: tuple[str, ...]) -> str | None:
    if not parts:
        return None
    try:
        return spell_conversation(source, *parts)
    except ValueError:
        whole = "\x00".join(parts).encode("utf-8", "surrogatepass")
        return spell_conversation(source, hashlib.sha256(whole).hexdigest())


def _blotted(item: Item) -> bytes:
    if item.reply is None:
        return item.body
    try:
        return blot(item.body, item.reply.secrets.values())
    except NotBlotted:
        raise Refused(Result.MALFORMED, "capability_hidden") from None


def _view(item: Item, conversation: str | None) -> str:
    view = item.view
    return _ENCODER.encode(
        {
            "text": view.text[:TEXT_CHARACTERS_MAX] or None,
            "sender": view.sender[:_FIELD_CHARACTERS_MAX] or None,
            "conversation": conversation,
            "attachments": [_attachment(one) for one in view.attachments[:ATTACHMENTS_MAX]],
        }
    )


def _attachment(one: Attachment) -> dict[str, str]:
    fields = {
        "kind": one.kind,
        "id": one.id,
        "url": one.url,
        "name": one.name,
        "content_type": one.content_type,
    }
    return {name: value[:_FIELD_CHARACTERS_MAX] for name, value in fields.items() if value}
