"""A message on its way through a channel: what an agent proposes, what it answers, where it goes, and what is sent."""

import json
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Final

from app.domain.errors import InvalidContent, Problem
from app.domain.record import record

ID_CHARACTERS_MAX: Final = 255


@record(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message as an agent proposes it, before the seal. `recipient` is its `to`; `headers` are the agent's own, not
    the channel's.
    """

    destination: str
    recipient: str | None
    headers: Mapping[str, str]
    content_type: str
    body: bytes


@record(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a message answers, as a source knows it.

    `kind` is that of the source, and `parts` name the conversation there, as that kind spells it (docs/sources.md).
    `capability` is what the provider gave to answer with, a JSON object, while it holds: until `expires_at`.
    """

    kind: str
    parts: tuple[str, ...] = ()
    capability: Mapping[str, object] | None = None
    expires_at: datetime | None = None


def is_id(part: str) -> bool:
    """Whether a part of a conversation can be sent as the id that its provider gave it.

    The provider alone knows the form of its ids. Nothing in one is invisible, and a path with it, quoted, leads nowhere
    else.
    """
    is_visible = part.isprintable() and part == part.strip()
    return is_visible and part not in {"", ".", ".."} and len(part) <= ID_CHARACTERS_MAX


@record(frozen=True, slots=True)
class Address:
    """Where one message goes, in its channel's own words: stored, shown, and covered by the hash of the seal.

    No part is a secret. With `uses_reply` the capability to answer comes with each attempt, as long as it holds.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    uses_reply: bool = False


# The destination itself is the address.
HERE = Address()


def spell_address(address: Address) -> str | None:
    """An address as it is stored; None for that of the destination itself."""
    if not address.parts:
        return None
    return json.dumps(
        dict(address.parts), ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )


def read_parts(address: str | None) -> dict[str, str]:
    """The parts of an address as it is stored; one that somebody made unreadable is its only part, `unreadable`."""
    if address is None:
        return {}
    try:
        parts = json.loads(address)
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, dict):
        return {"unreadable": address}
    return {name: str(part) for name, part in parts.items()}


def read_capability(reply: bytes | None) -> Mapping[str, object] | None:
    """What a source left to answer with; None for nothing, and for what is no JSON object."""
    try:
        value = None if reply is None else json.loads(reply)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@record(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A sealed message and the attempt that is about to be made at it.

    Everything but `attempt` (1 for the first), `attempted_at` and `reply` is the same in all attempts. All times have a
    zone and come from the database; `attempted_at` is when this attempt was recorded, and `first_attempted_at` when the
    first was. `reply` is the capability that the address uses, None once it has ended at `expires_at`.
    """

    id: str
    key: str
    destination: str
    queue: str
    conversation: str | None
    recipient: str | None
    headers: Mapping[str, str]
    content_type: str
    body: bytes
    sealed_at: datetime
    expires_at: datetime | None
    attempt: int
    attempted_at: datetime
    first_attempted_at: datetime
    address: Mapping[str, str] = field(default_factory=dict)
    reply: Mapping[str, object] | None = None

    def at(self, name: str) -> str:
        """A part of the address; raises `InvalidContent` where a message was sealed for another kind."""
        if name not in self.address:
            raise InvalidContent(Problem("/to", "to_missing"))
        return self.address[name]
