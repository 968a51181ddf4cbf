"""What Microsoft Teams tells by an outgoing webhook and by a bot alike: one activity, in one shape."""

from app.domain.json_view import Json, list_at, name_at, text_at, time_at
from app.domain.webhook import Attachment, Capability, Item, View, body_key

MESSAGE = "message"


def item_of(
    activity: Json, body: bytes, *, reply: Capability | None = None, is_echo: bool = False
) -> Item:
    """One activity as an inbound."""
    type_ = text_at(activity, "type") or "activity"
    what = text_at(activity, "channelData", "eventType") or text_at(activity, "name")
    conversation = name_at(activity, "conversation", "id")
    return Item(
        keys=(_key(activity, type_, conversation) or body_key(body),),
        body=body,
        event=f"{type_}.{what}" if what and type_ != MESSAGE else type_,
        conversation=(conversation,) if conversation else (),
        view=View(
            text=text_at(activity, "text"),
            sender=text_at(activity, "from", "aadObjectId") or name_at(activity, "from", "id"),
            attachments=_attachments(activity),
        ),
        reply=reply,
        dated=time_at(activity, "timestamp"),
        is_echo=is_echo,
    )


def _key(activity: Json, type_: str, conversation: str) -> str:
    """An id is its conversation's; and what happens to a message later has the id of that message."""
    id_ = name_at(activity, "id")
    if not id_:
        return ""
    if type_ == MESSAGE:
        return f"{conversation}:{id_}"
    return f"{type_}:{conversation}:{id_}:{text_at(activity, 'timestamp')}"


def _attachments(activity: Json) -> tuple[Attachment, ...]:
    """Files and pictures; the same text once more as HTML is no attachment, and a card has no address."""
    return tuple(
        Attachment(
            kind="file",
            id=text_at(one, "content", "uniqueId"),
            url=text_at(one, "content", "downloadUrl") or text_at(one, "contentUrl"),
            name=text_at(one, "name"),
            content_type=text_at(one, "contentType"),
        )
        for one in list_at(activity, "attachments")
        if text_at(one, "contentUrl")
    )
