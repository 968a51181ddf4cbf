"""An attempt of any kind of channel, against whatever stands in for its provider."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

from app.channels import Address, Outgoing, Wire
from app.domain.outcome import NotThere, Outcome
from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from tests.channels.conformance.fakes import answer, http_fake
from tests.channels.conformance.sample import CANARY, Sample, configured, outgoing

HUGE = b"x" * 10_000_000
HOSTILE = {
    "nothing": b"",
    "no header": b"\r\n",
    "half a header": b"HTTP/1.1 200 OK\r\nConte",
    "an empty body": answer(200),
    "half an object": answer(200, b'{"ok": tru'),
    "less than was promised": b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"ok": true}',
    "ten megabytes": answer(200, HUGE),
    "ten megabytes of an object": answer(200, b'{"ok": true, "x": "' + HUGE + b'"}'),
    "a page": answer(200, b"<html><body>Sign in to the guest network</body></html>"),
    "a list": answer(200, [1, 2]),
    "a number": answer(200, b"1"),
    "null": answer(200, b"null"),
    "no characters": answer(200, b"\xff\xfe\x00"),
    "a million brackets": answer(200, b"[" * 60_000),
    "an endless number": answer(200, b"1" * 60_000),
    "wrong types": answer(200, {"ok": [], "result": 1, "id": {}, "sid": [], "messages": "x"}),
    "other wrong types": answer(200, {"ok": "yes", "result": [{}], "messages": [[]], "errors": 1}),
    "wrong types of an error": answer(400, {"ok": False, "error": 7, "code": "x", "errors": {}}),
    "an error that is an object": answer(400, {"error": {"code": [], "message": {}}}),
    "an endless wait": answer(429, {"retry_after": 1e308, "parameters": {"retry_after": 1e308}}),
    "a wait of no time": answer(429, {"retry_after": "soon"}, retry_after="soon"),
    "a negative wait": answer(429, {"retry_after": -5, "parameters": {"retry_after": -5}}),
    "a redirect": answer(302, b"", location="http://127.0.0.1:1/elsewhere"),
    "not modified": answer(304),
    "no status that there is": answer(799),
    "a teapot": answer(418, b"\x00" * 100),
}


@asynccontextmanager
async def fake_of(sample: Sample, *answers: bytes | None) -> AsyncIterator[Any]:
    opened = (sample.fake or http_fake)(*(answers or (sample.good,)))
    async with opened as fake:
        yield fake


@asynccontextmanager
async def wired(*, seconds: float = 5.0) -> AsyncIterator[Wire]:
    stored: list[str] = []

    async def store(message: Outgoing) -> int:
        stored.append(message.key)
        return stored.count(message.key)

    policy = AddressPolicy((ip_network("127.0.0.0/8"),))
    async with GuardedClient(policy, user_agent="Sinksweep/0.0") as http:
        yield Wire(
            http=http, store=store, until=time.monotonic() + seconds, group="d", hidden=(CANARY,)
        )


def addressed(kind: str, sample: Sample, *, port: int) -> tuple[Any, Any, Outgoing]:
    channel, config = configured(kind, sample, port=port)
    draft = sample.draft()
    address = channel.check(draft, reply=reply_of(sample, port), config=config)
    assert isinstance(address, Address)
    reply = reply_of(sample, port)
    capability = reply.capability if reply is not None and address.uses_reply else None
    return channel, config, outgoing(draft, address.parts, reply=capability)


def reply_of(sample: Sample, port: int) -> Any:
    if sample.reply is None or sample.reply.capability is None:
        return sample.reply
    text = json.dumps(dict(sample.reply.capability)).replace("{port}", str(port))
    return replace(sample.reply, capability=json.loads(text))


def secrets_of(channel: Any, config: Any, sample: Sample, *, port: int) -> list[bytes | None]:
    secret = sample.secret.replace("{port}", str(port)).encode()
    return [secret for _ in channel.secrets(config)]


async def send(kind: str, sample: Sample, fake: Any, *, seconds: float = 5.0) -> Outcome:
    channel, config, message = addressed(kind, sample, port=fake.port)
    secrets = secrets_of(channel, config, sample, port=fake.port)
    async with wired(seconds=seconds) as wire:
        outcome: Outcome = await channel.send(message, config=config, secrets=secrets, wire=wire)
        return outcome


def bare(outcome: Any) -> Any:
    """Without what the provider said, which is compared elsewhere."""
    return outcome if isinstance(outcome, NotThere) else replace(outcome, answer=None)
