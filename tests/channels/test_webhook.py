"""Signed webhooks: what is sent, and what each answer means."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook as Verifier

from app.channels import Outgoing, Wire
from app.channels.webhook import WebhookConfig, channel
from app.domain.outcome import Answer, Delivered, Outcome, Rejected, RetryLater, Shut, Unknown

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def send(
    message: Outgoing,
    *,
    port: int,
    wire: Wire,
    secrets: tuple[bytes, ...] = (SECRET.encode(),),
    timeout_seconds: float = 5.0,
) -> Outcome:
    pointers = tuple(f"env:S{number}" for number in range(len(secrets)))
    config = WebhookConfig(url=f"http://127.0.0.1:{port}/hooks", secrets=pointers)
    timed = replace(wire, until=time.monotonic() + timeout_seconds)
    return await channel.send(message, config=config, secrets=secrets, wire=timed)


def answer(status: int, *headers: str, body: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *headers, f"Content-Length: {len(body)}", "", body]
    return "\r\n".join(lines).encode()


async def test_the_message_arrives_unwrapped_and_signed(
    receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    message = outgoing(headers={"X-Trace": "t"}, content_type="application/x-thing")
    outcome = await send(message, port=receiver.port, wire=wire)
    assert outcome == Delivered(answer=Answer(200))
    [(headers, body)] = receiver.requests
    assert body == message.body
    signature = headers.pop("webhook-signature")
    assert headers == {
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-length": "8",
        "content-type": "application/x-thing",
        "host": f"127.0.0.1:{receiver.port}",
        "idempotency-key": "key_1",
        "user-agent": "Sinksweep/0.0",
        "webhook-id": "key_1",
        "webhook-timestamp": str(int(message.attempted_at.timestamp())),
        "x-trace": "t",
    }
    assert signature == Verifier(SECRET).sign("key_1", message.attempted_at, body.decode())


async def test_every_secret_signs_and_none_means_unsigned(
    receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    await send(outgoing(), port=receiver.port, wire=wire, secrets=(SECRET.encode(), b"plain"))
    await send(outgoing(), port=receiver.port, wire=wire, secrets=())
    (rotating, _), (unsigned, _) = receiver.requests
    assert len(rotating["webhook-signature"].split(" ")) == 2
    assert "webhook-signature" not in unsigned
    assert unsigned["webhook-id"] == "key_1"


async def test_a_secret_that_cannot_be_decoded_sends_nothing(
    receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    outcome = await send(outgoing(), port=receiver.port, wire=wire, secrets=(b"whsec_!",))
    assert outcome == RetryLater("secret_invalid")
    assert receiver.requests == []


async def test_a_stored_header_never_replaces_the_channels_own(
    receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    message = outgoing(headers={"webhook-id": "other", "Idempotency-Key": "other"})
    assert isinstance(await send(message, port=receiver.port, wire=wire), Delivered)
    [(headers, _)] = receiver.requests
    assert (headers["webhook-id"], headers["idempotency-key"]) == ("key_1", "key_1")
    receiver.requests.clear()
    message = outgoing(headers={"Webhook-Id": "other"})
    assert await send(message, port=receiver.port, wire=wire) == Rejected("header_repeated")
    message = outgoing(headers={"Content-Length": "1"})
    assert await send(message, port=receiver.port, wire=wire) == Rejected("header_reserved")
    assert receiver.requests == []


async def test_a_key_with_a_full_stop_is_not_signed(
    receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    outcome = await send(outgoing(key="a.b"), port=receiver.port, wire=wire)
    assert outcome == Rejected("key_invalid")
    assert receiver.requests == []


SHUT = {401: Shut.UNAUTHORIZED, 410: Shut.GONE}
LATER = {403, 404, 408, 425, 429, 503}


@pytest.mark.parametrize(
    "status",
    [
        *(*range(200, 209), 226, 299, *range(300, 309)),
        *(*range(400, 419), 422, 425, 429, 451, 499),
        *(*range(500, 512), 599, 600, 799, 999),
    ],
)
async def test_each_status_has_its_meaning(
    status: int, receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    receiver.answer = answer(status)
    outcome = await send(outgoing(), port=receiver.port, wire=wire)
    said = Answer(status)
    expected: Outcome
    if 200 <= status < 300:
        expected = Delivered(answer=said)
    elif status in SHUT:
        expected = RetryLater(f"http_{status}", counted=False, answer=said, shut=SHUT[status])
    elif status in LATER:
        expected = RetryLater(f"http_{status}", counted=status != 429, answer=said)
    elif 300 <= status < 400:
        expected = Rejected("redirect_not_followed", answer=said)
    elif 400 <= status < 500:
        expected = Rejected(f"http_{status}", answer=said)
    else:
        expected = Unknown(f"http_{status}", answer=said)
    assert outcome == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", Unknown("connection_cut")),
        (b"HTTP/1.1 200 OK\r\nContent", Unknown("connection_cut")),
        (b"what?\r\n\r\n", Unknown("malformed_answer")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", Delivered(answer=Answer(200, ""))),
        (b"HTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 400 No\r\n\r\n", Rejected("http_400", Answer(400))),
        (None, Unknown("timeout")),
    ],
)
async def test_an_answer_that_did_not_come_whole_is_judged_by_what_came(
    raw: bytes | None,
    expected: Outcome,
    receiver: Any,
    wire: Wire,
    outgoing: Callable[..., Outgoing],
) -> None:
    receiver.answer = raw
    outcome = await send(outgoing(), port=receiver.port, wire=wire, timeout_seconds=0.5)
    if isinstance(expected, Delivered):
        assert isinstance(outcome, Delivered)
    else:
        assert outcome == expected


async def test_what_was_never_written_is_tried_later(
    wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    outcome = await send(outgoing(), port=1, wire=wire)
    assert outcome == RetryLater("connection_refused")


@pytest.mark.parametrize(
    ("headers", "after_seconds", "counted"),
    [
        (["Retry-After: 120"], 120.0, False),
        (["Retry-After: 120", "Retry-After: 60"], 120.0, False),
        (["Retry-After: 1000000"], 86_400.0, False),
        (["Retry-After: -1"], 0.0, False),
        (["Retry-After: soon"], None, True),
        # From the attempt's time, half a second past noon.
        (["Retry-After: Sun, 01 Mar 2026 12:02:00 GMT"], 119.5, False),
        (
            [
                "Date: Sun, 01 Mar 2026 11:00:00 GMT",
                "Retry-After: Sun, 01 Mar 2026 11:01:00 GMT",
            ],
            60.0,
            False,
        ),
        # A clock that is years off says nothing about how long to wait.
        (
            [
                "Date: Thu, 01 Jan 1970 00:00:00 GMT",
                "Retry-After: Sun, 01 Mar 2026 12:02:00 GMT",
            ],
            119.5,
            False,
        ),
    ],
)
async def test_who_says_when_to_come_back_costs_no_attempt(
    headers: list[str],
    after_seconds: float | None,
    counted: bool,
    receiver: Any,
    wire: Wire,
    outgoing: Callable[..., Outgoing],
) -> None:
    receiver.answer = answer(503, *headers)
    assert await send(outgoing(), port=receiver.port, wire=wire) == RetryLater(
        "http_503", after_seconds=after_seconds, counted=counted, answer=Answer(503)
    )


async def test_an_excerpt_is_kept_without_what_is_secret(
    receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    body = f"bad\r\n{SECRET} at http://127.0.0.1:{receiver.port}/hooks " + "x" * 1000
    receiver.answer = answer(400, body=body)
    outcome = await send(outgoing(), port=receiver.port, wire=wire)
    assert isinstance(outcome, Rejected)
    assert outcome.answer is not None
    assert outcome.answer.excerpt.startswith("bad  *** at *** xxx")
    assert len(outcome.answer.excerpt) == 512


@pytest.mark.parametrize(
    "options",
    [
        {"url": "https://user:pw@crm.example/", "secrets": []},
        {"url": "ftp://crm.example/", "secrets": []},
        {"secrets": ["env:A"]},
        {"url": "https://crm.example/", "secrets": ["whsec_c2VjcmV0"]},
        {"url": "https://crm.example/", "secrets": ["env:"]},
        {"url": "https://crm.example/", "secrets": ["env:A B"]},
        {"url": "https://crm.example/", "secrets": ["file:relative"]},
        {"url": "https://crm.example/", "secrets": ["file:/a\nb"]},
        {"url": "https://crm.example/", "secrets": ["env:A"] * 9},
        {"url": "https://crm.example/", "secrets": "env:A"},
        {"url": "https://crm.example/", "secrets": [], "verify": False},
    ],
)
def test_a_configuration_that_cannot_work_is_refused_without_showing_it(options: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        WebhookConfig.model_validate(options)
    assert "c2VjcmV0" not in str(refused.value)
    assert "pw@" not in str(refused.value)
