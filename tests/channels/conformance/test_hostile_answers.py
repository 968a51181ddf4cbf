"""Whatever is answered, or is not: every channel makes an outcome of it, and shows no secret."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

from app.channels import Wire
from app.domain.outcome import Delivered, Rejected, RetryLater, Unknown
from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from tests.channels.conformance.attempts import (
    HOSTILE,
    addressed,
    bare,
    fake_of,
    secrets_of,
    send,
    wired,
)
from tests.channels.conformance.fakes import NEVER, answer
from tests.channels.conformance.sample import CANARY, CHANNELS, kinds_where, load

each_kind = pytest.mark.parametrize("kind", sorted(CHANNELS))
each_by_http = pytest.mark.parametrize("kind", kinds_where(lambda one: one.fake is None))
each_by_other_words = pytest.mark.parametrize("kind", kinds_where(lambda one: bool(one.fake)))
each_that_reaches = pytest.mark.parametrize("kind", kinds_where(lambda one: not one.offline))
each_that_repeats = pytest.mark.parametrize(
    "kind", kinds_where(lambda one: one.fake is None and not one.offline)
)
each_offline = pytest.mark.parametrize("kind", kinds_where(lambda one: one.offline))


@each_by_http
@pytest.mark.parametrize("hostile", sorted(HOSTILE))
async def test_a_hostile_answer_is_an_outcome_and_shows_no_secret(kind: str, hostile: str) -> None:
    sample = load(kind)
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


@each_kind
async def test_what_only_its_own_stand_in_can_say_is_an_outcome(kind: str) -> None:
    sample = load(kind)
    for said in sample.hostile:
        async with fake_of(sample, said) as fake:
            outcome = await send(kind, sample, fake, seconds=1.0)
            assert isinstance(outcome, RetryLater | Rejected | Unknown), (said, outcome)
            assert CANARY not in repr(outcome)


@each_by_other_words
def test_whoever_speaks_no_http_has_hostile_answers_of_its_own(kind: str) -> None:
    assert load(kind).hostile, "say what its stand-in could answer that no outcome may come of"


@each_offline
async def test_whoever_says_that_it_reaches_nobody_reaches_nobody(kind: str) -> None:
    sample = load(kind)
    async with fake_of(sample) as fake, wired() as wire:
        channel, config, message = addressed(kind, sample, port=fake.port)
        secrets = secrets_of(channel, config, sample, port=fake.port)
        for nowhere in (wire, replace(wire, http=GuardedClient(AddressPolicy()))):
            outcome = await channel.send(message, config=config, secrets=secrets, wire=nowhere)
            assert isinstance(outcome, Delivered)
    assert fake.requests == []


@each_that_repeats
async def test_an_answer_that_repeats_the_request_shows_no_secret(kind: str) -> None:
    sample = load(kind)
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


@each_that_reaches
async def test_what_is_not_reached_is_tried_later_and_what_is_silent_is_unknown(kind: str) -> None:
    sample = load(kind)
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


@each_that_reaches
async def test_an_address_inside_is_never_reached(kind: str) -> None:
    sample = load(kind)
    async with fake_of(sample) as fake, GuardedClient(AddressPolicy()) as http:
        channel, config, message = addressed(kind, sample, port=fake.port)
        secrets = secrets_of(channel, config, sample, port=fake.port)
        wire = Wire(http=http, store=lambda _: asyncio.sleep(0, 1), until=time.monotonic() + 5)
        outcome = await channel.send(message, config=config, secrets=secrets, wire=wire)
    assert bare(outcome) == RetryLater("address_denied")
    assert fake.requests == []


@each_kind
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
