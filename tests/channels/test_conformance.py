"""What every channel promises, for whatever channels there are.

A new kind adds one line to `OPTIONS`; without it the suite says which kind is missing.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from app.channels import AnyChannel, Draft, Outgoing, Wire, discover
from app.domain.errors import InvalidContent
from app.domain.outcome import Delivered, Outcome, RetryLater, Unknown

CHANNELS = discover()
CANARY = "c4n4ry-c4n4ry-c4n4ry"
OPTIONS: dict[str, dict[str, object]] = {
    "loopback": {},
    "webhook": {"url": f"http://127.0.0.1:{{port}}/{CANARY}", "secrets": ["env:ONE", "file:/two"]},
}

pytestmark = pytest.mark.parametrize("kind", sorted(CHANNELS))


def configured(kind: str, *, port: int) -> tuple[AnyChannel, Any]:
    assert kind in OPTIONS, f"add options for channels of kind {kind!r}"
    text = json.dumps(OPTIONS[kind]).replace("{port}", str(port))
    channel = CHANNELS[kind]
    return channel, channel.Config.model_validate(json.loads(text))


async def send(
    kind: str,
    message: Outgoing,
    *,
    port: int,
    wire: Wire,
    timeout_seconds: float = 5,
    secrets: Sequence[bytes | None] | None = None,
) -> Outcome:
    channel, config = configured(kind, port=port)
    held = [CANARY.encode()] * len(channel.secrets(config)) if secrets is None else secrets
    return await channel.send(
        message, config=config, secrets=held, wire=wire, timeout_seconds=timeout_seconds
    )


def test_a_kind_is_the_name_of_its_file(kind: str) -> None:
    assert CHANNELS[kind].kind == kind
    assert type(CHANNELS[kind]).__module__ == f"app.channels.{kind}"


def test_a_configuration_is_frozen_and_closed(kind: str) -> None:
    channel, config = configured(kind, port=1)
    with pytest.raises(ValidationError):
        channel.Config.model_validate({**config.model_dump(), "unheard_of": 1})
    assert channel.Config.model_config.get("frozen") is True
    assert hash(config) is not None


def test_secrets_are_pointers(kind: str) -> None:
    channel, config = configured(kind, port=1)
    assert all(pointer.startswith(("env:", "file:/")) for pointer in channel.secrets(config))


def test_a_plain_draft_passes_and_one_with_a_line_break_in_a_header_does_not(kind: str) -> None:
    channel, config = configured(kind, port=1)
    plain = Draft(
        destination="d", recipient=None, headers={"X-A": "1"}, content_type="a/b", body=b"x"
    )
    channel.check(plain, config=config)
    broken = Draft(
        destination="d", recipient=None, headers={"X-A": "1\r\nB: 2"}, content_type="a/b", body=b""
    )
    with pytest.raises(InvalidContent) as refused:
        channel.check(broken, config=config)
    assert [problem.pointer for problem in refused.value.problems] == ["/headers/X-A"]


async def test_each_attempt_carries_the_same_key_and_bytes(
    kind: str, receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    for attempt in (1, 2):
        later = outgoing().attempted_at + timedelta(hours=attempt)
        message = outgoing(attempt=attempt, attempted_at=later, body=b"\x00\xffbytes")
        assert isinstance(await send(kind, message, port=receiver.port, wire=wire), Delivered)
    assert all(body == b"\x00\xffbytes" for _, body in receiver.requests)
    keys = [headers["idempotency-key"] for headers, _ in receiver.requests]
    assert keys in ([], ["key_1", "key_1"])


async def test_the_time_given_is_the_time_taken(
    kind: str, receiver: Any, outgoing: Callable[..., Outgoing], wire: Wire
) -> None:
    async def never(_message: Outgoing) -> int:
        await asyncio.sleep(60)
        return 0

    receiver.answer = None
    stalled = Wire(http=wire.http, store=never)
    begun = time.monotonic()
    outcome = await send(kind, outgoing(), port=receiver.port, wire=stalled, timeout_seconds=0.3)
    assert time.monotonic() - begun < 1.3
    assert outcome == Unknown("timeout")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 400 Bad\r\n\r\n",
        b"HTTP/1.1 429 Slow\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\n\r\n",
        b"HTTP/1.1 302 Go\r\nLocation: /x\r\n\r\n",
        b"",
    ],
)
async def test_no_outcome_shows_a_secret(
    kind: str, answer: bytes, receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    receiver.answer = answer and answer + CANARY.encode() + b" and " + CANARY.encode()
    outcome = await send(kind, outgoing(), port=receiver.port, wire=wire)
    assert CANARY not in repr(outcome)
    refused = await send(kind, outgoing(), port=1, wire=wire)
    assert CANARY not in repr(refused)


@pytest.mark.parametrize("missing", [None, b"", b" \n"])
async def test_a_missing_secret_sends_nothing(
    kind: str, missing: bytes | None, receiver: Any, wire: Wire, outgoing: Callable[..., Outgoing]
) -> None:
    channel, config = configured(kind, port=receiver.port)
    pointers = channel.secrets(config)
    for at in range(len(pointers)):
        secrets: list[bytes | None] = [b"there"] * len(pointers)
        secrets[at] = missing
        outcome = await send(kind, outgoing(), port=receiver.port, wire=wire, secrets=secrets)
        assert outcome == RetryLater("secret_missing")
    assert receiver.requests == []
