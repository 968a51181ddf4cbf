"""Slack: events, mentions, edits, echoes, buttons, commands and the handshake; and the vector of its own pages."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from urllib.parse import urlencode

from app.domain.webhook import Reply, Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FORM = "application/x-www-form-urlencoded"
RESPONSE_URL = "https://hooks.slack.com/actions/T1/123/aBcD"


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    time = str(int(now.timestamp()))
    signed = b"v0:" + time.encode() + b":" + request.body
    digest = hmac.new(secrets.active[0], signed, hashlib.sha256).hexdigest()
    return with_headers(request, x_slack_request_timestamp=time, x_slack_signature=f"v0={digest}")


def event(event_id: str, **event: object) -> bytes:
    envelope = {
        "token": "XXYYZZ",
        "team_id": "T1",
        "api_app_id": "A1",
        "event": event,
        "type": "event_callback",
        "event_id": event_id,
        "event_time": 1796040000,
        "authorizations": [{"team_id": "T1", "user_id": "UBOT", "is_bot": True}],
    }
    return json.dumps(envelope).encode()


MESSAGE = event(
    "Ev1", type="message", channel="C1", user="U1", text="a waffle maker?", ts="1796040000.000100"
)
PRESSED = {
    "type": "block_actions",
    "team": {"id": "T1"},
    "user": {"id": "U1"},
    "trigger_id": "1.2.abc",
    "container": {"type": "message", "message_ts": "1796040000.000300", "channel_id": "C1"},
    "channel": {"id": "C1"},
    "message": {"ts": "1796040000.000300", "thread_ts": "1796040000.000100"},
    "response_url": RESPONSE_URL,
    "actions": [{"action_id": "order", "value": "red", "action_ts": "1796040001.1"}],
}
COMMAND = {
    "team_id": "T1",
    "channel_id": "C1",
    "user_id": "U1",
    "command": "/order",
    "text": "a red one",
    "response_url": RESPONSE_URL,
    "trigger_id": "3.4.def",
}
VECTOR_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"8f742231b10e8888abcd99yyyzzz85a5",)),
        other=Secrets((b"another-signing-secret",)),
        now=NOW,
        samples=(
            Sample(
                name="a-message",
                body=MESSAGE,
                headers={"x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout"},
                items=(
                    Expected(
                        keys=("Ev1", "said:T1:C1:1796040000.000100"),
                        event="message",
                        conversation=("T1", "C1", "1796040000.000100"),
                        text="a waffle maker?",
                        sender="U1",
                        body=MESSAGE,
                        dated=NOW,
                    ),
                ),
            ),
            Sample(
                name="the-same-as-a-mention",
                body=event(
                    "Ev2",
                    type="app_mention",
                    channel="C1",
                    user="U1",
                    text="a waffle maker?",
                    ts="1796040000.000100",
                ),
                items=(
                    Expected(
                        keys=("Ev2", "said:T1:C1:1796040000.000100"),
                        event="app_mention",
                        conversation=("T1", "C1", "1796040000.000100"),
                        text="a waffle maker?",
                        sender="U1",
                    ),
                ),
            ),
            Sample(
                name="in-a-thread-with-a-file",
                body=event(
                    "Ev3",
                    type="message",
                    subtype="file_share",
                    channel="C1",
                    user="U1",
                    text="this one",
                    ts="1796040002.000100",
                    thread_ts="1796040000.000100",
                    files=[{"id": "F1", "name": "a.png", "mimetype": "image/png"}],
                ),
                items=(
                    Expected(
                        keys=("Ev3", "said:T1:C1:1796040002.000100"),
                        event="message.file_share",
                        conversation=("T1", "C1", "1796040000.000100"),
                        text="this one",
                        sender="U1",
                        attachments=1,
                    ),
                ),
            ),
            Sample(
                name="a-direct-message",
                body=event(
                    "Ev4",
                    type="message",
                    channel="D1",
                    channel_type="im",
                    user="U1",
                    text="hi",
                    ts="1796040003.000100",
                ),
                items=(
                    Expected(
                        keys=("Ev4", "said:T1:D1:1796040003.000100"),
                        event="message",
                        conversation=("T1", "D1"),
                        text="hi",
                        sender="U1",
                    ),
                ),
            ),
            Sample(
                name="an-edit-has-no-second-key",
                body=event(
                    "Ev5",
                    type="message",
                    subtype="message_changed",
                    channel="C1",
                    ts="1796040004.000100",
                    message={"user": "U1", "text": "a red one?", "ts": "1796040000.000100"},
                ),
                items=(
                    Expected(
                        keys=("Ev5",),
                        event="message.message_changed",
                        conversation=("T1", "C1", "1796040000.000100"),
                        text="a red one?",
                        sender="U1",
                    ),
                ),
            ),
            Sample(
                name="our-own-message",
                body=event(
                    "Ev6",
                    type="message",
                    channel="C1",
                    user="UBOT",
                    bot_id="B1",
                    app_id="A1",
                    text="We have a red one.",
                    ts="1796040005.000100",
                ),
                items=(
                    Expected(
                        keys=("Ev6", "said:T1:C1:1796040005.000100"),
                        event="message",
                        conversation=("T1", "C1", "1796040005.000100"),
                        text="We have a red one.",
                        sender="UBOT",
                        is_echo=True,
                    ),
                ),
            ),
            Sample(
                name="a-bot-of-nobody-knows-which-app",
                body=event(
                    "Ev8",
                    type="message",
                    subtype="bot_message",
                    channel="C1",
                    bot_id="B1",
                    text="We have a red one.",
                    ts="1796040007.000100",
                ),
                items=(
                    Expected(
                        keys=("Ev8",),
                        event="message.bot_message",
                        conversation=("T1", "C1", "1796040007.000100"),
                        text="We have a red one.",
                        sender="B1",
                        is_echo=True,
                    ),
                ),
            ),
            Sample(
                name="another-app-s-message",
                body=event(
                    "Ev7",
                    type="message",
                    channel="C1",
                    bot_id="B2",
                    app_id="A2",
                    text="deployed",
                    ts="1796040006.000100",
                ),
                items=(
                    Expected(
                        keys=("Ev7", "said:T1:C1:1796040006.000100"),
                        event="message",
                        conversation=("T1", "C1", "1796040006.000100"),
                        text="deployed",
                        sender="B2",
                    ),
                ),
            ),
            Sample(
                name="a-button",
                body=urlencode({"payload": json.dumps(PRESSED)}).encode(),
                content_type=FORM,
                items=(
                    Expected(
                        keys=("trigger:1.2.abc",),
                        event="block_actions",
                        conversation=("T1", "C1", "1796040000.000100"),
                        text="red",
                        sender="U1",
                        reply={"response_url": RESPONSE_URL},
                    ),
                ),
            ),
            Sample(
                name="a-command",
                body=urlencode(COMMAND).encode(),
                content_type=FORM,
                items=(
                    Expected(
                        keys=("trigger:3.4.def",),
                        event="command",
                        conversation=("T1", "C1"),
                        text="/order a red one",
                        sender="U1",
                        reply={"response_url": RESPONSE_URL},
                    ),
                ),
            ),
            Sample(
                name="the-handshake",
                body=b'{"token": "x", "challenge": "3eZbrw1aB", "type": "url_verification"}',
                reply=Reply(200, b"3eZbrw1aB", "text/plain; charset=utf-8"),
            ),
            Sample(
                name="a-look-at-the-certificate",
                body=b"token=x&ssl_check=1",
                content_type=FORM,
                ignored={"ssl_check": 1},
            ),
        ),
        vectors=(
            Vector(
                name="command",
                source="docs.slack.dev, verifying requests from Slack",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "content-type": FORM,
                        "x-slack-request-timestamp": "1531420618",
                        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
                    },
                    body=VECTOR_BODY,
                ),
                secrets=Secrets((b"8f742231b10e8888abcd99yyyzzz85a5",)),
                now=datetime.fromtimestamp(1531420618, UTC),
            ),
        ),
    ),
)
