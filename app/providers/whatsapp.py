"""Kind `whatsapp`: the Cloud API's messages, statuses of ours, and what a person said for us in the app.

A request holds many of each and has no id: every message and every status is one inbound. A user is named by a number,
or, where that is hidden, by an id that is this business's own.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from app.domain.json_view import Json, at, name_at, slices_at, text_at, time_at
from app.domain.meta import SIGNATURE, Webhooks, batch_of, change_key, read_envelope
from app.domain.webhook import Attachment, Batch, Item, View
from app.providers import Options, Provider, Sheet, Signed
from app.wire.pointer import Pointers

_MEDIA = ("image", "video", "audio", "voice", "document", "sticker")
_TEXTS = (
    ("text", "body"),
    ("button", "text"),
    ("interactive", "button_reply", "title"),
    ("interactive", "list_reply", "title"),
    ("interactive", "nfm_reply", "body"),
    ("reaction", "emoji"),
    ("location", "name"),
    ("order", "text"),
    ("system", "body"),
)


class WhatsappConfig(Options):
    """Pointers to the token that the handshake asks for: several while it is changed."""

    verify_tokens: Annotated[Pointers, Field(min_length=1)]


class Whatsapp(Webhooks, Provider[WhatsappConfig]):
    """The numbers of one Meta app."""

    kind = "whatsapp"
    about = "whatsapp_business_account"
    Config = WhatsappConfig
    signed = Signed(headers=(SIGNATURE,))
    sheet = Sheet(
        title="WhatsApp Cloud API",
        signature="HMAC-SHA256 over the body, `X-Hub-Signature-256`",
        key="each message's `id`; each status's `id`, status and time",
        conversation="number of ours, and number or id of the user, or group",
        setup="WhatsApp, Configuration, Webhook; the app secret is the secret, the verify token one of `verify_tokens`",
    )

    def read(self, body: bytes) -> Batch:
        """Each message and each status by itself."""
        envelope = read_envelope(body, of=self.about)
        return batch_of(
            item
            for (entry, n), raw in slices_at(body, "entry", "*", "changes", "*")
            for item in _items(at(envelope, "entry", entry), n, raw)
        )


def _items(entry: Json, number: int, raw: bytes) -> Iterator[Item]:
    """What one change tells: its messages and statuses one by one, and anything else as it is."""
    change = at(entry, "changes", number)
    value, field = at(change, "value"), text_at(change, "field")
    inside = {"messages": ("messages", "statuses"), "smb_message_echoes": ("message_echoes",)}
    is_split = False
    for name in inside.get(field, ()):
        for (n,), one in slices_at(raw, "value", name, "*"):
            is_split = True
            told = at(value, name, n)
            if name == "statuses":
                yield _status(value, told, one, entry)
            else:
                yield _message(value, told, one, entry, is_echo=name == "message_echoes")
    if not is_split:
        yield Item(keys=(change_key(entry, raw),), body=raw, event=field or "change")


def _message(value: Json, message: Json, raw: bytes, entry: Json, *, is_echo: bool) -> Item:
    type_, whose = text_at(message, "type"), "to" if is_echo else "from"
    user = name_at(message, whose) or name_at(message, f"{whose}_user_id")
    event = "echo" if is_echo else "message"
    paths = (*_TEXTS, (type_, "caption"))
    return Item(
        keys=(name_at(message, "id") or change_key(entry, raw),),
        body=raw,
        event=f"{event}.{type_}" if type_ else event,
        conversation=_conversation(value, name_at(message, "group_id") or user),
        view=View(
            text=next((text for path in paths if (text := text_at(message, *path))), ""),
            sender=name_at(message, "from") or name_at(message, "from_user_id"),
            attachments=_attachments(message, type_),
        ),
        dated=time_at(message, "timestamp"),
        is_echo=is_echo,
    )


def _status(value: Json, status: Json, raw: bytes, entry: Json) -> Item:
    id_, what = name_at(status, "id"), text_at(status, "status")
    recipient = name_at(status, "recipient_id") or name_at(status, "recipient_user_id")
    # Sent, delivered and read are told of the same message, in any order.
    key = f"{id_}:{what}:{name_at(status, 'timestamp')}"
    return Item(
        keys=(key if id_ and what else change_key(entry, raw),),
        body=raw,
        event=f"status.{what}" if what else "status",
        conversation=_conversation(value, recipient),
        view=View(text=text_at(status, "errors", 0, "title"), sender=recipient),
        dated=time_at(status, "timestamp"),
    )


def _conversation(value: Json, user: str) -> tuple[str, ...]:
    number = name_at(value, "metadata", "phone_number_id")
    return (number, user) if number and user else ()


def _attachments(message: Json, type_: str) -> tuple[Attachment, ...]:
    if type_ not in _MEDIA:
        return ()
    return (
        Attachment(
            kind=type_,
            id=name_at(message, type_, "id"),
            url=text_at(message, type_, "url"),
            name=text_at(message, type_, "filename"),
            content_type=text_at(message, type_, "mime_type"),
        ),
    )


provider = Whatsapp()
