"""Kind `telegram`: the updates of one bot, who sends its secret along instead of a signature.

An update's number is unique for its bot and no more, which is why a source is one bot. It is answered without a body:
a bot's server would carry out what looks like a method in one.
"""

from datetime import datetime

from app.domain.authenticity import check_shared, usable
from app.domain.json_view import Json, at, list_at, name_at, read_object, text_at, time_at
from app.domain.webhook import (
    Attachment,
    Batch,
    Item,
    Keys,
    Refused,
    Request,
    Result,
    Secrets,
    Trial,
    View,
)
from app.providers import Options, Provider, Sheet, Signed

_MESSAGES = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "business_message",
    "edited_business_message",
)
_FILES = ("document", "audio", "video", "voice", "video_note", "animation", "sticker")


class TelegramConfig(Options):
    """Nothing but its secret."""


class Telegram(Provider[TelegramConfig]):
    """The Bot API's webhook."""

    kind = "telegram"
    Config = TelegramConfig
    signed = Signed(body=False, headers=("x-telegram-bot-api-secret-token",))
    has_echoes = True
    sheet = Sheet(
        title="Telegram",
        signature="`X-Telegram-Bot-Api-Secret-Token` is the secret itself; the body is not signed",
        key="`update_id`",
        conversation="chat, and topic of a forum",
        setup="`setWebhook` with the URL and `secret_token`, which is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: TelegramConfig,  # noqa: ARG002
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch:
        """Compare the secret, and take the update."""
        check_shared(request.header("x-telegram-bot-api-secret-token"), secrets=secrets.active)
        update = read_object(request.body)
        number = name_at(update, "update_id")
        if not number:
            raise Refused(Result.MALFORMED, "update_id_missing")
        return Batch((_item(number, update, request.body),))

    def trial(
        self,
        *,
        config: TelegramConfig,  # noqa: ARG002
        secrets: Secrets,
        now: datetime,  # noqa: ARG002
    ) -> Trial:
        """No update: with the secret, and refused for what it lacks."""
        secret = usable(secrets.active)[0].decode("latin-1")
        return Trial({"x-telegram-bot-api-secret-token": secret}, b"{}")


def _item(number: str, update: Json, body: bytes) -> Item:
    event = next((name for name in update if name != "update_id"), "")
    content = at(update, event)
    message = content if event in _MESSAGES else at(content, "message")
    is_message = event in _MESSAGES
    return Item(
        keys=(number,),
        body=body,
        event=event,
        conversation=_conversation(content, message),
        view=View(
            text=_text(message if is_message else content),
            sender=name_at(content, "from", "id") or name_at(content, "sender_chat", "id"),
            attachments=_attachments(message) if is_message else (),
        ),
        # The date of another kind of update is that of an older message.
        dated=(time_at(message, "edit_date") or time_at(message, "date")) if is_message else None,
        # In a business account's chats a bot is told of what it said there itself.
        is_echo=bool(at(message, "sender_business_bot")),
    )


def _conversation(content: Json, message: Json) -> tuple[str, ...]:
    """Chat, topic of a forum, and the connection to a business account that a bot speaks for."""
    chat = name_at(message, "chat", "id") or name_at(content, "chat", "id")
    topic = name_at(message, "message_thread_id") if at(message, "is_topic_message") else ""
    business = name_at(message, "business_connection_id")
    parts = [chat or name_at(content, "from", "id"), topic, business]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _text(content: Json) -> str:
    """What a message says, what a button carries, or what somebody types at a bot."""
    words = (text_at(content, name) for name in ("text", "caption", "data", "query"))
    return next((one for one in words if one), "")


def _attachments(message: Json) -> tuple[Attachment, ...]:
    found = [
        Attachment(
            kind=name,
            id=text_at(message, name, "file_id"),
            name=text_at(message, name, "file_name"),
            content_type=text_at(message, name, "mime_type"),
        )
        for name in _FILES
        if text_at(message, name, "file_id")
    ]
    # The same picture in several sizes, the largest last.
    photo = list_at(message, "photo")
    if photo:
        found.append(Attachment(kind="photo", id=text_at(photo, -1, "file_id")))
    return tuple(found)


provider = Telegram()
