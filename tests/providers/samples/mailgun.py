"""Mailgun: events, and mail by routes as a form, with files, and raw."""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FORM = "application/x-www-form-urlencoded"
BOUNDARY = "a1b2c3"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"
# What the samples hold in the place of a time and of a signature, of the same length as both.
TIME, TOKEN, SIGNATURE = "TTTTTTTTTT", "a" * 50, "S" * 64
SECRET = b"key-test"


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    time = str(int(now.timestamp()))
    told = (time + TOKEN).encode()
    signature = hmac.new(secrets.active[0], told, hashlib.sha256).hexdigest()
    body = request.body.replace(TIME.encode(), time.encode())
    return replace(request, body=body.replace(SIGNATURE.encode(), signature.encode()))


def sign_with_url(request: Request, secrets: Secrets, now: datetime) -> Request:
    told = base64.b64encode(secrets.named["url_secrets"][0]).decode()
    return with_headers(sign(request, secrets, now), authorization=f"Basic {told}")


def changed(pattern: bytes, by: bytes) -> Callable[[Request], Request]:
    """A request with what a pattern finds first written in another way."""

    def change(request: Request) -> Request:
        body = re.sub(pattern, by, request.body, count=1)
        assert body != request.body
        return replace(request, body=body)

    return change


TAMPERED = {
    "timestamp": changed(rb"17960400(00)", rb"1796040011"),
    "token": changed(rb"a{50}", b"b" * 50),
    "signature": changed(rb"[0-9a-f]{64}", b"0" * 64),
}


def ready(body: bytes) -> bytes:
    """The sample as it is signed at its time, with the first secret."""
    request = Request(method="POST", public_url=URL, headers={}, body=body)
    return sign(request, Secrets((SECRET,)), NOW).body


SIGNED = {"timestamp": TIME, "token": TOKEN, "signature": SIGNATURE}


def event(**data: object) -> bytes:
    return ready(json.dumps({"signature": SIGNED, "event-data": data}).encode())


FAILED = event(
    **{
        "event": "failed",
        "severity": "permanent",
        "id": "G9Bn5sl1TC6nu79C8C0bwg",
        "timestamp": 1796040000.5,
        "recipient": "alice@example.com",
        "delivery-status": {"code": 605, "description": "Not delivering to previously bounced"},
    }
)
NAMELESS = event(event="opened", recipient="alice@example.com")
HEADERS = [
    ["Message-Id", "<third@acme.example>"],
    ["References", "<first@acme.example>\r\n <second@ours.example>"],
    ["Reply-To", "Ada <ada@home.example>"],
]
MAIL = {
    "recipient": "Help@mg.ours.example",
    "sender": "bounces@acme.example",
    "from": '"Ada, of <Acme>" <ada@acme.example>',
    "subject": "Re: Waffles",
    "body-plain": "a red one? \u2615\n\n> which?",
    "stripped-text": "a red one? \u2615",
    "message-headers": json.dumps(HEADERS),
}
AS_FORM = ready(urlencode({**MAIL, **SIGNED}).encode())
FACTS = {
    "to": "ada@home.example",
    "message_id": "<third@acme.example>",
    "references": "<first@acme.example> <second@ours.example>",
    "subject": "Re: Waffles",
}


def parts(fields: dict[str, str]) -> bytes:
    """A form with a file of any bytes."""
    told = b"".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    )
    file = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="attachment-1"; filename="a.png"\r\n'
        "Content-Type: image/png\r\n\r\n"
    ).encode() + b"\x89PNG\r\n\x00\xff\r\n"
    return ready(told + file + f"--{BOUNDARY}--\r\n".encode())


WITH_FILE = parts({**MAIL, **SIGNED})
RAW = ready(
    urlencode(
        {
            "recipient": "help@mg.ours.example",
            "sender": "",
            "from": "Mailer <daemon@acme.example>",
            "subject": "Returned",
            "body-mime": "From: daemon@acme.example\r\nMessage-ID:\r\n <raw@acme.example>\r\n\r\nno",
            **SIGNED,
        }
    ).encode()
)
OURS = ready(
    urlencode({**MAIL, "from": "help@ours.example", "message-headers": "[", **SIGNED}).encode()
)
NONCE = f"signed:1796040000{TOKEN}"


def same() -> str:
    """The hash of the fields of a mail without an id, reckoned by hand."""
    digest = hashlib.sha256()
    fields = {**MAIL, "from": "help@ours.example", "message-headers": "["}
    for name, value in fields.items():
        given, told = name.encode(), value.encode()
        digest.update(b"%d:%b%d:%b" % (len(given), given, len(told), told))
    return "sha256:" + hashlib.sha256(digest.digest()).hexdigest()


def inbound(body: bytes, **more: object) -> Expected:
    told: dict[str, object] = {
        "keys": ("<third@acme.example>:help@mg.ours.example", NONCE),
        "conversation": ("help@mg.ours.example", "first@acme.example"),
        "text": "a red one? \u2615",
        "sender": '"Ada, of <Acme>" <ada@acme.example>',
        "reply": FACTS,
        **more,
    }
    return Expected(event="inbound", body=body, **told)  # type: ignore[arg-type]


SAMPLES = (
    Sample(
        name="a-failure",
        body=FAILED,
        items=(
            Expected(
                keys=("G9Bn5sl1TC6nu79C8C0bwg", NONCE),
                event="failed.permanent",
                text="Not delivering to previously bounced",
                sender="alice@example.com",
                body=FAILED,
                dated=NOW.replace(microsecond=500_000),
            ),
        ),
    ),
    Sample(
        name="without-an-id",
        body=NAMELESS,
        items=(Expected(keys=(NONCE,), event="opened", sender="alice@example.com"),),
    ),
    Sample(name="a-mail", body=AS_FORM, content_type=FORM, items=(inbound(AS_FORM),)),
    Sample(
        name="a-mail-with-a-file",
        body=WITH_FILE,
        content_type=MULTIPART,
        items=(inbound(WITH_FILE, attachments=1),),
    ),
    Sample(
        name="a-raw-mail-that-came-back",
        body=RAW,
        content_type=FORM,
        items=(
            inbound(
                RAW,
                keys=("<raw@acme.example>:help@mg.ours.example", NONCE),
                conversation=("help@mg.ours.example", "raw@acme.example"),
                text="Returned",
                sender="Mailer <daemon@acme.example>",
                reply=None,
            ),
        ),
    ),
    Sample(
        name="our-own-without-headers",
        body=OURS,
        content_type=FORM,
        items=(
            inbound(
                OURS,
                keys=(same(), NONCE),
                conversation=(),
                sender="help@ours.example",
                reply={"to": "help@ours.example", "subject": "Re: Waffles"},
                is_echo=True,
            ),
        ),
    ),
)

CASES = (
    Case(
        sign=sign,
        secrets=Secrets((SECRET,)),
        other=Secrets((b"key-other",)),
        now=NOW,
        options={"own_addresses": ["help@ours.example"]},
        samples=SAMPLES,
        tampered=TAMPERED,
        vectors=(
            Vector(
                name="computed-elsewhere",
                source="none is published: HMAC-SHA256 of time and token, computed by hand",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={"content-type": FORM},
                    body=(
                        b"timestamp=1700000000&token=" + b"a" * 50 + b"&signature="
                        b"8414973702a199ecf9dbadc55c25f39fa5bcdfc55ff7471be90f2e382eeb50cd"
                    ),
                ),
                secrets=Secrets((b"test-secret",)),
                now=datetime.fromtimestamp(1700000000, UTC),
            ),
        ),
    ),
    Case(
        sign=sign_with_url,
        secrets=Secrets((SECRET,), {"url_secrets": (b"mailgun:c0ffee",)}),
        other=Secrets((b"key-other",), {"url_secrets": (b"mailgun:c0ffee",)}),
        now=NOW,
        options={"url_secrets": ["env:MAILGUN_URL_SECRET"]},
        samples=SAMPLES[:1],
        tampered=TAMPERED,
    ),
)
