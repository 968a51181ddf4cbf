"""A receiver of signed webhooks. docs/webhooks.md."""

from typing import Any

from app.domain.outcome import Delivered, Rejected, RetryLater, Shut, Unknown
from tests.channels.conformance.fakes import answer
from tests.channels.conformance.sample import CANARY, Case, Sample


def sent(requests: Any) -> None:
    [one] = requests
    assert (one.method, one.path) == ("POST", f"/{CANARY}")
    assert one.body == b'{"text": "Hello, you"}'
    assert one.headers["webhook-id"] == one.headers["idempotency-key"]
    assert one.headers["webhook-signature"].count("v1,") == 2


def key(requests: Any) -> str:
    found: str = requests[0].headers["idempotency-key"]
    return found


SAMPLE = Sample(
    config={"url": f"http://127.0.0.1:{{port}}/{CANARY}", "secrets": ["env:ONE", "file:/two"]},
    sent=sent,
    good=answer(200),
    receipt=None,
    key=key,
    refused=(
        ({"headers": {"X-A": "1\r\nB: 2"}}, "/headers/X-A", "header_value_invalid"),
        ({"content_type": "nothing"}, "/content_type", "content_type_invalid"),
    ),
    cases=(
        Case("created", answer(201), Delivered()),
        Case(
            "unauthorized",
            answer(401),
            RetryLater("http_401", None, False, None, Shut.UNAUTHORIZED),
        ),
        Case("gone", answer(410), RetryLater("http_410", None, False, None, Shut.GONE)),
        Case("bad", answer(400), Rejected("http_400")),
        Case("slow down", answer(429, retry_after="7"), RetryLater("http_429", 7.0, False)),
        Case("broken", answer(500), Unknown("http_500")),
    ),
    more={"status_decides": True},
)
