"""What must not be kept is blotted out of a body, however it was spelled there."""

import json
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus

BLOT: Final = b"***"


class NotBlotted(ValueError):
    """A secret was to be blotted out of a body, and does not stand in it in a spelling that is known."""


def blot(body: bytes, secrets: Iterable[str]) -> bytes:
    """The body with each of the secrets replaced by `***`; raises `NotBlotted` where one was not found.

    Known are the plain text, JSON with and without escaped slashes, and both of them in a form.
    """
    for secret in secrets:
        spelled = re.compile(b"|".join(map(_pattern, _spellings(secret))))
        body, count = spelled.subn(BLOT, body)
        if not count:
            raise NotBlotted
    return body


def _spellings(secret: str) -> list[str]:
    in_json = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    plain = {secret, *in_json, *(one.replace("/", "\\/") for one in in_json)}
    in_forms = {how(one, safe="") for one in plain for how in (quote, quote_plus)}
    lightly = {quote(one, safe="/:") for one in plain}
    return sorted(plain | in_forms | lightly, key=len, reverse=True)


def _pattern(spelling: str) -> bytes:
    """The spelling, with the letters of hexadecimal escapes in either case."""
    escaped = re.escape(spelling.encode("utf-8", "replace"))
    return re.sub(rb"%[0-9A-F]{2}|\\\\u[0-9a-f]{4}", lambda one: b"(?i:%b)" % one[0], escaped)
