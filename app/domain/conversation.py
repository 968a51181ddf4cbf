"""The name of a provider's conversation: written by its source, and read by the channel that answers there.

A name is the source's, a colon, and a key. A key is made of parts that can be told apart whatever they hold.
"""

import hashlib
import re
from typing import Final

from app.domain.errors import SinksweepError

NAME_BYTES_MAX: Final = 255

# What separates, what escapes, and what no name may hold.
_SPECIAL: Final = re.compile(r"[%/\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPED: Final = re.compile(r"%([0-9A-F]{2,6});")


class UnreadableKey(SinksweepError):
    """A conversation's key is not one that `spell_key` wrote."""


def spell_key(*parts: str) -> str:
    """The key of a conversation that is named by `parts`."""
    return "/".join(_SPECIAL.sub(lambda one: f"%{ord(one[0]):02X};", part) for part in parts)


def read_key(key: str) -> tuple[str, ...]:
    """The parts that `spell_key` was given; raises `UnreadableKey`."""
    return tuple(_read_part(part) for part in key.split("/"))


def _read_part(part: str) -> str:
    if "%" in _ESCAPED.sub("", part):
        raise UnreadableKey(part)
    try:
        return _ESCAPED.sub(lambda one: chr(int(one[1], 16)), part)
    except ValueError:
        raise UnreadableKey(part) from None


def spell_conversation(source: str, *parts: str) -> str:
    """The whole name of a source's conversation, of at most 255 bytes, its last part a hash where need be.

    Raises `ValueError` where nothing helps.
    """
    name = f"{source}:{spell_key(*parts)}"
    if len(name.encode()) > NAME_BYTES_MAX and parts:
        digest = hashlib.sha256(parts[-1].encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{source}:{spell_key(*parts[:-1], digest)}"
    if len(name.encode()) > NAME_BYTES_MAX:
        raise ValueError("a conversation's name is too long")
    return name


def key_within(conversation: str, *, source: str) -> str | None:
    """The key in the name of a conversation of `source`; None for anybody else's."""
    name, found = f"{source}:", conversation.startswith(f"{source}:")
    return conversation[len(name) :] if found else None
