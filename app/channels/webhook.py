"""Kind `webhook`: the payload's bytes, signed after Standard Webhooks, with the same key in every
attempt.

A complete 2xx header block is a delivery. Whatever may have been acted upon, and was not confirmed,
is unknown.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, assert_never

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.channels import Draft, Outgoing, Wire
from app.domain.errors import InvalidContent
from app.domain.outcome import Answer, Delivered, Outcome, Rejected, RetryLater, Shut, Unknown
from app.domain.retry_after import parse_http_date, parse_retry_after
from app.wire.excerpt import safe_excerpt, secret_texts, target_texts
from app.wire.exchange import RESOLVER_BUSY, Answered, Cut, Exchange, NotSent
from app.wire.headers import InvalidHeader, header_problems
from app.wire.signature import UnsignableId, UnusableSecret, signature_headers, signing_key
from app.wire.target import InvalidTarget, parse_target

SECRETS_MAX = 8
ANSWER_BYTES_MAX = 16_384
POINTER_CHARACTERS_MAX = 1024
DATE_SKEW_SECONDS_MAX = 86_400.0

# These say that no message is let in, whatever it is.
SHUT_STATUSES = {401: Shut.UNAUTHORIZED, 410: Shut.GONE}
LATER_STATUSES = frozenset({403, 404, 408, 425, 429, 503})
THROTTLED = 429

_URL_WORDS = {
    "url_too_long": "the URL is too long",
    "url_character_invalid": "a URL is visible ASCII; write other characters as %XX",
    "scheme_not_supported": "a URL that begins with https:// or http:// is needed",
    "fragment_not_allowed": "a URL to send to has no #fragment",
    "userinfo_not_allowed": "a URL to send to has no user and no password",
    "host_missing": "the URL has no host",
    "host_invalid": "the URL's host is no name and no plain address",
    "port_invalid": "the URL's port is no number from 1 to 65535",
}
_POINTER = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\x00-\x1f\x7f]+")


def _valid_url(url: str) -> str:
    try:
        parse_target(url)
    except InvalidTarget as invalid:
        raise ValueError(_URL_WORDS.get(invalid.code, "this is not a URL to send to")) from None
    return url


def _valid_pointer(pointer: str) -> str:
    if len(pointer) > POINTER_CHARACTERS_MAX or _POINTER.fullmatch(pointer) is None:
        raise ValueError("a pointer is needed, env:NAME or file:/path")
    return pointer


class WebhookConfig(BaseModel):
    """`secrets` are pointers; one that holds nothing stops delivery. Without any it sends unsigned."""

    # The path of the URL, and a secret written where its pointer belongs, are nothing for an error
    # message.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(_valid_url)]
    secrets: Annotated[
        tuple[Annotated[str, AfterValidator(_valid_pointer)], ...], Field(max_length=SECRETS_MAX)
    ] = ()


class Webhook:
    """Any receiver of signed webhooks."""

    kind = "webhook"
    Config = WebhookConfig

    def secrets(self, config: WebhookConfig) -> tuple[str, ...]:
        """The pointers of every secret to sign with."""
        return config.secrets

    def check(self, draft: Draft, *, config: WebhookConfig) -> None:  # noqa: ARG002
        """Refuse headers and content types that could not be sent; raises `InvalidContent`."""
        problems = header_problems(draft.headers, content_type=draft.content_type)
        if problems:
            raise InvalidContent(*problems)

    async def send(
        self,
        message: Outgoing,
        *,
        config: WebhookConfig,
        secrets: Sequence[bytes | None],
        wire: Wire,
        timeout_seconds: float,
    ) -> Outcome:
        """POST the message once. Every configured secret must be there, so that no receiver loses
        its signature.
        """
        present = [secret for secret in secrets if secret is not None]
        if len(present) != len(config.secrets):
            return RetryLater("secret_missing")
        try:
            target = parse_target(config.url)
            keys = [signing_key(secret) for secret in present]
        except InvalidTarget:
            return RetryLater("target_invalid")
        except UnusableSecret as unusable:
            return RetryLater(unusable.code)
        try:
            exchange = await wire.http.post(
                target,
                headers=_headers(message, keys=keys),
                body=message.body,
                timeout_seconds=timeout_seconds,
                answer_bytes_max=ANSWER_BYTES_MAX,
                connection_group=message.destination,
            )
        except (InvalidHeader, UnsignableId) as invalid:
            return Rejected(invalid.code)
        hidden = [*secret_texts(present), *target_texts(config.url, target=target)]
        return _outcome(exchange, now=message.attempted_at, hidden=hidden)


def _headers(message: Outgoing, *, keys: Sequence[bytes]) -> dict[str, str]:
    signature = signature_headers(
        message.key, body=message.body, keys=keys, attempted_at=message.attempted_at
    )
    own = {"Content-Type": message.content_type, "Idempotency-Key": message.key}
    return {**message.headers, **own, **signature}


def _outcome(exchange: Exchange, *, now: datetime, hidden: Sequence[str]) -> Outcome:
    match exchange:
        case NotSent(reason):
            # Waiting for ourselves is no failure of the destination.
            return RetryLater(reason, counted=reason != RESOLVER_BUSY)
        case Cut(reason):
            return Unknown(reason)
        case Answered():
            answer = Answer(exchange.status, safe_excerpt(exchange.excerpt, hidden=hidden))
            return _judge(answer, after_seconds=_after_seconds(exchange, now=now))
        case _:
            assert_never(exchange)


def _judge(answer: Answer, *, after_seconds: float | None) -> Outcome:
    reason = f"http_{answer.status}"
    if answer.status in SHUT_STATUSES:
        shut = SHUT_STATUSES[answer.status]
        return RetryLater(reason, after_seconds, counted=False, answer=answer, shut=shut)
    if answer.status in LATER_STATUSES:
        # Somebody who says when to come back has not failed, and costs the message no attempt.
        counted = answer.status != THROTTLED and after_seconds is None
        return RetryLater(reason, after_seconds=after_seconds, counted=counted, answer=answer)
    match answer.status // 100:
        case 2:
            return Delivered(answer=answer)
        case 3:
            return Rejected("redirect_not_followed", answer=answer)
        case 4:
            return Rejected(reason, answer=answer)
        case _:
            return Unknown(reason, answer=answer)


def _after_seconds(exchange: Answered, *, now: datetime) -> float | None:
    """What `Retry-After` asks for, measured on the other side's own clock while that is near enough
    to ours.
    """
    dates = exchange.headers.get("date", ())
    theirs = parse_http_date(dates[0], now=now) if dates else None
    if theirs is not None and abs((theirs - now).total_seconds()) <= DATE_SKEW_SECONDS_MAX:
        now = theirs
    return parse_retry_after(exchange.headers.get("retry-after", ()), now=now)


channel = Webhook()
