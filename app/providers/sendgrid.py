"""Kind `sendgrid`: mail by Inbound Parse, and what became of mail that went out by the Event Webhook.

Both are signed in one way, with a key pair each. Inbound Parse signs only where a security policy is attached to it: a
secret in the URL is the other way. Whatever of both is configured is demanded. Mail has no id but its own Message-ID;
events, of which many come at once and often again, have one each.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator

from app.domain.authenticity import check_time, read_seconds
from app.domain.form import values_of
from app.domain.json_view import (
    Json,
    at,
    list_at,
    name_at,
    read_json,
    read_object,
    slices_at,
    text_at,
    time_at,
)
from app.domain.multipart import Part, fields_of, read_multipart
from app.domain.public_keys import check_ecdsa_p256, from_base64
from app.domain.received_mail import ReceivedMail, fingerprint, read_headers, text_in
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

_SIGNATURE = "x-twilio-email-event-webhook-signature"
_TIME = "x-twilio-email-event-webhook-timestamp"
_MULTIPART = "multipart/form-data"

PublicKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{40,400}={0,2}$")]


class SendgridConfig(Options):
    """Public keys as SendGrid shows them; secrets that the URL holds; how old a signature may be; our addresses."""

    public_keys: Annotated[tuple[PublicKey, ...], Field(max_length=8)] = ()
    url_secrets: Pointers = ()
    tolerance_seconds: Annotated[int, Field(ge=1, le=259_200)] = 300
    own_addresses: Annotated[tuple[str, ...], Field(max_length=20)] = ()

    @model_validator(mode="after")
    def _is_verified(self) -> Self:
        if not (self.public_keys or self.url_secrets):
            raise ValueError("public_keys or url_secrets are needed: nobody would be verified")
        return self


class Sendgrid(Provider[SendgridConfig]):
    """One SendGrid account's Inbound Parse or Event Webhook."""

    kind = "sendgrid"
    Config = SendgridConfig
    signed = Signed(time=True, headers=(_TIME, _SIGNATURE))
    # Mail of 30 MB at most, and what is told about it.
    body_bytes_max = 40 << 20
    secrets_min = 0
    secret_fields = ("url_secrets",)
    has_echoes = True
    sheet = Sheet(
        title="SendGrid (Inbound Parse, Event Webhook)",
        signature="ECDSA P-256 over time and body, with `public_keys`; or a secret in the URL",
        key="Message-ID and recipients of a mail; each event's `sg_event_id`",
        conversation="mailbox and the first Message-ID of the thread",
        setup="Settings, Inbound Parse (parsed, with a security policy), and Mail Settings, Event Webhook, Signed",
    )

    def covers(self, config: SendgridConfig) -> Signed:
        """Without public keys there is but the secret in the URL."""
        if config.public_keys:
            return self.signed
        return Signed(body=False, headers=("authorization",), fields=("secret",))

    def receive(
        self,
        request: Request,
        *,
        config: SendgridConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify, and tell mail from events by their content type."""
        if config.url_secrets:
            check_url_secret(request, secrets=secrets.named.get("url_secrets", ()))
        if config.public_keys:
            time = request.header(_TIME)
            check_ecdsa_p256(
                from_base64(request.header(_SIGNATURE).encode("latin-1")),
                time.encode("latin-1") + request.body,
                keys=[from_base64(key) for key in config.public_keys],
            )
            check_time(read_seconds(time), now, tolerance_seconds=config.tolerance_seconds)
        if request.content_type == _MULTIPART:
            parts = read_multipart(request.header("content-type"), request.body)
            return Batch((_mail(request, parts, config, now),))
        told = read_json(request.body)
        if not isinstance(told, list):
            raise Refused(Result.MALFORMED, "json_array_needed")
        return Batch(tuple(_events(told, request.body)))


def _events(told: Json, body: bytes) -> Iterator[Item]:
    for (n,), raw in slices_at(body, "*"):
        event = at(told, n)
        yield Item(
            keys=(name_at(event, "sg_event_id") or body_key(raw),),
            body=raw,
            event=text_at(event, "event") or "event",
            view=View(
                text=text_at(event, "reason") or text_at(event, "response"),
                sender=text_at(event, "email"),
            ),
            dated=time_at(event, "timestamp"),
        )


def _mail(request: Request, parts: Sequence[Part], config: SendgridConfig, now: datetime) -> Item:
    fields = _texts(parts)
    envelope = _object(fields.get("envelope", ""))
    headers = read_headers((fields.get("headers") or fields.get("email", "")).encode())
    recipients = [
        text for n in range(len(list_at(envelope, "to"))) if (text := text_at(envelope, "to", n))
    ]
    mail = ReceivedMail(
        mailbox=recipients[0] if recipients else fields.get("to", ""),
        sender=fields.get("from", "") or headers.get("from", ""),
        subject=fields.get("subject", "") or headers.get("subject", ""),
        headers=headers,
        return_path=text_at(envelope, "from") if "from" in envelope else None,
    )
    to = ",".join(sorted(one.lower() for one in recipients))
    same = fingerprint(fields_of(parts))
    return Item(
        keys=(f"{mail.message_id}:{to}" if mail.message_id else body_key(same),),
        body=request.body,
        content_type=request.header("content-type"),
        event="inbound",
        conversation=mail.conversation,
        view=View(
            text=fields.get("text", "") or mail.subject,
            sender=mail.sender,
            attachments=tuple(
                Attachment(
                    kind="file", id=part.name, name=part.filename, content_type=part.content_type
                )
                for part in parts
                if part.filename is not None
            ),
        ),
        reply=mail.reply(now),
        # Each try may be cut into parts in another way.
        compared=same,
        is_echo=mail.is_from(config.own_addresses),
    )


def _texts(parts: Sequence[Part]) -> Mapping[str, str]:
    """The fields that are no files, each in its own character set."""
    told = values_of(fields_of(parts), "charsets")
    charsets = _object(told[-1].decode("utf-8", "replace")) if told else {}
    return {
        part.name: text_in(part.value, text_at(charsets, part.name) or part.charset)
        for part in parts
        if part.filename is None
    }


def _object(text: str) -> Mapping[str, Json]:
    """An object in JSON inside of a field: nothing where it is none."""
    try:
        return read_object(text.encode())
    except Refused:
        return {}


provider = Sendgrid()
