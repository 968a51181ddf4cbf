"""Intercom: what users and admins say, the second attempt, contacts, pings, and the look at the URL."""

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
    digest = hmac.new(secrets.active[0], request.body, hashlib.sha1).hexdigest()
    return with_headers(request, x_hub_signature=f"sha1={digest}")


def notification(topic: str, item: dict[str, Any], **fields: object) -> bytes:
    return json.dumps(
        {
            "type": "notification_event",
            "app_id": "a1",
            "data": {"type": "notification_event_data", "item": item},
            "id": "notif_1",
            "topic": topic,
            "delivery_status": "pending",
            "delivery_attempts": 1,
            "first_sent_at": 1796040001,
            "created_at": 1796040000,
            **fields,
        }
    ).encode()


def replied(body: str, author: dict[str, str]) -> dict[str, Any]:
    parts = [
        {"id": "p1", "body": "earlier", "author": {"type": "user", "id": "u1"}},
        {
            "id": "p2",
            "body": body,
            "author": author,
            "attachments": [{"url": "https://i.example/1"}],
        },
    ]
    return {
        "type": "conversation",
        "id": "c1",
        "source": {"body": "first", "author": {"type": "user", "id": "u1"}},
        "conversation_parts": {"type": "conversation_part.list", "conversation_parts": parts},
    }


ANN = {"type": "user", "id": "u1"}
SAID = notification("conversation.user.replied", replied("<p>a waffle maker?</p>", ANN))
AGAIN = notification(
    "conversation.user.replied", replied("<p>a waffle maker?</p>", ANN), delivery_attempts=2
)
STARTED = {**replied("", ANN), "conversation_parts": {"conversation_parts": []}}


def expected(**more: Any) -> Expected:
    return Expected(
        **{
            "keys": ("notif_1",),
            "event": "conversation.user.replied",
            "conversation": ("c1",),
            "text": "<p>a waffle maker?</p>",
            "sender": "u1",
            "attachments": 1,
            "dated": NOW,
            **more,
        }
    )


CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"client-secret",)),
        other=Secrets((b"another-client-secret",)),
        now=NOW,
        options={"own_admins": ["814860"]},
        samples=(
            Sample(
                name="a-reply",
                body=SAID,
                items=(expected(body=SAID),),
                facts={"delivery_attempts": "1"},
            ),
            Sample(
                name="its-second-attempt",
                body=AGAIN,
                items=(expected(),),
                facts={"delivery_attempts": "2"},
            ),
            Sample(
                name="a-conversation-begins",
                body=notification("conversation.user.created", STARTED),
                items=(expected(event="conversation.user.created", text="first", attachments=0),),
                facts={"delivery_attempts": "1"},
            ),
            Sample(
                name="our-own-reply",
                body=notification(
                    "conversation.admin.replied",
                    replied("We have.", {"type": "admin", "id": "814860"}),
                ),
                items=(
                    expected(
                        event="conversation.admin.replied",
                        text="We have.",
                        sender="814860",
                        is_echo=True,
                    ),
                ),
                facts={"delivery_attempts": "1"},
            ),
            Sample(
                name="a-contact",
                body=notification("contact.created", {"type": "contact", "id": "k1"}),
                items=(
                    expected(
                        event="contact.created",
                        conversation=("k1",),
                        text="",
                        sender="k1",
                        attachments=0,
                    ),
                ),
                facts={"delivery_attempts": "1"},
            ),
            Sample(
                name="a-ping",
                body=notification("ping", {"type": "ping", "message": "zen"}, id=None),
                ignored={"ping": 1},
            ),
            Sample(name="a-look-at-the-url", body=b"", method="GET", reply=Reply(200)),
        ),
        vectors=(
            Vector(
                name="computed",
                source="no published one: computed from the documented scheme",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={"x-hub-signature": "sha1=60c9e01611510b5587ed9434904b37190168c25c"},
                    body=b'{"hello":"world"}',
                ),
                secrets=Secrets((b"test-secret",)),
                now=NOW,
            ),
        ),
    ),
)
