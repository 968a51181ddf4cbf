"""Kind `slack`: events, buttons and other interactivity, and slash commands of one app, all under one signature.

One thing that a user says may come as two events, a message and a mention: both name the same channel and time, which
is their second key. What the app says itself comes back as an event, and is told from what others say.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, check_time, hmac_of, read_seconds
from app.domain.form import read_form, text_of
from app.domain.json_view import (
    Json,
    at,
    list_at,
    name_at,
    read_json,
    read_object,
    text_at,
    time_at,
)
from app.domain.webhook import (
    TEXT_PLAIN,
    Attachment,
    Batch,
    Capability,
    Item,
    Keys,
    Refused,
    Reply,
    Request,
    Result,
    Secrets,
    Trial,
    View,
    body_key,
)
from app.providers import Options, Provider, Sheet, Signed

_FORM = "application/x-www-form-urlencoded"
_RESPONSE_URL_LIFE = timedelta(minutes=30)
# A message and a mention of these kinds are the same thing that somebody said.
_SAID = ("", "file_share", "thread_broadcast", "me_message")


class SlackConfig(Options):
    """How far the time of a signature may be from ours."""

    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300


class Slack(Provider[SlackConfig]):
    """One Slack app."""

    kind = "slack"
    Config = SlackConfig
    signed = Signed(time=True, headers=("x-slack-request-timestamp", "x-slack-signature"))
    has_echoes = True
    keeps = ("x-slack-retry-num", "x-slack-retry-reason")
    sheet = Sheet(
        title="Slack",
        signature="HMAC-SHA256 over `v0:time:body`",
        key="`event_id`, and channel and `ts` of what was said; `trigger_id` of interactions",
        conversation="team, channel and thread; in direct messages the channel",
        setup="one URL for Event Subscriptions, Interactivity and Slash Commands; the signing secret is the secret",
    )

    def receive(
        self,
        request: Request,
        *,
        config: SlackConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch | Reply:
        """Verify, then tell events from interactions by their content type."""
        time = request.header("x-slack-request-timestamp")
        signed = b"v0:" + time.encode("latin-1") + b":" + request.body
        given = [request.header("x-slack-signature")]
        check_hmac(given, signed, secrets=secrets.active, prefix="v0=")
        check_time(read_seconds(time), now, tolerance_seconds=config.tolerance_seconds)
        if request.content_type == _FORM:
            return _interaction(request.body, now)
        return _event(request.body)

    def trial(
        self,
        *,
        config: SlackConfig,  # noqa: ARG002
        secrets: Secrets,
        now: datetime,
    ) -> Trial:
        """The handshake."""
        body = b'{"type":"url_verification","challenge":"sinksweep"}'
        time = str(int(now.timestamp()))
        signature = hmac_of(b"v0:" + time.encode() + b":" + body, secrets=secrets.active)
        return Trial(
            {"x-slack-request-timestamp": time, "x-slack-signature": f"v0={signature}"}, body
        )


def _event(body: bytes) -> Batch | Reply:
    envelope = read_object(body)
    event = at(envelope, "event")
    match text_at(envelope, "type"):
        case "url_verification":
            challenge = text_at(envelope, "challenge").encode()
            return Reply(200, challenge, TEXT_PLAIN)
        case "event_callback" if name_at(envelope, "event_id"):
            return Batch((_told(envelope, event, body),))
        case "":
            raise Refused(Result.MALFORMED, "type_missing")
        case type_:
            # Such as app_rate_limited, which has no id.
            return Batch((Item(keys=(body_key(body),), body=body, event=type_),))


def _told(envelope: Json, event: Json, body: bytes) -> Item:
    team = text_at(envelope, "team_id") or text_at(envelope, "enterprise_id")
    type_, subtype = text_at(event, "type"), text_at(event, "subtype")
    said = type_ == "app_mention" or (type_ == "message" and subtype in _SAID)
    channel, ts = _channel(event), text_at(event, "ts")
    same = (f"said:{team}:{channel}:{ts}",) if said and channel and ts else ()
    # An edit or a deletion is about a message inside of the event.
    message = at(event, "message") or at(event, "previous_message") or event
    return Item(
        keys=(name_at(envelope, "event_id"), *same),
        body=body,
        event=f"{type_}.{subtype}" if subtype else type_,
        conversation=_conversation(team, channel, _thread(event, message)),
        view=View(
            text=text_at(message, "text"),
            sender=text_at(event, "user") or text_at(message, "user") or text_at(event, "bot_id"),
            attachments=_files(message),
        ),
        dated=time_at(envelope, "event_time"),
        is_echo=_is_own(envelope, event) or _is_own(envelope, message),
    )


def _channel(event: Json) -> str:
    return (
        text_at(event, "channel")
        or text_at(event, "item", "channel")
        or text_at(event, "channel", "id")
        or text_at(event, "channel_id")
    )


def _thread(event: Json, message: Json) -> str:
    if text_at(event, "channel_type") == "im" or _channel(event).startswith("D"):
        return ""
    found = text_at(message, "thread_ts") or text_at(message, "ts")
    return found or text_at(event, "thread_ts") or text_at(event, "item", "ts")


def _conversation(team: str, channel: str, thread: str) -> tuple[str, ...]:
    if not channel:
        return ()
    return (team, channel, thread) if thread else (team, channel)


def _is_own(envelope: Json, message: Json) -> bool:
    """Whether our app said it: its bot user, or a bot of its app, or a bot of nobody knows which app."""
    users = [
        text_at(one, "user_id") for one in list_at(envelope, "authorizations") if at(one, "is_bot")
    ]
    if text_at(message, "user") in [user for user in users if user]:
        return True
    if not text_at(message, "bot_id"):
        return False
    app = text_at(message, "app_id") or text_at(message, "bot_profile", "app_id")
    return app in ("", text_at(envelope, "api_app_id"))


def _files(message: Json) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            kind="file",
            id=text_at(one, "id"),
            url=text_at(one, "url_private"),
            name=text_at(one, "name"),
            content_type=text_at(one, "mimetype"),
        )
        for one in list_at(message, "files")
        if text_at(one, "id")
    )


def _interaction(body: bytes, now: datetime) -> Batch:
    fields = read_form(body)
    if text_of(fields, "ssl_check") == "1":
        return Batch((), ignored={"ssl_check": 1})
    given = text_of(fields, "payload")
    if given:
        return Batch((_pressed(read_json(given.encode()), body, now),))
    if not text_of(fields, "command"):
        raise Refused(Result.MALFORMED, "payload_missing")
    team = text_of(fields, "team_id") or text_of(fields, "enterprise_id")
    trigger = text_of(fields, "trigger_id")
    return Batch(
        (
            Item(
                keys=(f"trigger:{trigger}",) if trigger else (body_key(body),),
                body=body,
                content_type=_FORM,
                event="command",
                conversation=_conversation(team, text_of(fields, "channel_id"), ""),
                view=View(
                    text=f"{text_of(fields, 'command')} {text_of(fields, 'text')}".rstrip(),
                    sender=text_of(fields, "user_id"),
                ),
                reply=_response_urls([text_of(fields, "response_url")], now),
            ),
        )
    )


def _pressed(payload: Json, body: bytes, now: datetime) -> Item:
    team = text_at(payload, "team", "id") or text_at(payload, "enterprise", "id")
    channel = text_at(payload, "channel", "id") or text_at(payload, "container", "channel_id")
    thread = text_at(payload, "message", "thread_ts") or text_at(payload, "message", "ts")
    action = at(payload, "actions", 0)
    trigger = text_at(payload, "trigger_id")
    places = (payload, *list_at(payload, "response_urls"))
    urls = [text_at(one, "response_url") for one in places]
    return Item(
        keys=(f"trigger:{trigger}",) if trigger else (body_key(body),),
        body=body,
        content_type=_FORM,
        event=text_at(payload, "type"),
        conversation=_conversation(team, channel, "" if channel.startswith("D") else thread),
        view=View(
            text=text_at(action, "value")
            or text_at(action, "selected_option", "value")
            or text_at(payload, "callback_id")
            or text_at(action, "action_id"),
            sender=text_at(payload, "user", "id"),
        ),
        reply=_response_urls(urls, now),
    )


def _response_urls(urls: Sequence[str], now: datetime) -> Capability | None:
    """The first is answered through. A form may come with more, for other channels, which are as good as it."""
    known = list(dict.fromkeys(url for url in urls if url))
    named = {f"response_url_{n}" if n else "response_url": url for n, url in enumerate(known)}
    return Capability(secrets=named, expires_at=now + _RESPONSE_URL_LIFE) if known else None


provider = Slack()
