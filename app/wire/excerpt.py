"""The beginning of an answer as text that is safe to store and to show: short, printable, without
what is secret.
"""

import base64
import json
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote

from app.wire.target import Target

EXCERPT_BYTES_MAX = 512
_MASK = "***"
_ASCII = {code: " " if chr(code) in "\t\r\n" else None for code in (*range(32), 127)}
# A shorter piece of a path is no credential, and masking every "api" would make answers unreadable.
_PIECE_CHARACTERS_MIN = 8
# Destinations are sent to many times with the same secrets, whose spellings take longer than the sending.
_SPELLED_MAX = 256


def safe_excerpt(answer: bytes, *, hidden: Iterable[str]) -> str:
    """At most 512 bytes of `answer`, each of the `hidden` texts replaced by `***`."""
    if not answer:
        return ""
    text = masked(answer.decode(errors="replace"), hidden=hidden)
    return text.encode()[:EXCERPT_BYTES_MAX].decode(errors="ignore")


def masked(text: str, *, hidden: Iterable[str]) -> str:
    """A text without what does not print, each of the `hidden` texts replaced by `***`."""
    text = _printable(text)
    for secret in _longest_first(tuple(hidden)):
        text = text.replace(secret, _MASK)
    return text


@lru_cache(maxsize=_SPELLED_MAX)
def _longest_first(hidden: tuple[str, ...]) -> list[str]:
    """What is replaced, as it would be printed: what holds another one before that."""
    texts = {_printable(text) for text in hidden}
    return sorted((text for text in texts if text), key=len, reverse=True)


def secret_texts(secrets: Iterable[bytes]) -> list[str]:
    """The spellings of secrets that an answer might repeat: whole, without `whsec_`, and as they stand in forms, in
    JSON and in base64.
    """
    return [text for secret in secrets for text in _secret_texts(secret)]


@lru_cache(maxsize=_SPELLED_MAX)
def _secret_texts(secret: bytes) -> tuple[str, ...]:
    text = secret.decode(errors="replace").strip()
    both = dict.fromkeys((text, text.removeprefix("whsec_")))
    return tuple(spelled for one in both if one for spelled in _spellings(one))


def login_texts(user: str, password: str) -> list[str]:
    """What a user and a password are sent as, to a mail server and otherwise."""
    plain = f"\0{user}\0{password}", f"{user}:{password}", password
    return [base64.b64encode(text.encode()).decode() for text in plain]


def credential_texts(headers: Mapping[str, str]) -> list[str]:
    """What a request has said of who sends it, which is not always how the secret is spelled."""
    given = [value for name, value in headers.items() if name.lower() == "authorization"]
    return [value.rpartition(" ")[2] for value in given]


@lru_cache(maxsize=_SPELLED_MAX)
def target_texts(url: str, *, target: Target) -> tuple[str, ...]:
    """The parts of a URL that may be credentials: all of it, its path and query, and every long
    piece of those.
    """
    path = target.path_and_query
    for separator in "?&=/":
        path = path.replace(separator, "\n")
    pieces = [piece for piece in path.split("\n") if len(piece) >= _PIECE_CHARACTERS_MIN]
    whole = [url, *([target.path_and_query] if len(target.path_and_query) > 1 else [])]
    return tuple(text for part in (*whole, *pieces) for text in (part, unquote(part)))


def _spellings(text: str) -> list[str]:
    in_json = json.dumps(text)[1:-1]
    coded = base64.b64encode(text.encode()).decode()
    spelled = (
        text,
        quote(text, safe=""),
        quote_plus(text),
        in_json,
        in_json.replace("/", "\\/"),
        coded,
    )
    return list(dict.fromkeys(spelled))


def _printable(text: str) -> str:
    """Without control and format characters: they break logs, reorder what people read, and split
    what is hidden.
    """
    if text.isascii():
        return text if text.isprintable() else text.translate(_ASCII)
    spaced = (" " if character in "\t\r\n" else character for character in text)
    return "".join(one for one in spaced if unicodedata.category(one) not in ("Cc", "Cf"))
