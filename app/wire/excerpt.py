"""The beginning of an answer as text that is safe to store and to show: short, printable, without
what is secret.
"""

import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote

from app.wire.target import Target

EXCERPT_BYTES_MAX = 512
_MASK = "***"
_ASCII = {code: " " if chr(code) in "\t\r\n" else None for code in (*range(32), 127)}
# A shorter piece of a path is no credential, and masking every "api" would make answers unreadable.
_PIECE_CHARACTERS_MIN = 8


def safe_excerpt(answer: bytes, *, hidden: Iterable[str]) -> str:
    """At most 512 bytes of `answer`, each of the `hidden` texts replaced by `***`."""
    if not answer:
        return ""
    text = _printable(answer.decode(errors="replace"))
    for secret in sorted({_printable(text) for text in hidden}, key=len, reverse=True):
        if secret:
            text = text.replace(secret, _MASK)
    return text.encode()[:EXCERPT_BYTES_MAX].decode(errors="ignore")


def secret_texts(secrets: Iterable[bytes]) -> list[str]:
    """The spellings of secrets that an answer might repeat: whole, and without `whsec_`."""
    texts = [secret.decode(errors="replace").strip() for secret in secrets]
    return [*texts, *(text.removeprefix("whsec_") for text in texts)]


def target_texts(url: str, *, target: Target) -> list[str]:
    """The parts of a URL that may be credentials: all of it, its path and query, and every long
    piece of those.
    """
    path = target.path_and_query
    for separator in "?&=/":
        path = path.replace(separator, "\n")
    pieces = [piece for piece in path.split("\n") if len(piece) >= _PIECE_CHARACTERS_MIN]
    whole = [url, *([target.path_and_query] if len(target.path_and_query) > 1 else [])]
    return [text for part in (*whole, *pieces) for text in (part, unquote(part))]


def _printable(text: str) -> str:
    """Without control and format characters: they break logs, reorder what people read, and split
    what is hidden.
    """
    if text.isascii():
        return text if text.isprintable() else text.translate(_ASCII)
    spaced = (" " if character in "\t\r\n" else character for character in text)
    return "".join(one for one in spaced if unicodedata.category(one) not in ("Cc", "Cf"))
