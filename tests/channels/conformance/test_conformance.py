"""What every channel promises, for whatever channels there are. A new kind adds one file under `samples/`."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from pydantic import ValidationError

from app.channels import Address, Outgoing, Wire
from app.domain.errors import InvalidContent
from app.domain.outcome import (
    Delivered,
    NotThere,
    Outcome,
    Rejected,
    RetryLater,
    Unknown,
)
from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from tests.channels.conformance.fakes import NEVER, answer, http_fake
from tests.channels.conformance.sample import (
    CANARY,
    CHANNELS,
    SAMPLES,
    Sample,
    configured,
    load,
    outgoing,
)

pytestmark = pytest.mark.parametrize("kind", sorted(CHANNELS))

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
    address = channel.check(draft, reply=_reply(sample, port), config=config)
    assert isinstance(address, Address)
    reply = _reply(sample, port)
    capability = reply.capability if reply is not None and address.uses_reply else None
    return channel, config, outgoing(draft, address.parts, reply=capability)


def _reply(sample: Sample, port: int) -> Any:
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


def test_a_kind_is_the_name_of_its_file_and_has_a_sample(kind: str) -> None:
    assert CHANNELS[kind].kind == kind
    assert type(CHANNELS[kind]).__module__ == f"app.channels.{kind}"
    load(kind)
    known = {path.stem for path in SAMPLES.glob("*.py")}
    assert known <= {*CHANNELS}, "samples of no kind"


def test_a_configuration_is_frozen_closed_and_quiet(kind: str) -> None:
    channel, config = configured(kind, load(kind), port=1)
    with pytest.raises(ValidationError) as refused:
        channel.Config.model_validate({**config.model_dump(), "unheard_of": CANARY})
    assert CANARY not in str(refused.value)
    assert channel.Config.model_config.get("frozen") is True
    assert hash(config) is not None
    pointers = channel.secrets(config)
    assert all(pointer.startswith(("env:", "file:/")) for pointer in pointers)


def test_what_it_says_of_itself_is_there(kind: str) -> None:
    channel = CHANNELS[kind]
    assert all((channel.facts.key, channel.facts.lookup, channel.facts.receipt))
    says_yes = channel.facts.lookup.startswith("yes")
    assert says_yes == (channel.lookup_after_seconds is not None)


async def test_a_good_message_is_sent_as_documented(kind: str) -> None:
    sample = load(kind)
    async with fake_of(sample) as fake:
        outcome = await send(kind, sample, fake)
    assert isinstance(outcome, Delivered), outcome
    assert outcome.receipt == sample.receipt
    sample.sent(fake.requests)


async def test_each_attempt_carries_the_same_key_and_bytes(kind: str) -> None:
    sample = load(kind)
    seen = []
    async with fake_of(sample) as fake, wired() as wire:
        channel, config, message = addressed(kind, sample, port=fake.port)
        secrets = secrets_of(channel, config, sample, port=fake.port)
        for n in (1, 2):
            later = message.attempted_at + timedelta(hours=n)
            fake.requests.clear()
            outcome = await channel.send(
                replace(message, attempt=n, attempted_at=later),
                config=config,
                secrets=secrets,
                wire=wire,
            )
            assert isinstance(outcome, Delivered)
            seen.append(list(fake.requests))
    first, second = seen
    assert [one.body for one in first] == [one.body for one in second]
    if sample.key is not None:
        assert sample.key(first) == sample.key(second)
        assert sample.key(first)


def test_another_message_has_another_key(kind: str) -> None:
    assert CHANNELS[kind].facts.key, "told in docs/channels.md"


def test_what_can_never_be_sent_is_refused_at_the_seal(kind: str) -> None:
    sample = load(kind)
    channel, config = configured(kind, sample, port=1)
    assert sample.refused, "say what can never be sent"
    for changes, pointer, code in sample.refused:
        given = dict(changes)
        reply = given.pop("reply", _reply(sample, 1))
        with pytest.raises(InvalidContent) as refused:
            channel.check(sample.draft(**given), reply=reply, config=config)
        found = {(problem.pointer, problem.code) for problem in refused.value.problems}
        assert (pointer, code) in found, changes


@pytest.mark.parametrize("hostile", sorted(HOSTILE))
async def test_a_hostile_answer_is_an_outcome_and_shows_no_secret(kind: str, hostile: str) -> None:
    sample = load(kind)
    if sample.fake is not None:
        pytest.skip("speaks no HTTP")
    async with fake_of(sample, HOSTILE[hostile]) as fake:
        outcome = await send(kind, sample, fake)
        channel, config, message = addressed(kind, sample, port=fake.port)
        secrets = secrets_of(channel, config, sample, port=fake.port)
        assert isinstance(outcome, Delivered | RetryLater | Rejected | Unknown)
        assert not isinstance(outcome, Delivered) or sample.more.get("status_decides"), outcome
        async with wired() as wire:
            found = await channel.lookup(message, config=config, secrets=secrets, wire=wire)
            assert isinstance(found, RetryLater | Unknown), found
            probed = await channel.probe(config=config, secrets=secrets, wire=wire)
    assert CANARY not in repr((outcome, found, probed))
    if isinstance(outcome, RetryLater) and outcome.after_seconds is not None:
        assert 0 <= outcome.after_seconds <= 86_400


async def test_what_only_its_own_stand_in_can_say_is_an_outcome(kind: str) -> None:
    sample = load(kind)
    for said in sample.hostile:
        async with fake_of(sample, said) as fake:
            outcome = await send(kind, sample, fake, seconds=1.0)
            assert isinstance(outcome, RetryLater | Rejected | Unknown), (said, outcome)
            assert CANARY not in repr(outcome)


async def test_an_answer_that_repeats_the_request_shows_no_secret(kind: str) -> None:
    sample = load(kind)
    if sample.fake is not None or sample.offline:
        pytest.skip("speaks no HTTP")
    for status in (200, 400, 403, 500):
        async with fake_of(sample, answer(200)) as fake:
            await send(kind, sample, fake)
            [first, *_] = fake.requests
            echo = json.dumps({"ok": False, "error": first.path, "h": first.headers}).encode()
            fake.answers = [answer(status, echo + sample.secret.encode())]
            outcome = await send(kind, sample, fake)
        assert CANARY not in repr(outcome)
        # Nor in another spelling, as that of a user with a password.
        _, _, credentials = first.headers.get("authorization", "").partition(" ")
        assert not credentials or credentials not in repr(outcome)


async def test_what_is_not_reached_is_tried_later_and_what_is_silent_is_unknown(kind: str) -> None:
    sample = load(kind)
    if sample.offline:
        pytest.skip("reaches nobody")
    async with fake_of(sample) as fake:
        gone = fake.port
    channel, config, message = addressed(kind, sample, port=gone)
    secrets = secrets_of(channel, config, sample, port=gone)
    async with wired() as wire:
        outcome = await channel.send(message, config=config, secrets=secrets, wire=wire)
        assert isinstance(outcome, RetryLater)
        assert outcome.reason == "connection_refused"
        probed = await channel.probe(config=config, secrets=secrets, wire=wire)
    assert not probed.good or "cannot be asked" in probed.words
    async with fake_of(sample, NEVER) as fake:
        begun = time.monotonic()
        outcome = await send(kind, sample, fake, seconds=0.3)
    assert time.monotonic() - begun < 1.5
    assert isinstance(outcome, Unknown | RetryLater)
    assert outcome.reason.startswith("timeout")


async def test_an_address_inside_is_never_reached(kind: str) -> None:
    sample = load(kind)
    if sample.offline:
        pytest.skip("reaches nobody")
    async with fake_of(sample) as fake, GuardedClient(AddressPolicy()) as http:
        channel, config, message = addressed(kind, sample, port=fake.port)
        secrets = secrets_of(channel, config, sample, port=fake.port)
        wire = Wire(http=http, store=lambda _: asyncio.sleep(0, 1), until=time.monotonic() + 5)
        outcome = await channel.send(message, config=config, secrets=secrets, wire=wire)
    assert bare(outcome) == RetryLater("address_denied")
    assert fake.requests == []


async def test_each_answer_means_what_the_provider_means_by_it(kind: str) -> None:
    sample = load(kind)
    for case in sample.cases:
        async with fake_of(sample, case.answer) as fake:
            outcome = await send(kind, sample, fake)
        assert bare(outcome) == bare(case.outcome), case.name
        assert CANARY not in repr(outcome)


async def test_a_look_up_tells_there_from_not_there_and_from_not_known(kind: str) -> None:
    sample = load(kind)
    can_ask = CHANNELS[kind].lookup_after_seconds is not None
    assert bool(sample.lookups) == can_ask
    async with wired() as wire:
        for case in sample.lookups:
            async with fake_of(sample, case.answer) as fake:
                channel, config, message = addressed(kind, sample, port=fake.port)
                secrets = secrets_of(channel, config, sample, port=fake.port)
                found = await channel.lookup(message, config=config, secrets=secrets, wire=wire)
            assert bare(found) == bare(case.outcome), case.name
            assert CANARY not in repr(found)
    words = {type(case.outcome) for case in sample.lookups}
    assert not can_ask or words >= {Delivered, NotThere}


@pytest.mark.parametrize("missing", [None, b"", b" \n"])
async def test_a_missing_secret_sends_nothing(kind: str, missing: bytes | None) -> None:
    sample = load(kind)
    async with fake_of(sample) as fake, wired() as wire:
        channel, config, message = addressed(kind, sample, port=fake.port)
        secrets = secrets_of(channel, config, sample, port=fake.port)
        for at in range(len(secrets)):
            held = [*secrets[:at], missing, *secrets[at + 1 :]]
            outcome = await channel.send(message, config=config, secrets=held, wire=wire)
            assert outcome == RetryLater("secret_missing")
        assert fake.requests == []


async def test_a_look_at_it_says_in_plain_words_what_is_wrong(kind: str) -> None:
    sample = load(kind)
    for said, good, words in sample.probes:
        async with fake_of(sample, said) as fake, wired() as wire:
            channel, config = configured(kind, sample, port=fake.port)
            secrets = secrets_of(channel, config, sample, port=fake.port)
            probed = await channel.probe(config=config, secrets=secrets, wire=wire)
        assert (probed.good, words in probed.words) == (good, True), probed
        assert CANARY not in probed.words
