"""Kind `zendesk`: events of an account, and whatever its triggers and automations send, in the words of their author.

An event has its id in its signed body. What a trigger sends has one in a header alone, which is not signed: there the
body's hash with the time of signing is a second key, since the same words may rightly be sent twice.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, check_time
from app.domain.form import read_form, text_of
from app.domain.json_view import Json, at, list_at, name_at, read_json, text_at, time_at
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

_SIGNATURE, _TIME = "x-zendesk-webhook-signature", "x-zendesk-webhook-signature-timestamp"
_INVOCATION = "x-zendesk-webhook-invocation-id"
_FORM = "application/x-www-form-urlencoded"
_EVENT = "zen:event-type:"
_TICKET = "zen:ticket:"
_TIME_CHARACTERS_MAX = 40
_TEXTS = (
    ("event", "comment", "body"),
    ("event", "message", "body"),
    ("comment",),
    ("message",),
    ("detail", "description"),
    ("description",),
    ("detail", "subject"),
    ("subject",),
    ("title",),
)
_SENDERS = (
    ("event", "comment", "author", "id"),
    ("event", "actor", "id"),
    ("detail", "actor_id"),
    ("author_id",),
    ("requester_id",),
    ("detail", "requester_id"),
)
_TICKETS = (("ticket_id",), ("ticket", "id"), ("id",))


class ZendeskConfig(Options):
    """How far the time of a signature may be from ours; and whose events are our own, by their user id."""

    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    own_users: Annotated[tuple[str, ...], Field(max_length=20)] = ()


class Zendesk(Provider[ZendeskConfig]):
    """One Zendesk webhook."""

    kind = "zendesk"
    Config = ZendeskConfig
    signed = Signed(time=True, headers=(_TIME, _SIGNATURE))
    has_echoes = True
    keeps = ("x-zendesk-webhook-id", _INVOCATION)
    sheet = Sheet(
        title="Zendesk",
        signature="HMAC-SHA256 over time and body, `X-Zendesk-Webhook-Signature`",
        key="an event's `id`; `X-Zendesk-Webhook-Invocation-Id`, and the body's hash with its time",
        conversation="ticket",
        setup="Admin Center, Apps and integrations, Webhooks, with the request method POST; "
        "the signing secret is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: ZendeskConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify, then read an event, or what a trigger sends in any format."""
        time = request.header(_TIME)
        signed = time.encode("latin-1") + request.body
        check_hmac([request.header(_SIGNATURE)], signed, secrets=secrets.active, encoding="base64")
        # Where the time ends and the body begins is not signed.
        told_at = time_at([time], 0) if len(time) <= _TIME_CHARACTERS_MAX else None
        if told_at is None or not time.endswith("Z"):
            raise Refused(Result.BAD_SIGNATURE, "timestamp_invalid")
        check_time(told_at.timestamp(), now, tolerance_seconds=config.tolerance_seconds)
        told = _read(request)
        type_ = text_at(told, "type")
        is_event = type_.startswith(_EVENT) and name_at(told, "id") != ""
        senders = [name for path in _SENDERS if (name := name_at(told, *path))]
        content_type = request.content_type or "application/octet-stream"
        return Batch(
            (
                Item(
                    keys=(name_at(told, "id"),) if is_event else tuple(_keys(request, signed)),
                    body=request.body,
                    content_type=content_type,
                    event=type_.removeprefix(_EVENT) if is_event else "trigger",
                    conversation=_conversation(told, is_event=is_event),
                    view=View(
                        text=next((text for path in _TEXTS if (text := text_at(told, *path))), ""),
                        sender=senders[0] if senders else "",
                        attachments=_attachments(at(told, "event", "comment")),
                    ),
                    dated=time_at(told, "time") if is_event else None,
                    is_echo=any(one in config.own_users for one in senders[:1]),
                ),
            )
        )


def _read(request: Request) -> Json:
    """JSON or a form as names and values; an XML body, or none, says nothing here."""
    if request.content_type == _FORM:
        fields = read_form(request.body)
        return {name: text_of(fields, name) for name in ("ticket_id", "comment", "message")}
    if request.content_type.endswith("json") and request.body:
        return read_json(request.body)
    return None


def _keys(request: Request, signed: bytes) -> Iterator[str]:
    invocation = request.header(_INVOCATION)
    if invocation:
        yield f"invocation:{invocation}"
    yield body_key(signed)


def _conversation(told: Json, *, is_event: bool) -> tuple[str, ...]:
    subject = text_at(told, "subject")
    if is_event:
        ticket = name_at(told, "detail", "id") if ":ticket." in text_at(told, "type") else ""
        found = subject.removeprefix(_TICKET) if subject.startswith(_TICKET) else ticket
    else:
        found = next((name for path in _TICKETS if (name := name_at(told, *path))), "")
    return (found,) if found else ()


def _attachments(comment: Json) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind="file",
            id=name_at(one, "id"),
            url=text_at(one, "content_url"),
            name=text_at(one, "filename"),
            content_type=text_at(one, "content_type"),
        )
        for one in list_at(comment, "attachments")
        if text_at(one, "content_url")
    )


provider = Zendesk()
