"""The hashes of a seal: one for each message, which every dispatch checks again, and one for the whole set.

Fields are joined by their lengths, so that no two different sets spell the same bytes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
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


def follow_up_hash(
    *,
    queue: str,
    conversation: str | None,
    key: str | None,
    content_type: str,
    delay_seconds: float,
    not_before: datetime | None,
    body: bytes,
) -> bytes:
    """SHA-256 over everything of one follow-up, as it was asked for."""
    fields: list[bytes | None] = [
        queue.encode(),
        None if conversation is None else conversation.encode(),
        None if key is None else key.encode(),
        content_type.encode(),
        repr(float(delay_seconds)).encode(),
        None if not_before is None else not_before.astimezone(UTC).isoformat().encode(),
        body,
    ]
    return _digest("follow_up.1", fields)


def payload_hash(
    *,
    turn: UUID,
    attempt: int,
    order: str | None,
    messages: Sequence[bytes],
    follow_ups: Sequence[bytes] = (),
) -> bytes:
    """SHA-256 over the turn, the attempt, the order and the hash of each message and each follow-up."""
    fields: list[bytes | None] = [
        turn.bytes,
        str(attempt).encode(),
        None if order is None else order.encode(),
        *messages,
    ]
    if follow_ups:
        # No hash is as long as this word: what stands behind it is no message.
        fields += [b"follow_ups", *follow_ups]
    return _digest("set.1", fields)


def spell(digest: bytes) -> str:
    """How a payload hash is written in the API."""
    return PREFIX + digest.hex()


def _digest(kind: str, fields: Iterable[bytes | None]) -> bytes:
    parts = [kind.encode()]
    for field in fields:
        # An absent field and an empty one are different sets.
        parts += (b"-",) if field is None else (b"%d:" % len(field), field)
    return hashlib.sha256(b"".join(parts)).digest()
