"""SendGrid: events, and mail in more than one character set; by signature, and by a secret in the URL."""

import base64
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers
from tests.providers.signing_keys import elliptic_key, shown_key

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
BOUNDARY = "xYzZY"
MULTIPART = f'multipart/form-data; boundary="{BOUNDARY}"'
SHOWN = (
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1"
    "flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=="
)


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:  # noqa: ARG001
    time = str(int(now.timestamp()))
    signature = elliptic_key(7).sign(time.encode() + request.body, ec.ECDSA(SHA256()))
    return with_headers(
        request,
        x_twilio_email_event_webhook_signature=base64.b64encode(signature).decode(),
        x_twilio_email_event_webhook_timestamp=time,
    )


def sign_url(request: Request, secrets: Secrets, now: datetime) -> Request:  # noqa: ARG001
    told = base64.b64encode(secrets.named["url_secrets"][0]).decode()
    return with_headers(request, authorization=f"Basic {told}")


def without_secret(request: Request) -> Request:
    kept = {name: value for name, value in request.headers.items() if name != "authorization"}
    return replace(request, headers=kept)


BOUNCED = {
    "email": "hello@world.com",
    "event": "bounce",
    "reason": "500 unknown recipient",
    "sg_event_id": "Ym91bmNl",
    "timestamp": 1796040000,
}
NAMELESS = {"email": "hello@world.com", "event": "processed", "timestamp": 1796040000}
EVENTS = json.dumps([BOUNCED, NAMELESS], indent=1).encode() + b"\r\n"


def raw(one: object) -> bytes:
    return json.dumps([one], indent=1).encode()[3:-2]


def part(name: str, value: bytes, more: str = "") -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


HEADERS = (
    b"Received: by mx0047p1mdw1.sendgrid.net\nMessage-ID: <third@acme.example>\n"
    b"References: <first@acme.example>\n <second@ours.example>\nSubject: =?utf-8?q?Re?=\n"
)


def mail(**more: bytes) -> bytes:
    fields = {
        "headers": HEADERS,
        "from": b"Ada <ada@acme.example>",
        "to": b"Help <help@ours.example>",
        "subject": "Re: Waffles \u2615".encode(),
        "text": "Grüße, a red one?".encode("iso-8859-1"),
        "envelope": b'{"to":["Help@Ours.example"],"from":"ada@acme.example"}',
        "charsets": b'{"to":"UTF-8","subject":"UTF-8","from":"UTF-8","text":"iso-8859-1"}',
        **more,
    }
    told = b"".join(part(name, value) for name, value in fields.items())
    file = part(
        "attachment1", b"\x89PNG\r\n--x\x00", '; filename="a.png"\r\nContent-Type: image/png'
    )
    return told + file + f"--{BOUNDARY}--\r\n".encode()


MAIL = mail()
OURS = mail(**{"from": b"bot@ours.example", "envelope": b'{"to":["help@ours.example"],"from":""}'})
SHAPELESS = mail(headers=b"nothing", envelope=b"[", charsets=b"1", text="ä".encode())


def same(**more: bytes) -> str:
    """The hash of the fields of a mail without an id, reckoned by hand."""
    body = mail(**more)
    digest = hashlib.sha256()
    for piece in body.split(f"--{BOUNDARY}".encode())[1:-2]:
        head, _, value = piece.partition(b"\r\n\r\n")
        name = head.partition(b'name="')[2].partition(b'"')[0]
        value = value.removesuffix(b"\r\n")
        digest.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return "sha256:" + hashlib.sha256(digest.digest()).hexdigest()


def inbound(body: bytes, **more: object) -> Expected:
    told: dict[str, object] = {
        "keys": ("<third@acme.example>:help@ours.example",),
        "conversation": ("help@ours.example", "first@acme.example"),
        "text": "Grüße, a red one?",
        "sender": "Ada <ada@acme.example>",
        "attachments": 1,
        **more,
    }
    return Expected(event="inbound", body=body, **told)  # type: ignore[arg-type]


SAMPLES = (
    Sample(
        name="events",
        body=EVENTS,
        items=(
            Expected(
                keys=("Ym91bmNl",),
                event="bounce",
                text="500 unknown recipient",
                sender="hello@world.com",
                body=raw(BOUNCED),
                dated=NOW,
            ),
            Expected(
                keys=("sha256:" + hashlib.sha256(raw(NAMELESS)).hexdigest(),),
                event="processed",
                sender="hello@world.com",
                body=raw(NAMELESS),
                dated=NOW,
            ),
        ),
    ),
    Sample(name="no-events", body=b"[]\r\n"),
    Sample(
        name="a-mail",
        body=MAIL,
        content_type=MULTIPART,
        items=(
            inbound(
                MAIL,
                reply={
                    "to": "ada@acme.example",
                    "message_id": "<third@acme.example>",
                    "references": "<first@acme.example> <second@ours.example>",
                    "subject": "Re: Waffles \u2615",
                },
            ),
        ),
    ),
    Sample(
        name="our-own-with-a-null-sender",
        body=OURS,
        content_type=MULTIPART,
        items=(inbound(OURS, sender="bot@ours.example", is_echo=True),),
    ),
    Sample(
        name="a-mail-without-shape",
        body=SHAPELESS,
        content_type=MULTIPART,
        items=(
            inbound(
                SHAPELESS,
                keys=(same(headers=b"nothing", envelope=b"[", charsets=b"1", text="ä".encode()),),
                conversation=(),
                text="ä",
                reply={"to": "ada@acme.example", "subject": "Re: Waffles \u2615"},
            ),
        ),
    ),
)

CASES = (
    Case(
        sign=sign,
        secrets=Secrets(()),
        other=Secrets(()),
        now=NOW,
        options={
            "public_keys": [shown_key(8), shown_key(7)],
            "own_addresses": ["bot@ours.example"],
        },
        samples=SAMPLES,
        vectors=(
            Vector(
                name="library",
                source="sendgrid-python, test_eventwebhook.py",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "content-type": "application/json",
                        "x-twilio-email-event-webhook-timestamp": "1600112502",
                        "x-twilio-email-event-webhook-signature": (
                            "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M"
                            "15TluLtEZtM="
                        ),
                    },
                    body=(
                        b'[{"email":"hello@world.com","event":"dropped","reason":"Bounced Address","sg_event_id":'
                        b'"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA","sg_message_id":'
                        b'"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0","smtp-id":'
                        b'"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>","timestamp":1600112492}]\r\n'
                    ),
                ),
                secrets=Secrets(()),
                now=datetime.fromtimestamp(1600112502, UTC),
                options={"public_keys": [SHOWN]},
            ),
        ),
    ),
    Case(
        sign=sign_url,
        secrets=Secrets((), {"url_secrets": (b"sendgrid:c0ffee",)}),
        other=Secrets((), {"url_secrets": (b"sendgrid:decaf",)}),
        now=NOW,
        options={"url_secrets": ["env:SENDGRID_URL_SECRET"]},
        samples=(SAMPLES[2],),
        tampered={"secret": without_secret},
    ),
)
