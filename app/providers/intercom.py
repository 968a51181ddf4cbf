"""Kind `intercom`: the notifications of one app. SHA-1 is Intercom's choice.

A retry counts its attempts inside the signed body, so what is compared leaves that out. The URL is looked at without a
signature when it is saved, which is answered and tells nothing.
"""

import json
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac
from app.domain.json_view import Json, at, list_at, name_at, read_object, text_at, time_at
from app.domain.webhook import (
    Attachment,
    Batch,
    Item,
    Keys,
    Refused,
    Reply,
    Request,
    Result,
    Secrets,
    View,
    body_key,
)
from app.providers import Options, Provider, Sheet, Signed

_PREFIX = "sha1="
_ATTEMPTS = "delivery_attempts"
_CHANGING = (_ATTEMPTS, "delivery_status", "delivered_at", "first_sent_at")


class IntercomConfig(Options):
    """Whose replies are our own, by the id of the admin that we act as."""

    own_admins: Annotated[tuple[str, ...], Field(max_length=20)] = ()


class Intercom(Provider[IntercomConfig]):
    """One Intercom app."""

    kind = "intercom"
    Config = IntercomConfig
    signed = Signed(headers=("x-hub-signature",))
    methods = frozenset({"GET", "POST"})
    has_echoes = True
    sheet = Sheet(
        title="Intercom",
        signature="HMAC-SHA1 over the body, `X-Hub-Signature`",
        key="the notification's `id`",
        conversation="conversation, or the contact or ticket",
        setup="Developer Hub, Webhooks; the app's client secret is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: IntercomConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch | Reply:
        """Verify, and take the notification."""
        if request.method == "GET":
            if request.body:
                raise Refused(Result.BAD_SIGNATURE, "body_not_signed")
            return Reply(200)
        given = [request.header("x-hub-signature")]
        check_hmac(given, request.body, secrets=secrets.active, algorithm="sha1", prefix=_PREFIX)
        told = read_object(request.body)
        if text_at(told, "topic") == "ping":
            return Batch((), ignored={"ping": 1})
        attempts = name_at(told, _ATTEMPTS)
        item = _item(told, request.body, config)
        return Batch((item,), facts={_ATTEMPTS: attempts} if attempts.isdigit() else {})


def _item(told: Json, body: bytes, config: IntercomConfig) -> Item:
    lasting = {name: value for name, value in told.items() if name not in _CHANGING}
    compared = json.dumps(lasting, sort_keys=True).encode()
    item = at(told, "data", "item")
    said = _said(item)
    author = name_at(said, "author", "id")
    conversation = name_at(item, "conversation_id") or name_at(item, "id")
    return Item(
        keys=(name_at(told, "id") or body_key(compared),),
        body=body,
        event=text_at(told, "topic") or "notification",
        conversation=(conversation,) if conversation else (),
        view=View(
            text=text_at(said, "body") or text_at(item, "title"),
            sender=author or name_at(item, "id"),
            attachments=_attachments(said),
        ),
        dated=time_at(told, "created_at"),
        compared=compared,
        is_echo=author in config.own_admins and text_at(said, "author", "type") in ("admin", "bot"),
    )


def _said(item: Json) -> Json:
    """The newest part of a conversation, or what began it."""
    parts = list_at(item, "conversation_parts", "conversation_parts")
    return parts[-1] if parts else at(item, "source") or item


def _attachments(said: Json) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind="file",
            url=text_at(one, "url"),
            name=text_at(one, "name"),
            content_type=text_at(one, "content_type"),
        )
        for one in list_at(said, "attachments")
        if text_at(one, "url")
    )


provider = Intercom()
