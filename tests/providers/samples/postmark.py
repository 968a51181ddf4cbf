"""Postmark: mail of a thread, mail that nobody is to answer, our own, and events; by both secrets in a URL."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime

from app.domain.webhook import Request, Secrets
from tests.providers.cases import Case, Expected, Sample, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MAILBOX = "451d9b70cf9364d23ff6f9d51d870251569e+ahoy@inbound.postmarkapp.com"


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:  # noqa: ARG001
    told = base64.b64encode(secrets.active[0]).decode()
    return with_headers(request, authorization=f"Basic {told}")


def sign_url(request: Request, secrets: Secrets, now: datetime) -> Request:  # noqa: ARG001
    url = request.public_url.partition("?")[0]
    return replace(request, public_url=f"{url}?token={secrets.active[0].decode()}")


def without_secret(request: Request) -> Request:
    kept = {name: value for name, value in request.headers.items() if name != "authorization"}
    return replace(request, headers=kept, public_url=request.public_url.partition("?")[0])


def mail(id_: str, headers: dict[str, str], **more: object) -> bytes:
    told = {
        "FromName": "Ada",
        "MessageStream": "inbound",
        "From": "ada@acme.example",
        "FromFull": {"Email": "ada@acme.example", "Name": "Ada", "MailboxHash": ""},
        "ToFull": [{"Email": MAILBOX, "Name": "", "MailboxHash": "ahoy"}],
        "OriginalRecipient": MAILBOX,
        "Subject": "Re: Waffles",
        "MessageID": id_,
        "ReplyTo": "",
        "MailboxHash": "ahoy",
        "Date": "Mon, 30 Nov 2026 12:00:00 +0000",
        "TextBody": "a red one?\n\n> which one?",
        "StrippedTextReply": "a red one?",
        "Headers": [{"Name": name, "Value": value} for name, value in headers.items()],
        "Attachments": [],
        **more,
    }
    return json.dumps(told).encode()


ANSWERED = mail(
    "22c74902-a0c1-4511-804f2-341342852c90",
    {
        "Message-ID": "<third@acme.example>",
        "In-Reply-To": "<second@ours.example>",
        "References": "<first@acme.example> <second@ours.example>",
    },
    Attachments=[{"Name": "a.png", "Content": "AAAA", "ContentType": "image/png", "ContentID": ""}],
)
FACTS = {
    "to": "ada@acme.example",
    "message_id": "<third@acme.example>",
    "references": "<first@acme.example> <second@ours.example>",
    "subject": "Re: Waffles",
}
FIRST = mail("m2", {"Message-ID": "<first@acme.example>"}, ReplyTo='"A, B" <ada@home.example>')
AUTOMATIC = mail("m3", {"Message-ID": "<away@acme.example>", "Auto-Submitted": "auto-replied"})
LISTED = mail("m4", {"Message-ID": "<l@acme.example>", "Precedence": "bulk"})
OURS = mail("m5", {"Message-ID": "<o@ours.example>"}, FromFull={"Email": "Help@Ours.example"})
BOUNCE = json.dumps(
    {
        "RecordType": "Bounce",
        "ID": 4323372036854775807,
        "MessageID": "883953f4-6105-42a2-a16a-77a8eac79483",
        "Description": "The server was unable to deliver your message.",
        "Email": "john@example.com",
        "BouncedAt": "2026-11-30T12:00:00Z",
    }
).encode()
DELIVERED = json.dumps(
    {
        "RecordType": "Delivery",
        "MessageID": "883953f4",
        "Recipient": "john@example.com",
        "DeliveredAt": "2026-11-30T12:00:00Z",
        "Details": "Test delivery",
    }
).encode()


def inbound(key: str, body: bytes, root: str, **more: object) -> Expected:
    told: dict[str, object] = {"sender": "ada@acme.example", **more}
    return Expected(
        keys=(key,),
        event="inbound",
        conversation=(MAILBOX, root),
        text="a red one?",
        body=body,
        **told,  # type: ignore[arg-type]
    )


SAMPLES = (
    Sample(
        name="an-answer",
        body=ANSWERED,
        items=(
            inbound(
                "22c74902-a0c1-4511-804f2-341342852c90",
                ANSWERED,
                "first@acme.example",
                attachments=1,
                reply=FACTS,
            ),
        ),
    ),
    Sample(
        name="the-first-of-a-thread",
        body=FIRST,
        items=(
            inbound(
                "m2",
                FIRST,
                "first@acme.example",
                reply={
                    "to": "ada@home.example",
                    "message_id": "<first@acme.example>",
                    "subject": "Re: Waffles",
                },
            ),
        ),
    ),
    Sample(
        name="a-machine-s-answer",
        body=AUTOMATIC,
        items=(inbound("m3", AUTOMATIC, "away@acme.example"),),
    ),
    Sample(name="a-list-s", body=LISTED, items=(inbound("m4", LISTED, "l@acme.example"),)),
    Sample(
        name="our-own",
        body=OURS,
        items=(
            inbound(
                "m5",
                OURS,
                "o@ours.example",
                sender="Help@Ours.example",
                is_echo=True,
                reply={
                    "to": "Help@Ours.example",
                    "message_id": "<o@ours.example>",
                    "subject": "Re: Waffles",
                },
            ),
        ),
    ),
    Sample(
        name="a-bounce",
        body=BOUNCE,
        items=(
            Expected(
                keys=("Bounce:4323372036854775807",),
                event="Bounce",
                text="The server was unable to deliver your message.",
                sender="john@example.com",
                dated=NOW,
            ),
        ),
    ),
    Sample(
        name="a-delivery",
        body=DELIVERED,
        items=(
            Expected(
                keys=("Delivery:883953f4:john@example.com:2026-11-30T12:00:00Z",),
                event="Delivery",
                text="Test delivery",
                sender="john@example.com",
                dated=NOW,
            ),
        ),
    ),
)

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((b"postmark:a pass:word",)),
        other=Secrets((b"postmark:another",)),
        now=NOW,
        options={"own_addresses": ["help@ours.example"]},
        samples=SAMPLES,
        tampered={"secret": without_secret},
    ),
    Case(
        sign=sign_url,
        secrets=Secrets((b"c0ffee",)),
        other=Secrets((b"decaf",)),
        now=NOW,
        samples=SAMPLES[:1],
        tampered={"secret": without_secret},
    ),
)
