"""What every channel promises, for whatever channels there are. A new kind adds one file under `samples/`."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import ValidationError

from app.channels import answerable
from app.domain.errors import InvalidContent
from app.domain.outcome import Delivered, NotThere
from tests.channels.conformance.attempts import (
    addressed,
    bare,
    fake_of,
    reply_of,
    secrets_of,
    send,
    wired,
)
from tests.channels.conformance.sample import CANARY, CHANNELS, SAMPLES, configured, load

pytestmark = pytest.mark.parametrize("kind", sorted(CHANNELS))


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
        reply = answerable(channel, given.pop("reply", reply_of(sample, 1)))
        with pytest.raises(InvalidContent) as refused:
            channel.check(sample.draft(**given), reply=reply, config=config)
        found = {(problem.pointer, problem.code) for problem in refused.value.problems}
        assert (pointer, code) in found, changes


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


async def test_a_look_at_it_says_in_plain_words_what_is_wrong(kind: str) -> None:
    sample = load(kind)
    for said, good, words in sample.probes:
        async with fake_of(sample, said) as fake, wired() as wire:
            channel, config = configured(kind, sample, port=fake.port)
            secrets = secrets_of(channel, config, sample, port=fake.port)
            probed = await channel.probe(config=config, secrets=secrets, wire=wire)
        assert (probed.good, words in probed.words) == (good, True), probed
        assert CANARY not in probed.words
