"""The kinds of value that channels and sources are configured with: pointers to secrets, and URLs."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from app.wire.target import InvalidTarget, parse_target

POINTER_CHARACTERS_MAX: Final = 1024
SECRETS_MAX: Final = 8

_POINTER: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\x00-\x1f\x7f]+")
_URL_WORDS: Final = {
    "url_too_long": "the URL is too long",
    "url_character_invalid": "a URL is visible ASCII; write other characters as %XX",
    "scheme_not_supported": "a URL that begins with https:// or http:// is needed",
    "fragment_not_allowed": "a URL to send to has no #fragment",
    "userinfo_not_allowed": "a URL to send to has no user and no password",
    "host_missing": "the URL has no host",
    "host_invalid": "the URL's host is no name and no plain address",
    "port_invalid": "the URL's port is no number from 1 to 65535",
}


def _valid_url(url: str) -> str:
    try:
        parse_target(url)
    except InvalidTarget as invalid:
        raise ValueError(_URL_WORDS.get(invalid.code, "this is not a URL to send to")) from None
    return url


def _valid_base(url: str) -> str:
    if "?" in _valid_url(url):
        raise ValueError("the URL that others are below has no ?query")
    return url.rstrip("/")


def _valid_pointer(pointer: str) -> str:
    if len(pointer) > POINTER_CHARACTERS_MAX or _POINTER.fullmatch(pointer) is None:
        raise ValueError("a pointer is needed, env:NAME or file:/path")
    return pointer


Url = Annotated[str, AfterValidator(_valid_url)]
BaseUrl = Annotated[str, AfterValidator(_valid_base)]
Pointer = Annotated[str, AfterValidator(_valid_pointer)]
Pointers = Annotated[tuple[Pointer, ...], Field(max_length=SECRETS_MAX)]
