"""Any sender with HMAC: a plain signature, one with time and URL in a list of fields, and one with a signed id."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime

from app.domain.webhook import Request, Secrets, body_key
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
BODY = (
    b'{"id": 42, "kind": "said", "thread": {"id": "t-1"}, "who": "ann", "words": "a waffle maker?"}'
)


def plain(request: Request, secrets: Secrets, now: datetime) -> Request:
    del now
    digest = hmac.new(secrets.active[0], request.body, hashlib.sha256).hexdigest()
    return with_headers(request, x_signature=f"sha256={digest}", x_event_id="e-1")


def listed(request: Request, secrets: Secrets, now: datetime) -> Request:
    time = str(int(now.timestamp() * 1000))
    signed = f"{time}|{request.method} {request.public_url}|".encode() + request.body
    digest = base64.b64encode(hmac.new(secrets.active[0], signed, hashlib.sha512).digest())
    return with_headers(request, x_sign=f"t={time},v2={digest.decode()}")


def with_id(request: Request, secrets: Secrets, now: datetime) -> Request:
    time = str(int(now.timestamp()))
    key = bytes.fromhex(secrets.active[0].decode())
    digest = hmac.new(key, f"e-1.{time}.".encode() + request.body, hashlib.sha1).hexdigest()
    return with_headers(request, x_event_id="e-1", x_time=time, x_signature=digest)


SAID = Expected(
    keys=("42",),
    event="said",
    conversation=("t-1",),
    text="a waffle maker?",
    sender="ann",
    body=BODY,
)

CASES = (
    Case(
        sign=plain,
        secrets=Secrets((b"one secret",)),
        other=Secrets((b"another secret",)),
        now=NOW,
        options={
            "signature_header": "X-Signature",
            "signature_prefix": "sha256=",
            "id_path": "id",
            "conversation_path": "thread.id",
            "event_path": "kind",
            "text_path": "words",
            "sender_path": "who",
        },
        samples=(Sample(name="json", body=BODY, items=(SAID,)),),
        vectors=(
            Vector(
                name="github",
                source="docs.github.com, validating webhook deliveries",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={
                        "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
                    },
                    body=b"Hello, World!",
                ),
                secrets=Secrets((b"It's a Secret to Everybody",)),
                now=NOW,
                options={"signature_header": "X-Hub-Signature-256", "signature_prefix": "sha256="},
            ),
            Vector(
                name="line",
                source="line-bot-sdk-python",
                request=Request(
                    method="POST",
                    public_url=URL,
                    headers={"x-line-signature": "/gg9a+LvFevTH1sd7XCQycD7tsWclCsInj7MhBHxN7k="},
                    body=b"bodybodybodybody",
                ),
                secrets=Secrets((b"channel_secret",)),
                now=NOW,
                options={"signature_header": "X-Line-Signature", "encoding": "base64"},
            ),
        ),
    ),
    Case(
        sign=plain,
        secrets=Secrets((b"one secret",)),
        other=Secrets((b"another secret",)),
        now=NOW,
        options={
            "signature_header": "x-signature",
            "signature_prefix": "sha256=",
            "id_header": "X-Event-Id",
            "text_path": "words",
        },
        samples=(
            Sample(
                name="an-unsigned-id-and-a-form",
                body=b"words=a+waffle%20maker%3F&more=",
                content_type="application/x-www-form-urlencoded",
                items=(
                    Expected(
                        keys=("e-1", body_key(b"words=a+waffle%20maker%3F&more=")),
                        text="a waffle maker?",
                    ),
                ),
            ),
        ),
    ),
    Case(
        sign=listed,
        secrets=Secrets((b"one secret",)),
        other=Secrets((b"another secret",)),
        now=NOW,
        options={
            "signature_header": "X-Sign",
            "signature_field": "v2",
            "timestamp_field": "t",
            "timestamp_unit": "milliseconds",
            "algorithm": "sha512",
            "encoding": "base64",
            "signed": "{timestamp}|{method} {url}|{body}",
        },
        samples=(
            Sample(
                name="without-an-id",
                body=b"plain words",
                content_type="text/plain",
                url=URL + "?a=1",
                items=(Expected(keys=(body_key(b"plain words"),)),),
            ),
        ),
    ),
    Case(
        sign=with_id,
        secrets=Secrets((b"00ff00ff",)),
        other=Secrets((b"11ee11ee",)),
        now=NOW,
        options={
            "signature_header": "X-Signature",
            "algorithm": "sha1",
            "key_encoding": "hex",
            "signed": "{id}.{timestamp}.{body}",
            "id_header": "X-Event-Id",
            "timestamp_header": "X-Time",
        },
        samples=(Sample(name="a-signed-id", body=BODY, items=(Expected(keys=("e-1",)),)),),
    ),
)
