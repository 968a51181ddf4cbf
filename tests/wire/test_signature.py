"""Signatures as the specification's own vectors and library have them."""

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from app.wire.signature import (
    UnsignableId,
    UnusableSecret,
    signature_headers,
    signing_key,
)

VECTORS = [
    (
        b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ),
    (
        b"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
        1649367553,
        b'{"email":"test@example.com","username":"test_user"}',
        "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
    ),
    (
        b"whsec_plJ3nmyCDGBKInavdOK15jsl",
        "msg_loFOjxBNrRLzqYUf",
        1731705121,
        b'{"event_type":"ping","data":{"success":true}}',
        "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    ),
]


@pytest.mark.parametrize(("secret", "message_id", "seconds", "body", "signature"), VECTORS)
def test_the_published_vectors_come_out(
    secret: bytes, message_id: str, seconds: int, body: bytes, signature: str
) -> None:
    headers = signature_headers(
        message_id,
        body=body,
        keys=[signing_key(secret)],
        attempted_at=datetime.fromtimestamp(seconds + 0.9, UTC),
    )
    assert headers == {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature,
    }
    expected = Webhook(secret.decode()).sign(
        message_id, datetime.fromtimestamp(seconds, UTC), body.decode()
    )
    assert signature == expected


def test_each_key_signs_in_its_order_and_bytes_need_not_be_text() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    body = b"\xff\x00."
    both = signature_headers("m", body=body, keys=[b"one", b"two"], attempted_at=at)
    singles = [
        signature_headers("m", body=body, keys=[key], attempted_at=at)["webhook-signature"]
        for key in (b"one", b"two")
    ]
    assert both["webhook-signature"].split(" ") == singles


def test_without_keys_there_is_no_signature() -> None:
    headers = signature_headers(
        "m", body=b"", keys=[], attempted_at=datetime(2030, 1, 1, tzinfo=UTC)
    )
    assert "webhook-signature" not in headers


def test_an_id_with_a_full_stop_cannot_be_signed() -> None:
    with pytest.raises(UnsignableId):
        signature_headers(
            "a.1", body=b"", keys=[b"k"], attempted_at=datetime(2030, 1, 1, tzinfo=UTC)
        )


@pytest.mark.parametrize("secret", [b"", b" ", b"\n\t ", b"whsec_", b" whsec_ \n"])
def test_an_empty_secret_signs_nothing(secret: bytes) -> None:
    with pytest.raises(UnusableSecret, match="secret_missing"):
        signing_key(secret)


@pytest.mark.parametrize("secret", [b"whsec_!!!!", b"whsec_abc", b"whsec_ab cd"])
def test_a_secret_that_is_not_what_it_says_signs_nothing(secret: bytes) -> None:
    with pytest.raises(UnusableSecret, match="secret_invalid"):
        signing_key(secret)


def test_any_other_secret_is_its_own_key() -> None:
    assert signing_key(b"plain secret") == b"plain secret"
