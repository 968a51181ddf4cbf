"""One request to a provider's API, heard as what it says or as why nothing was: the start of every channel's `send`.

No secret and no URL is in what comes back, whatever the provider repeats of the request.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from app.domain.outcome import Answer, RetryLater, Unknown
from app.wire.client import GuardedClient, Method
from app.wire.excerpt import credential_texts, target_texts
from app.wire.exchange import Answered
from app.wire.headers import InvalidHeader
from app.wire.json_answer import json_object
from app.wire.judging import asked_seconds, shown, unanswered
from app.wire.target import InvalidTarget, parse_target

ANSWER_BYTES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked. `hidden` are the secrets that an answer might repeat; `group` is the destination."""

    method: Method
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    hidden: Sequence[str]
    group: str
    now: datetime
    timeout_seconds: float
    answer_bytes_max: int = ANSWER_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Heard:
    """What came back: the JSON object in it, if it is one, the exchange, and what of it may be stored.

    `after_seconds` is what `Retry-After` asks for.
    """

    said: Mapping[str, object] | None
    exchange: Answered
    answer: Answer
    after_seconds: float | None

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.answer.status

    def header(self, name: str) -> str | None:
        """The first value of a header, whose name is in lower case."""
        return next(iter(self.exchange.headers.get(name, ())), None)


async def ask(http: GuardedClient, request: Request) -> Heard | RetryLater | Unknown:
    """Send a request once. What was not answered is an outcome already."""
    try:
        target = parse_target(request.url)
    except InvalidTarget:
        return RetryLater("target_invalid")
    try:
        exchange = await http.request(
            request.method,
            target,
            headers=request.headers,
            body=request.body,
            timeout_seconds=request.timeout_seconds,
            answer_bytes_max=request.answer_bytes_max,
            connection_group=request.group,
        )
    except InvalidHeader:
        # Nothing but a secret in them comes from outside.
        return RetryLater("secret_invalid")
    if not isinstance(exchange, Answered):
        return unanswered(exchange)
    hidden = [*request.hidden, *credential_texts(request.headers)]
    hidden += target_texts(request.url, target=target)
    return Heard(
        json_object(exchange),
        exchange,
        shown(exchange, hidden=hidden),
        asked_seconds(exchange, now=request.now),
    )


def token_of(secret: bytes | None) -> str | RetryLater:
    """A secret as a token that can stand in a header or a path; the outcome of an attempt that has none."""
    text = (secret or b"").strip()
    if not text:
        return RetryLater("secret_missing")
    if not text.isascii() or not text.decode().isprintable() or b" " in text:
        return RetryLater("secret_invalid")
    return text.decode()


def password_of(secret: bytes | None) -> str | RetryLater:
    """A secret as a password, which may hold spaces; the outcome of an attempt that has none."""
    try:
        text = (secret or b"").decode().strip()
    except UnicodeDecodeError:
        return RetryLater("secret_invalid")
    if not text:
        return RetryLater("secret_missing")
    return text if text.isprintable() else RetryLater("secret_invalid")


def json_body(value: object) -> bytes:
    """A value as JSON, the same bytes for the same value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def form_body(fields: Iterable[tuple[str, str]]) -> bytes:
    """Fields as a form, the same bytes for the same fields."""
    return urlencode(list(fields)).encode()


def basic(user: str, password: str) -> str:
    """The value of `Authorization` that gives a user and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


JSON_HEADERS: Final[Mapping[str, str]] = {"Content-Type": "application/json; charset=utf-8"}
FORM_HEADERS: Final[Mapping[str, str]] = {"Content-Type": "application/x-www-form-urlencoded"}
