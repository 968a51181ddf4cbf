"""Which headers may go out: names and values that cannot break the framing, and none that is not
the sender's to set.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from app.domain.errors import Problem, SinksweepError

NAME_BYTES_MAX = 128
VALUE_BYTES_MAX = 4096
HEADERS_MAX = 32
# Few names are sent again and again; agents may bring many.
_NAMES_MAX = 1024

# How the request is framed and connected belongs to the client alone.
FRAMING_NAMES = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# Who sends, what it is and which message it is belongs to the channel, never to the agent.
CHANNEL_NAMES = frozenset(
    {"authorization", "content-type", "cookie", "idempotency-key", "user-agent"}
)
CHANNEL_PREFIXES = ("svix-", "webhook-")

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[!-~](?:[\t -~]*[!-~])?")


class InvalidHeader(SinksweepError):
    """A header that must not be sent. The message is a stable code and shows neither name nor
    value.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def check_syntax(name: str, value: str) -> None:
    """Refuse what could end a line, start another header, or is not plain ASCII; raises
    `InvalidHeader`.
    """
    _lower(name)
    _check_value(value)


def _check_value(value: str) -> None:
    if len(value) > VALUE_BYTES_MAX:
        raise InvalidHeader("header_value_too_long")
    # Nearly all of them are plain, which is told sooner than by the form.
    is_plain = value.isascii() and value.isprintable() and value == value.strip(" ")
    if not is_plain and _VALUE.fullmatch(value) is None:
        raise InvalidHeader("header_value_invalid")


@lru_cache(maxsize=_NAMES_MAX)
def _lower(name: str) -> str:
    """A name in lower case, which is what makes two of them the same; raises `InvalidHeader`."""
    if len(name) > NAME_BYTES_MAX or _NAME.fullmatch(name) is None:
        raise InvalidHeader("header_name_invalid")
    return name.lower()


def header_lines(headers: Mapping[str, str], *, defaults: Mapping[str, str]) -> str:
    """Headers as lines of a request, with those of `defaults`, in lower case, that they do not set.

    Headers that the client itself decides on, repeated and malformed ones are refused; raises
    `InvalidHeader`.
    """
    seen: set[str] = set()
    lines = ""
    for name, value in headers.items():
        lower = _lower(name)
        _check_value(value)
        if lower in FRAMING_NAMES:
            raise InvalidHeader("header_reserved")
        if lower in seen:
            raise InvalidHeader("header_repeated")
        seen.add(lower)
        lines += f"{name}: {value}\r\n"
    for name, value in defaults.items():
        if name not in seen:
            lines += f"{name.title()}: {value}\r\n"
    return lines


def check_header(name: str, value: str) -> None:
    """Refuse a header that an agent may not choose; raises `InvalidHeader`."""
    check_syntax(name, value)
    lower = name.lower()
    if lower in FRAMING_NAMES or lower in CHANNEL_NAMES or lower.startswith(CHANNEL_PREFIXES):
        raise InvalidHeader("header_reserved")


def header_problems(headers: Mapping[str, str], *, content_type: str) -> list[Problem]:
    """Everything wrong with an agent's headers and content type, pointed at relative to its
    message.
    """
    problems: list[Problem] = []
    if len(headers) > HEADERS_MAX:
        return [Problem("/headers", "too_many_headers")]
    seen: set[str] = set()
    for name, value in headers.items():
        pointer = "/headers/" + name.replace("~", "~0").replace("/", "~1")
        try:
            check_header(name, value)
        except InvalidHeader as invalid:
            problems.append(Problem(pointer, invalid.code))
        if name.lower() in seen:
            problems.append(Problem(pointer, "header_repeated"))
        seen.add(name.lower())
    try:
        check_syntax("Content-Type", content_type)
        if "/" not in content_type:
            problems.append(Problem("/content_type", "content_type_invalid"))
    except InvalidHeader:
        problems.append(Problem("/content_type", "content_type_invalid"))
    return problems
