"""Kind `webhook`: the payload's bytes, signed after Standard Webhooks, with the same key in every
attempt.

A complete 2xx header block is a delivery. Whatever may have been acted upon, and was not confirmed,
is unknown.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import ClassVar, Final, assert_never

from app.channels import (
    HERE,
    Address,
    Draft,
    Facts,
    Limits,
    NoLookup,
    Options,
    Outgoing,
    Probed,
    Reply,
    Secrets,
    Wire,
)
from app.domain.errors import InvalidContent
from app.domain.outcome import Answer, Delivered, Outcome, Rejected, RetryLater, Shut, Unknown
from app.wire.excerpt import secret_texts, target_texts
from app.wire.exchange import Answered, Cut, Exchange, NotSent
from app.wire.headers import InvalidHeader, header_problems
from app.wire.judging import asked_seconds, shown, unanswered
from app.wire.pointer import Pointers, Url
from app.wire.reach import words_of
from app.wire.signature import UnsignableId, UnusableSecret, signature_headers, signing_key
from app.wire.target import InvalidTarget, parse_target

ANSWER_BYTES_MAX = 16_384
# Each is sent to many times with the same secrets.
_RECEIVERS_MAX: Final = 256

# These say that no message is let in, whatever it is.
SHUT_STATUSES = {401: Shut.UNAUTHORIZED, 410: Shut.GONE}
LATER_STATUSES = frozenset({403, 404, 408, 425, 429, 503})
THROTTLED = 429


class WebhookConfig(Options):
    """`secrets` are pointers; one that holds nothing stops delivery. Without any it sends unsigned."""

    url: Url
    secrets: Pointers = ()


class Webhook(NoLookup):
    """Any receiver of signed webhooks."""

    kind: ClassVar = "webhook"
    Config = WebhookConfig
    limits: ClassVar = Limits()
    answers: ClassVar = frozenset[str]()
    facts: ClassVar = Facts(
        key="`webhook-id` and `Idempotency-Key`: for the receiver to drop a repeat",
        lookup="no",
        receipt="none: the status of the answer",
    )

    def secrets(self, config: WebhookConfig) -> tuple[str, ...]:
        """The pointers of every secret to sign with."""
        return config.secrets

    def check(self, draft: Draft, *, reply: Reply | None, config: WebhookConfig) -> Address:  # noqa: ARG002
        """Refuse headers and content types that could not be sent; raises `InvalidContent`."""
        problems = header_problems(draft.headers, content_type=draft.content_type)
        if problems:
            raise InvalidContent(*problems)
        return HERE

    async def send(
        self,
        message: Outgoing,
        *,
        config: WebhookConfig,
        secrets: Secrets,
        wire: Wire,
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
                timeout_seconds=wire.timeout_seconds,
                answer_bytes_max=ANSWER_BYTES_MAX,
                connection_group=message.destination,
            )
        except (InvalidHeader, UnsignableId) as invalid:
            return Rejected(invalid.code)
        hidden = _hidden(tuple(present), config.url)
        return _outcome(exchange, now=message.attempted_at, hidden=hidden)

    async def probe(
        self,
        *,
        config: WebhookConfig,
        secrets: Secrets,  # noqa: ARG002
        wire: Wire,
    ) -> Probed:
        """Connect, and send nothing: a receiver of webhooks has no request that means nothing."""
        reason = await wire.http.reach(
            parse_target(config.url), timeout_seconds=wire.timeout_seconds
        )
        if reason is None:
            return Probed(good=True, words="it takes connections; no request was made")
        said, advice = words_of(reason)
        return Probed(good=False, words=f"it cannot be reached ({reason}): {said}. {advice}")


def _headers(message: Outgoing, *, keys: Sequence[bytes]) -> dict[str, str]:
    signature = signature_headers(
        message.key, body=message.body, keys=keys, attempted_at=message.attempted_at
    )
    return {
        **message.headers,
        "Content-Type": message.content_type,
        "Idempotency-Key": message.key,
        **signature,
    }


@lru_cache(maxsize=_RECEIVERS_MAX)
def _hidden(secrets: tuple[bytes, ...], url: str) -> tuple[str, ...]:
    """What of a receiver is shown to nobody, however it is spelled."""
    return (*secret_texts(secrets), *target_texts(url, target=parse_target(url)))


def _outcome(exchange: Exchange, *, now: datetime, hidden: Sequence[str]) -> Outcome:
    match exchange:
        case NotSent() | Cut():
            return unanswered(exchange)
        case Answered():
            answer = shown(exchange, hidden=hidden)
            # Who says yes has nothing more to ask for.
            after = None if answer.status // 100 == 2 else asked_seconds(exchange, now=now)  # noqa: PLR2004
            return _judge(answer, after_seconds=after)
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


channel = Webhook()
