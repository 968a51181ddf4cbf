"""Kind `postmark`: mail that comes in, and what became of mail that went out.

Nothing is signed: whoever knows the secret in the URL is Postmark, so the URL is a secret itself. Postmark gives up for
good when it is told 403, which is never said here, and takes 200 alone for success.
"""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.json_view import Json, list_at, name_at, object_at, read_object, text_at, time_at
from app.domain.received_mail import ReceivedMail, headers_of
from app.domain.url_secret import check_url_secret
from app.domain.webhook import Attachment, Batch, Item, Keys, Request, Secrets, View, body_key
from app.providers import Options, Provider, Sheet, Signed

_TIMES = ("DeliveredAt", "ReceivedAt", "BouncedAt", "ChangedAt")
_WHAT = ("RecordType", "MessageID", "Recipient", *_TIMES, "OriginalLink")


class PostmarkConfig(Options):
    """Addresses that we write from: mail of theirs is our own."""

    own_addresses: Annotated[tuple[str, ...], Field(max_length=20)] = ()


class Postmark(Provider[PostmarkConfig]):
    """One Postmark server's streams."""

    kind = "postmark"
    Config = PostmarkConfig
    signed = Signed(body=False, headers=("authorization",), fields=("secret",))
    # Mail of 35 MB at most, its attachments in base64.
    body_bytes_max = 50 << 20
    has_echoes = True
    sheet = Sheet(
        title="Postmark (inbound mail, and events)",
        signature="none: `user:password@` or `?token=` in the URL",
        key="`MessageID`; `ID` of a bounce, else type, message, recipient and time",
        conversation="mailbox and the first Message-ID of the thread",
        setup="the stream's webhook URL with `user:password@` before the host, which is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: PostmarkConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify, and tell mail from events."""
        check_url_secret(request, secrets=secrets.active)
        told = read_object(request.body)
        if text_at(told, "RecordType"):
            return Batch((_event(told, request.body),))
        return Batch((_mail(told, request.body, config, now),))


def _mail(told: Json, body: bytes, config: PostmarkConfig, now: datetime) -> Item:
    headers = headers_of(
        (text_at(one, "Name"), text_at(one, "Value")) for one in list_at(told, "Headers")
    )
    reply_to = text_at(told, "ReplyTo")
    mail = ReceivedMail(
        mailbox=text_at(told, "OriginalRecipient") or text_at(told, "ToFull", 0, "Email"),
        sender=text_at(told, "FromFull", "Email") or text_at(told, "From"),
        subject=text_at(told, "Subject"),
        headers={"reply-to": reply_to, **headers} if reply_to else headers,
    )
    return Item(
        keys=(name_at(told, "MessageID") or body_key(body),),
        body=body,
        event="inbound",
        conversation=mail.conversation,
        view=View(
            text=text_at(told, "StrippedTextReply") or text_at(told, "TextBody") or mail.subject,
            sender=mail.sender,
            attachments=_attachments(told),
        ),
        reply=mail.reply(now),
        is_echo=mail.is_from(config.own_addresses),
    )


def _event(told: Json, body: bytes) -> Item:
    """A bounce has an id; the rest happens to one recipient of one message at one time."""
    what = [name for one in _WHAT if (name := name_at(told, one))]
    bounce = name_at(told, "ID")
    is_named = name_at(told, "MessageID") and any(name_at(told, one) for one in _TIMES)
    type_ = text_at(told, "RecordType")
    key = f"{type_}:{bounce}" if bounce else ":".join(what) if is_named else body_key(body)
    return Item(
        keys=(key,),
        body=body,
        event=type_,
        view=View(
            text=text_at(told, "Description") or text_at(told, "Details"),
            sender=text_at(told, "Recipient") or text_at(told, "Email"),
        ),
        dated=next((time for one in _TIMES if (time := time_at(object_at(told), one))), None),
    )


def _attachments(told: Json) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind="file",
            id=text_at(one, "ContentID"),
            name=text_at(one, "Name"),
            content_type=text_at(one, "ContentType"),
        )
        for one in list_at(told, "Attachments")
        if text_at(one, "Name")
    )


provider = Postmark()
