"""Kind `zoom`: meetings, recordings, chats and all other events of one app.

An event has no id of its own, and comes again as the same bytes: their hash is its key. The question whether this URL
is ours is signed like an event, comes again every three days, and is answered with the secret that it was signed with.
"""

import hmac
import json
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, check_time, read_seconds, usable
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

_SIGNATURE, _TIME = "x-zm-signature", "x-zm-request-timestamp"
_VERSION = "v0="
_TOKEN_CHARACTERS_MAX = 200
_ABOUT = ("payload", "object")
_TEXTS = ("message", "topic", "comment", "name")
_SENDERS = (
    ("payload", "operator_id"),
    ("payload", "operator"),
    (*_ABOUT, "participant", "user_id"),
    (*_ABOUT, "host_id"),
    (*_ABOUT, "sender"),
)


class ZoomConfig(Options):
    """How far the time of a signature may be from ours; and whose events are our own, by their id or address."""

    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    own_operators: Annotated[tuple[str, ...], Field(max_length=20)] = ()


class Zoom(Provider[ZoomConfig]):
    """One Zoom app."""

    kind = "zoom"
    Config = ZoomConfig
    signed = Signed(time=True, headers=(_TIME, _SIGNATURE))
    has_echoes = True
    keeps = ("x-zm-trackingid",)
    sheet = Sheet(
        title="Zoom",
        signature="HMAC-SHA256 over `v0:time:body`, `x-zm-signature`",
        key="the body's hash",
        conversation="account, and id of what it is about",
        setup="the app's Feature, Event Subscriptions; its Secret Token is the secret, then Validate",
    )

    def receive(
        self,
        request: Request,
        *,
        config: ZoomConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch | Reply:
        """Verify, then tell the question for the URL from events."""
        time, signatures = request.header(_TIME), [request.header(_SIGNATURE)]
        signed = b"v0:" + time.encode("latin-1") + b":" + request.body
        check_hmac(signatures, signed, secrets=secrets.active, prefix=_VERSION)
        check_time(read_seconds(time), now, tolerance_seconds=config.tolerance_seconds)
        told = read_object(request.body)
        event = text_at(told, "event")
        if event == "endpoint.url_validation":
            return _answer(told, _signer(signatures, signed, secrets))
        if not event:
            raise Refused(Result.MALFORMED, "event_missing")
        return Batch((_item(told, event, request.body, config),))


def _signer(signatures: list[str], signed: bytes, secrets: Secrets) -> bytes:
    """Which of several secrets it was: the answer is made with the same."""
    *others, last = usable(secrets.active)
    for secret in others:
        try:
            check_hmac(signatures, signed, secrets=[secret], prefix=_VERSION)
        except Refused:
            continue
        return secret
    return last


def _answer(told: Json, secret: bytes) -> Reply:
    plain = text_at(told, "payload", "plainToken")
    if not 0 < len(plain) <= _TOKEN_CHARACTERS_MAX:
        raise Refused(Result.MALFORMED, "token_missing")
    encrypted = hmac.digest(secret, plain.encode(), "sha256").hex()
    body = json.dumps({"plainToken": plain, "encryptedToken": encrypted}).encode()
    return Reply(200, body, "application/json")


def _item(told: Json, event: str, body: bytes, config: ZoomConfig) -> Item:
    account = name_at(told, "payload", "account_id")
    about = (
        name_at(told, *_ABOUT, "id")
        or name_at(told, *_ABOUT, "uuid")
        or name_at(told, *_ABOUT, "channel_id")
    )
    senders = [name for path in _SENDERS if (name := name_at(told, *path))]
    return Item(
        keys=(body_key(body),),
        body=body,
        event=event,
        conversation=(account, about) if about else (),
        view=View(
            text=next((text for name in _TEXTS if (text := text_at(told, *_ABOUT, name))), ""),
            sender=senders[0] if senders else "",
            attachments=_recordings(at(told, *_ABOUT)),
        ),
        dated=time_at(told, "event_ts", per_second=1000),
        is_echo=any(one in config.own_operators for one in senders[:2]),
    )


def _recordings(about: Json) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind="recording",
            id=name_at(one, "id"),
            url=text_at(one, "download_url"),
            name=text_at(one, "recording_type"),
            content_type=text_at(one, "file_type"),
        )
        for one in list_at(about, "recording_files")
        if text_at(one, "download_url")
    )


provider = Zoom()
