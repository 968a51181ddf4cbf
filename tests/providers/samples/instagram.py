"""Instagram: messages, what is taken back, echoes, comments, and the handshake."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

from app.domain.webhook import Reply, Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    del now
    if request.method == "GET":
        return request
    digest = hmac.new(secrets.active[0], request.body, hashlib.sha256).hexdigest()
    return with_headers(request, x_hub_signature_256=f"sha256={digest}")


def told(**fields: object) -> dict[str, object]:
    return {
        "sender": {"id": "U1"},
        "recipient": {"id": "P1"},
        "timestamp": 1796040000000,
        **fields,
    }


def posted(**entry: object) -> bytes:
    whole = {"object": "instagram", "entry": [{"id": "P1", "time": 1796040001000, **entry}]}
    return json.dumps(whole).encode()


def key_of(one: dict[str, object]) -> str:
    body = b"P1\n\n" + json.dumps(one).encode()
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


SAID = told(message={"mid": "m_1", "text": "a waffle maker?"})
SHOWN = told(
    message={
        "mid": "m_2",
        "attachments": [{"type": "image", "payload": {"url": "https://a.example/1"}}],
    }
)
LOVED = told(reaction={"reaction": "love", "emoji": "\u2764", "action": "react", "mid": "m_9"})
ECHO = {
    **told(message={"mid": "m_4", "text": "We have a red one.", "is_echo": True, "app_id": 7}),
    "sender": {"id": "P1"},
    "recipient": {"id": "U1"},
}
TAKEN_BACK = told(message={"mid": "m_1", "is_deleted": True})
COMMENT: dict[str, Any] = {
    "field": "comments",
    "value": {"id": "C1", "from": {"id": "U1", "username": "ann"}, "text": "how much?"},
}

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"app-secret",), {"verify_tokens": (b"told-once",)}),
        other=Secrets((b"another-app-secret",)),
        now=NOW,
        options={"verify_tokens": ["env:META_VERIFY_TOKEN"]},
        samples=(
            Sample(
                name="several-in-one-request",
                body=posted(messaging=[SAID, SHOWN, LOVED]),
                items=(
                    Expected(
                        keys=("m_1",),
                        event="message",
                        conversation=("P1", "U1"),
                        text="a waffle maker?",
                        sender="U1",
                        body=json.dumps(SAID).encode(),
                        dated=NOW,
                    ),
                    Expected(
                        keys=("m_2",),
                        event="message",
                        conversation=("P1", "U1"),
                        sender="U1",
                        attachments=1,
                        body=json.dumps(SHOWN).encode(),
                    ),
                    Expected(
                        keys=(key_of(LOVED),),
                        event="reaction",
                        conversation=("P1", "U1"),
                        text="\u2764",
                        sender="U1",
                        body=json.dumps(LOVED).encode(),
                    ),
                ),
            ),
            Sample(
                name="a-button",
                body=posted(
                    messaging=[
                        told(postback={"mid": "m_3", "title": "Red", "payload": "ORDER_RED"})
                    ]
                ),
                items=(
                    Expected(
                        keys=("m_3",),
                        event="postback",
                        conversation=("P1", "U1"),
                        text="ORDER_RED",
                        sender="U1",
                    ),
                ),
            ),
            Sample(
                name="our-own-message",
                body=posted(messaging=[ECHO]),
                items=(
                    Expected(
                        keys=("m_4",),
                        event="echo",
                        conversation=("P1", "U1"),
                        text="We have a red one.",
                        sender="P1",
                        is_echo=True,
                    ),
                ),
            ),
            Sample(
                name="what-is-taken-back-is-not-what-was-said",
                body=posted(messaging=[TAKEN_BACK]),
                items=(
                    Expected(
                        keys=(key_of(TAKEN_BACK),),
                        event="message.deleted",
                        conversation=("P1", "U1"),
                        sender="U1",
                    ),
                ),
            ),
            Sample(
                name="a-comment",
                body=posted(changes=[COMMENT]),
                items=(
                    Expected(
                        keys=("comments:C1",),
                        event="comments",
                        text="how much?",
                        sender="U1",
                        body=json.dumps(COMMENT).encode(),
                    ),
                ),
            ),
            Sample(
                name="a-comment-that-stands-in-its-entry",
                body=posted(field="comments", value={**COMMENT["value"], "id": "C2"}),
                items=(
                    Expected(
                        keys=("comments:C2",), event="comments", text="how much?", sender="U1"
                    ),
                ),
            ),
            Sample(
                name="our-own-comment",
                body=posted(
                    changes=[
                        {
                            "field": "comments",
                            "value": {"id": "C3", "from": {"id": "P1"}, "text": "30 euros"},
                        }
                    ]
                ),
                items=(
                    Expected(
                        keys=("comments:C3",),
                        event="comments",
                        text="30 euros",
                        sender="P1",
                        is_echo=True,
                    ),
                ),
            ),
            Sample(
                name="the-handshake",
                body=b"",
                method="GET",
                url=f"{URL}?hub.mode=subscribe&hub.challenge=42&hub.verify_token=told-once",
                reply=Reply(200, b"42", "text/plain; charset=utf-8"),
            ),
        ),
        vectors=(
            Vector(
                name="computed",
                source="no published one: computed from the documented scheme",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "x-hub-signature-256": "sha256="
                        "84cc33df716ed0b0598f07437c94069ace3730358778a592bd6bbd1423d111f3"
                    },
                    body=b'{"hello":"world"}',
                ),
                secrets=Secrets((b"test-secret",)),
                now=NOW,
                options={"verify_tokens": ["env:META_VERIFY_TOKEN"]},
            ),
        ),
    ),
)
