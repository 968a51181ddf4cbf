"""What the messages of a turn answer: where they go when they name no destination, and what their channel may use.

Looked up only for sets that need it: a message without a destination, or for a channel that can answer a source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from app.api.calls import Api
from app.channels import Reply
from app.domain.conversation import UnreadableKey, key_within, read_key
from app.domain.message import read_capability
from app.engine.inspect import Place
from app.engine.origin import Origin, find_origin
from app.settings import Source


@dataclass(frozen=True, slots=True)
class Answering:
    """Where a turn came from, with the sources that are configured here. Without an origin it answers nobody."""

    conversation: str | None = None
    origin: Origin | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)

    @property
    def destination(self) -> str | None:
        """Where a message goes that names no destination: the `reply_to` of its source."""
        name = None if self.origin is None else self._source_of(self.conversation)
        return None if name is None else self.sources[name].reply_to

    @property
    def reply_of(self) -> UUID | None:
        """The inbound whose capability `reply` gives."""
        return None if self.origin is None else self.origin.reply_of

    @property
    def expires_at(self) -> datetime | None:
        """Until when that capability holds."""
        return None if self.origin is None else self.origin.expires_at

    def reply(self, conversation: str | None) -> Reply | None:
        """What a message in `conversation` answers. The capability is for the turn's own alone."""
        own = conversation == self.conversation
        if own and self.origin is None:
            return None
        name = self._source_of(conversation)
        if name is None:
            return None
        kind, origin = self.sources[name].kind, self.origin if own else None
        parts = _parts(conversation, source=name)
        if origin is None or origin.reply is None:
            return Reply(kind=kind, parts=parts)
        capability = read_capability(origin.reply)
        return Reply(kind=kind, parts=parts, capability=capability, expires_at=origin.expires_at)

    def _source_of(self, conversation: str | None) -> str | None:
        """Who brought a conversation: the source of the turn, or the one that its name begins with."""
        if conversation == self.conversation and self.origin and self.origin.source in self.sources:
            return self.origin.source
        if conversation is None:
            return None
        named = [name for name in self.sources if conversation.startswith(f"{name}:")]
        return max(named, key=len, default=None)


async def find_answering(api: Api, messages: Sequence[object], *, place: Place) -> Answering:
    """What the messages of a turn answer, if any of them asks for it."""
    sources = api.core.settings.sources
    if not sources or not any(_asks(api, message) for message in messages):
        return Answering(place.conversation)
    origin = await find_origin(api.core.urgent, place.turn, sources=frozenset(sources))
    return Answering(place.conversation, origin, sources)


def _asks(api: Api, message: Any) -> bool:
    name = message.get("destination")
    if name is None:
        return True
    route = api.core.routes.get(name) if isinstance(name, str) else None
    return route is not None and bool(route.channel.answers)


def _parts(conversation: str | None, *, source: str) -> tuple[str, ...]:
    key = None if conversation is None else key_within(conversation, source=source)
    if key is None:
        return ()
    try:
        return read_key(key)
    except UnreadableKey:
        return ()
