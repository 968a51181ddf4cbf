"""The hashes of a seal: one for each message, which every dispatch checks again, and one for the whole set.

Fields are joined by their lengths, so that no two different sets spell the same bytes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

PREFIX = "sha256:"


def message_hash(
    *,
    destination: str,
    recipient: str | None,
    conversation: str | None,
    headers: Mapping[str, str],
    content_type: str,
    delay_seconds: float,
    body: bytes,
    place: str | None = None,
) -> bytes:
    """SHA-256 over everything of one message that leaves, or decides where and when.

    `place` is what `spell_place` makes of its address; without it the message is where its destination is.
    """
    fields: list[bytes | None] = [
        destination.encode(),
        None if recipient is None else recipient.encode(),
        None if conversation is None else conversation.encode(),
        content_type.encode(),
        repr(float(delay_seconds)).encode(),
        body,
    ]
    for name, value in sorted(headers.items()):
        fields += [name.encode(), value.encode()]
    if place is None:
        return _digest("message.1", fields)
    return _digest("message.2", [place.encode(), *fields])


def spell_place(address: str | None, reply_of: UUID | None) -> str | None:
    """The address of a message, and the inbound whose capability it uses, as one text; None where there is neither."""
    if address is None and reply_of is None:
        return None
    return f"{'-' if reply_of is None else reply_of.hex} {address or '{}'}"


def payload_hash(
    *, turn: UUID, attempt: int, order: str | None, messages: Sequence[bytes]
) -> bytes:
    """SHA-256 over the turn, the attempt, the order and the hash of each message."""
    fields: list[bytes | None] = [
        turn.bytes,
        str(attempt).encode(),
        None if order is None else order.encode(),
    ]
    return _digest("set.1", [*fields, *messages])


def spell(digest: bytes) -> str:
    """How a payload hash is written in the API."""
    return PREFIX + digest.hex()


def _digest(kind: str, fields: Iterable[bytes | None]) -> bytes:
    digest = hashlib.sha256(kind.encode())
    for field in fields:
        # An absent field and an empty one are different sets.
        digest.update(b"-" if field is None else b"%d:" % len(field))
        digest.update(field or b"")
    return digest.digest()
