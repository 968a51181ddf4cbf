"""Standard Webhooks: both versions of signatures, both families of headers, and the vectors of the specification."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.domain.webhook import Request, Secrets
from tests.providers.cases import URL, Case, Expected, Sample, Vector, with_headers

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = b"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
PRIVATE = base64.b64decode(
    "6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)[:32]
PUBLIC = b"whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
OTHER_PUBLIC = b"whpk_" + base64.b64encode(
    Ed25519PrivateKey.from_private_bytes(b"1" * 32).public_key().public_bytes_raw()
)
BODY = b'{"type":"ticket.said","data":{"ticket":{"id":17},"from":"ann","words":"a waffle maker?"}}'


def _signed(request: Request, now: datetime) -> tuple[str, bytes]:
    time = str(int(now.timestamp()))
    return time, b".".join((b"msg_1", time.encode(), request.body))


def sign(request: Request, secrets: Secrets, now: datetime) -> Request:
    time, signed = _signed(request, now)
    key = base64.b64decode(secrets.active[0].removeprefix(b"whsec_"))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return with_headers(
        request, webhook_id="msg_1", webhook_timestamp=time, webhook_signature=f"v1,{signature}"
    )


def sign_with_a_pair(request: Request, _secrets: Secrets, now: datetime) -> Request:
    time, signed = _signed(request, now)
    made = Ed25519PrivateKey.from_private_bytes(PRIVATE).sign(signed)
    signature = f"v1a,{base64.b64encode(made).decode()}"
    return with_headers(
        request, webhook_id="msg_1", webhook_timestamp=time, webhook_signature=signature
    )


OPTIONS = {"conversation": "data.ticket.id", "text": "data.words", "sender": "data.from"}
SAMPLES = (
    Sample(
        name="an-event",
        body=BODY,
        items=(
            Expected(
                keys=("msg_1",),
                event="ticket.said",
                conversation=("17",),
                text="a waffle maker?",
                sender="ann",
                body=BODY,
            ),
        ),
    ),
    Sample(
        name="not-json",
        body=b"\xff\xfe plain bytes",
        content_type="application/octet-stream",
        items=(Expected(keys=("msg_1",)),),
    ),
)


def vector(
    name: str, secret: bytes, id_: str, time: int, body: bytes, signature: str, **more: Any
) -> Vector:
    family = more.get("family", "webhook")
    return Vector(
        name=name,
        source=more.get("source", "the specification's own and Svix's libraries"),
        request=Request(
            method="POST",
            public_url=URL,
            headers={
                f"{family}-id": id_,
                f"{family}-timestamp": str(time),
                f"{family}-signature": signature,
            },
            body=body,
        ),
        secrets=Secrets((secret,)),
        now=datetime.fromtimestamp(time, UTC),
    )


CASES = (
    Case(
        sign=sign,
        secrets=Secrets((SECRET,)),
        other=Secrets((OTHER,)),
        now=NOW,
        samples=SAMPLES,
        options=OPTIONS,
        vectors=(
            vector(
                "first", SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
                b'{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
            vector(
                "second", OTHER, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1649367553,
                b'{"email":"test@example.com","username":"test_user"}',
                "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=", family="svix",
            ),
            vector(
                "third", b"whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", 1731705121,
                b'{"event_type":"ping","data":{"success":true}}',
                "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
            ),
            vector(
                "with-a-pair", PUBLIC, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}',
                "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==",
            ),
            vector(
                "among-others", SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}',
                "v9,x v1,bm9wZQ== v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= nothing",
            ),
        ),
    ),
    Case(
        sign=sign_with_a_pair,
        secrets=Secrets((PUBLIC,)),
        other=Secrets((OTHER_PUBLIC,)),
        now=NOW,
        samples=SAMPLES,
        options=OPTIONS,
    ),
)  # fmt: skip
