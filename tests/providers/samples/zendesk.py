"""Zendesk: events of tickets and messages, and what triggers send as JSON, as a form and as XML."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
TIME = "2026-11-30T12:00:00Z"


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hmac.new(secrets.active[0], time.encode() + request.body, hashlib.sha256).digest()
    return with_headers(
        request,
        x_zendesk_webhook_signature=base64.b64encode(digest).decode(),
        x_zendesk_webhook_signature_timestamp=time,
    )


def event(type_: str, id_: str, subject: str, **more: object) -> bytes:
    told = {
        "account_id": 21825834,
        "id": id_,
        "subject": subject,
        "time": "2026-11-30T11:59:59.123456789Z",
        "type": f"zen:event-type:{type_}",
        "zendesk_event_version": "2022-11-06",
        **more,
    }
    return json.dumps(told).encode()


def comment(author: str) -> dict[str, object]:
    return {
        "author": {"id": author, "is_staff": False, "name": "Ada"},
        "body": "Is there a red one?",
        "id": "c1",
        "is_public": True,
        "attachments": [{"id": "a1", "content_url": "https://z.example/a1", "filename": "a.png"}],
    }


ADDED = event(
    "ticket.comment_added",
    "01HN1",
    "zen:ticket:141",
    detail={"id": "141", "subject": "Waffles", "description": "A waffle maker?"},
    event={"comment": comment("77")},
)
OURS = event(
    "ticket.comment_added",
    "01HN2",
    "zen:ticket:141",
    detail={"id": "141"},
    event={"comment": comment("99")},
)
SAID = event(
    "messaging_ticket.message_added",
    "01HN3",
    "zen:ticket:142",
    detail={"id": "142"},
    event={"actor": {"id": "78"}, "message": {"body": "Hi there.", "id": "m1"}},
)
TRIGGERED = b'{"ticket_id": 35436, "comment": "The smoke is very colorful.", "author_id": "77"}'
AS_FORM = b"ticket_id=35437&comment=a+red+one"
AS_XML = b"<ticket><id>35438</id></ticket>"


def key(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(TIME.encode() + body).hexdigest()


CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==",)),
        other=Secrets((b"another-secret",)),
        now=NOW,
        options={"own_users": ["99"]},
        samples=(
            Sample(
                name="a-comment",
                body=ADDED,
                headers={"x-zendesk-webhook-invocation-id": "8350205582"},
                items=(
                    Expected(
                        keys=("01HN1",),
                        event="ticket.comment_added",
                        conversation=("141",),
                        text="Is there a red one?",
                        sender="77",
                        attachments=1,
                        body=ADDED,
                    ),
                ),
            ),
            Sample(
                name="a-comment-of-ours",
                body=OURS,
                items=(
                    Expected(
                        keys=("01HN2",),
                        event="ticket.comment_added",
                        conversation=("141",),
                        text="Is there a red one?",
                        sender="99",
                        attachments=1,
                        is_echo=True,
                    ),
                ),
            ),
            Sample(
                name="a-chat-message",
                body=SAID,
                items=(
                    Expected(
                        keys=("01HN3",),
                        event="messaging_ticket.message_added",
                        conversation=("142",),
                        text="Hi there.",
                        sender="78",
                    ),
                ),
            ),
            Sample(
                name="a-trigger",
                body=TRIGGERED,
                headers={"x-zendesk-webhook-invocation-id": "8350205583"},
                items=(
                    Expected(
                        keys=("invocation:8350205583", key(TRIGGERED)),
                        event="trigger",
                        conversation=("35436",),
                        text="The smoke is very colorful.",
                        sender="77",
                        body=TRIGGERED,
                    ),
                ),
            ),
            Sample(
                name="a-trigger-s-form",
                body=AS_FORM,
                content_type="application/x-www-form-urlencoded",
                items=(
                    Expected(
                        keys=(key(AS_FORM),),
                        event="trigger",
                        conversation=("35437",),
                        text="a red one",
                    ),
                ),
            ),
            Sample(
                name="a-trigger-s-xml",
                body=AS_XML,
                content_type="application/xml",
                items=(Expected(keys=(key(AS_XML),), event="trigger", body=AS_XML),),
            ),
        ),
        vectors=(
            Vector(
                name="computed-elsewhere",
                source="none is published: base64 of HMAC-SHA256 of time and body, computed by hand",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "content-type": "application/json",
                        "x-zendesk-webhook-signature": "hiUCVCKB35fLmKOWn+1mJhV+uCIdWD97Nyp19rRsUTQ=",
                        "x-zendesk-webhook-signature-timestamp": "2023-11-14T22:13:20Z",
                    },
                    body=b'{"hello":"world"}',
                ),
                secrets=Secrets((b"test-secret",)),
                now=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
            ),
        ),
    ),
)
