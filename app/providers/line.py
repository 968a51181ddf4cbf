"""Kind `line`: what users, groups and rooms send to one official account.

A request holds many events or none, and what comes again may be grouped in another way: every event is one inbound,
under its own id. The token that it can be answered with holds for a minute and works once. A redelivery says so.
"""

import json
from datetime import datetime, timedelta

from app.domain.authenticity import check_hmac, hmac_of
from app.domain.json_view import Json, at, name_at, read_object, slices_at, text_at, time_at
from app.domain.webhook import (
    Attachment,
    Batch,
    Capability,
    Item,
    Keys,
    Refused,
    Request,
    Result,
    Secrets,
    Trial,
    View,
    body_key,
)
from app.providers import Options, Provider, Sheet, Signed

_SIGNATURE = "x-line-signature"
_TOKEN_LIFE = timedelta(minutes=1)
_MEDIA = ("image", "video", "audio", "file", "sticker")
_PLACES = (("group", "groupId"), ("room", "roomId"), ("user", "userId"))
_TEXTS = (
    ("message", "text"),
    ("postback", "data"),
    ("message", "title"),
    ("message", "address"),
    ("beacon", "hwid"),
)
# What a redelivery changes of an event.
_DELIVERY = ("deliveryContext", "replyToken")
_AGAIN = ("deliveryContext", "isRedelivery")


class LineConfig(Options):
    """Nothing but its secrets."""


class Line(Provider[LineConfig]):
    """One channel of the Messaging API."""

    kind = "line"
    Config = LineConfig
    signed = Signed(headers=(_SIGNATURE,))
    sheet = Sheet(
        title="LINE",
        signature="HMAC-SHA256 over the body, `X-Line-Signature`",
        key="each event's `webhookEventId`",
        conversation="kind and id of the group, the room or the user",
        setup="Messaging API, Webhook URL, then Use webhook and Webhook redelivery; the channel secret is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: LineConfig,  # noqa: ARG002
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify, and take every event."""
        check_hmac(
            [request.header(_SIGNATURE)], request.body, secrets=secrets.active, encoding="base64"
        )
        told = read_object(request.body)
        events = at(told, "events")
        if not isinstance(events, list):
            raise Refused(Result.MALFORMED, "events_missing")
        is_again = any(at(event, *_AGAIN) is True for event in events)
        return Batch(
            tuple(
                _item(events[n], raw, now) for (n,), raw in slices_at(request.body, "events", "*")
            ),
            facts={_AGAIN[-1]: "true"} if is_again else {},
        )

    def trial(
        self,
        *,
        config: LineConfig,  # noqa: ARG002
        secrets: Secrets,
        now: datetime,  # noqa: ARG002
    ) -> Trial:
        """No events, as its console sends when it verifies a URL."""
        body = b'{"destination":"","events":[]}'
        signature = hmac_of(body, secrets=secrets.active, encoding="base64")
        return Trial({"content-type": "application/json", _SIGNATURE: signature}, body)


def _item(event: Json, raw: bytes, now: datetime) -> Item:
    type_ = text_at(event, "type") or "event"
    message = text_at(event, "message", "type")
    token = text_at(event, "replyToken")
    same = {**event} if isinstance(event, dict) else {}
    for name in _DELIVERY:
        same.pop(name, None)
    return Item(
        keys=(name_at(event, "webhookEventId") or body_key(raw),),
        body=raw,
        event=f"{type_}.{message}" if message else type_,
        conversation=_conversation(event),
        view=View(
            text=next((text for path in _TEXTS if (text := text_at(event, *path))), ""),
            sender=text_at(event, "source", "userId"),
            attachments=_attachments(at(event, "message")),
        ),
        reply=Capability(secrets={"reply_token": token}, expires_at=now + _TOKEN_LIFE)
        if token.strip()
        else None,
        dated=time_at(event, "timestamp", per_second=1000),
        compared=json.dumps(same, sort_keys=True).encode() if same else None,
    )


def _conversation(event: Json) -> tuple[str, ...]:
    for kind, name in _PLACES:
        id_ = text_at(event, "source", name)
        if id_:
            return (kind, id_)
    return ()


def _attachments(message: Json) -> tuple[Attachment, ...]:
    kind = text_at(message, "type")
    if kind not in _MEDIA:
        return ()
    return (
        Attachment(
            kind=kind,
            id=name_at(message, "stickerId") or name_at(message, "id"),
            url=text_at(message, "contentProvider", "originalContentUrl"),
            name=text_at(message, "fileName"),
        ),
    )


provider = Line()
