"""Kind `mailgun`: events of mail that went out, and mail that routes forward here.

What is signed is a time and a token, and nothing of what they came with. A token is therefore good for one request: it
is a second key, and whatever else comes with it is a duplicate for as long as keys are remembered. Mailgun tries for
eight hours and does not say that it signs each try anew, so the time may be nine hours old. A secret in the URL, where
one is configured, is demanded as well.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, check_time, read_seconds, usable
from app.domain.form import Fields, read_form, text_of, values_of
from app.domain.json_view import (
    Json,
    list_at,
    name_at,
    object_at,
    read_json,
    read_object,
    slices_at,
    text_at,
    time_at,
)
from app.domain.multipart import Part, fields_of, read_multipart
from app.domain.received_mail import ReceivedMail, fingerprint, headers_of, read_headers
from app.domain.url_secret import check_url_secret
from app.domain.webhook import (
    Attachment,
    Batch,
    Item,
    Keys,
    Refused,
    Request,
    Result,
    Secrets,
    View,
    body_key,
)
from app.providers import Options, Provider, Sheet, Signed
from app.wire.pointer import Pointers

_FORM, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_SIGNED = ("timestamp", "token", "signature")


class MailgunConfig(Options):
    """How old a signature may be; secrets that the URL holds beside; and addresses that we write from."""

    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] = 32_400
    url_secrets: Pointers = ()
    own_addresses: Annotated[tuple[str, ...], Field(max_length=20)] = ()


class Mailgun(Provider[MailgunConfig]):
    """One Mailgun account's webhooks and routes."""

    kind = "mailgun"
    Config = MailgunConfig
    signed = Signed(body=False, time=True, fields=_SIGNED)
    # Mail of 25 MB at most, and what is told about it.
    body_bytes_max = 32 << 20
    secret_fields = ("url_secrets",)
    has_echoes = True
    sheet = Sheet(
        title="Mailgun (events, and inbound mail by routes)",
        signature="HMAC-SHA256 over time and token, which stand in the body; the rest is not signed",
        key="an event's `id`; Message-Id and recipient of a mail; and the token",
        conversation="mailbox and the first Message-ID of the thread",
        setup="Sending, Webhooks, and Receiving, forward(URL); the HTTP webhook signing key is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: MailgunConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify what is signed, and tell events from mail."""
        usable(secrets.active)
        if config.url_secrets:
            check_url_secret(request, secrets=secrets.named.get("url_secrets", ()))
        if request.content_type in (_FORM, _MULTIPART):
            parts: Sequence[Part] = ()
            if request.content_type == _MULTIPART:
                parts = read_multipart(request.header("content-type"), request.body)
                fields = fields_of(parts)
            else:
                fields = read_form(request.body)
            # Mail may bring fields of the same names: the last ones are Mailgun's.
            token = _check([text_of(fields, name) for name in _SIGNED], config, secrets, now)
            return Batch((_mail(request, fields, parts, token, config, now),))
        told = read_object(request.body)
        token = _check([name_at(told, "signature", name) for name in _SIGNED], config, secrets, now)
        return Batch((_event(told, request.body, token),))


def _check(given: Sequence[str], config: MailgunConfig, secrets: Secrets, now: datetime) -> str:
    time, token, signature = given
    if not token:
        raise Refused(Result.BAD_SIGNATURE, "token_missing")
    # Where the time ends and the token begins is not signed: cut elsewhere, the time is of another age.
    check_hmac([signature], f"{time}{token}".encode(), secrets=secrets.active)
    check_time(read_seconds(time), now, tolerance_seconds=config.tolerance_seconds)
    return f"signed:{time}{token}"


def _event(told: Json, body: bytes, token: str) -> Item:
    data = object_at(told, "event-data")
    id_ = name_at(data, "id")
    event, severity = text_at(data, "event"), text_at(data, "severity")
    return Item(
        keys=(id_, token) if id_ else (token,),
        body=body,
        event=f"{event}.{severity}" if severity else event or "event",
        view=View(
            text=text_at(data, "delivery-status", "description")
            or text_at(data, "delivery-status", "message"),
            sender=text_at(data, "recipient"),
        ),
        dated=time_at(data, "timestamp"),
        # Each try may be signed anew.
        compared=next((raw for _, raw in slices_at(body, "event-data")), None),
    )


def _mail(
    request: Request,
    fields: Fields,
    parts: Sequence[Part],
    token: str,
    config: MailgunConfig,
    now: datetime,
) -> Item:
    headers = _headers(fields)
    mail = ReceivedMail(
        mailbox=text_of(fields, "recipient"),
        sender=text_of(fields, "from") or headers.get("from", ""),
        subject=text_of(fields, "subject") or headers.get("subject", ""),
        headers=headers,
        return_path=text_of(fields, "sender") if values_of(fields, "sender") else None,
    )
    same = fingerprint(fields, without=_SIGNED)
    id_ = f"{mail.message_id}:{mail.mailbox.lower()}" if mail.message_id else body_key(same)
    text = text_of(fields, "stripped-text") or text_of(fields, "body-plain")
    return Item(
        keys=(id_, token),
        body=request.body,
        content_type=request.header("content-type"),
        event="inbound",
        conversation=mail.conversation,
        view=View(
            text=text or mail.subject,
            sender=mail.sender,
            attachments=(*_stored(fields), *_sent(parts)),
        ),
        reply=mail.reply(now),
        compared=same,
        is_echo=mail.is_from(config.own_addresses),
    )


def _headers(fields: Fields) -> dict[str, str]:
    """All headers as a list of pairs, those that are fields of their own, or those in front of a raw mail."""
    listed = text_of(fields, "message-headers")
    if listed:
        pairs = _told(listed)
        return headers_of((text_at(pairs, n, 0), text_at(pairs, n, 1)) for n in range(len(pairs)))
    raw = text_of(fields, "body-mime")
    if raw:
        return read_headers(raw.encode())
    names = ("Message-Id", "In-Reply-To", "References", "Reply-To", "Auto-Submitted", "Precedence")
    told = ((name, text_of(fields, name)) for name in names)
    return headers_of((name, value) for name, value in told if value)


def _told(listed: str) -> list[Json]:
    """A list in JSON inside of a field, which anybody may have written: nothing where it is none."""
    try:
        return list_at(read_json(listed.encode()))
    except Refused:
        return []


def _stored(fields: Fields) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind="file",
            url=text_at(one, "url"),
            name=text_at(one, "name"),
            content_type=text_at(one, "content-type"),
        )
        for one in _told(text_of(fields, "attachments") or "[]")
        if text_at(one, "url")
    )


def _sent(parts: Sequence[Part]) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(kind="file", id=part.name, name=part.filename, content_type=part.content_type)
        for part in parts
        if part.filename is not None
    )


provider = Mailgun()
