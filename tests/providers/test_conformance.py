"""What every kind of source promises, for whatever kinds there are.

A new kind adds one file of samples; without it the suite says where.
"""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from app.domain.webhook import Batch, Item, Refused, Reply, Result
from tests.providers.cases import PROVIDERS, Case, Expected, Sample, Vector, cases_of, config_of
from tests.providers.kinds import each_case, each_kind, each_sample, each_vector


@each_kind
def test_a_kind_is_the_name_of_its_file_and_has_samples(kind: str) -> None:
    provider = PROVIDERS[kind]
    assert provider.kind == kind
    assert type(provider).__module__ == f"app.providers.{kind}"
    cases = cases_of(kind)
    assert cases
    assert any(sample.items for case in cases for sample in case.samples)


@each_case
def test_a_configuration_is_frozen_closed_and_points_at_its_secrets(kind: str, case: Case) -> None:
    provider = PROVIDERS[kind]
    config = config_of(provider, case.options)
    assert hash(config) is not None
    assert provider.Config.model_config.get("frozen") is True
    with pytest.raises(ValidationError) as refused:
        config_of(provider, {**case.options, "unheard_of": "c4n4ry"})
    assert "c4n4ry" not in str(refused.value)
    for name in provider.secret_fields:
        pointers = getattr(config, name)
        told = (pointers,) if isinstance(pointers, str) else pointers or ()
        assert all(pointer.startswith(("env:", "file:/")) for pointer in told)


@each_kind
def test_answers_are_those_that_destroy_nothing(kind: str) -> None:
    provider = PROVIDERS[kind]
    for result in (Result.ACCEPTED, Result.DUPLICATE, Result.IGNORED):
        assert 200 <= provider.reply(result).status < 300
    assert provider.reply(Result.ACCEPTED) == provider.reply(Result.DUPLICATE)
    later = provider.reply(Result.NOT_READY)
    assert later.status == 503
    assert int(later.headers["Retry-After"]) > 0
    assert 400 <= provider.reply(Result.BAD_SIGNATURE).status < 600
    forbidden = {403, 406, 410}
    assert not {provider.reply(result).status for result in Result} & forbidden
    names = {name.lower() for result in Result for name in provider.reply(result).headers}
    assert not names & {"x-slack-no-retry", "webhook-delivery"}


@each_kind
def test_no_header_that_is_kept_is_a_credential(kind: str) -> None:
    provider = PROVIDERS[kind]
    for name in provider.keeps:
        assert name == name.lower()
        if name == "i-twilio-idempotency-token":
            # It names a request, and lets nobody in.
            continue
        words = ("auth", "cookie", "secret", "signature", "token", "key")
        assert not any(word in name for word in words)


@each_vector
def test_the_provider_s_own_vector_is_accepted(kind: str, case: Case, vector: Vector) -> None:
    provider = PROVIDERS[kind]
    config = config_of(provider, vector.options)
    try:
        provider.receive(
            vector.request, config=config, secrets=vector.secrets, keys=case.keys, now=vector.now
        )
    except Refused as refused:
        # Some sign what is not a message: then it is the body that is refused, and not its signature.
        assert refused.result is Result.MALFORMED  # noqa: PT017
    spoiled = replace(vector.request, body=vector.request.body + b" ")
    if provider.covers(config).body:
        with pytest.raises(Refused) as wrong:
            provider.receive(
                spoiled, config=config, secrets=vector.secrets, keys=case.keys, now=vector.now
            )
        assert wrong.value.result is Result.BAD_SIGNATURE


@each_sample
def test_what_is_rightly_signed_is_read_as_it_should_be(
    kind: str, case: Case, sample: Sample
) -> None:
    read = case.receive(PROVIDERS[kind], case.signed(sample))
    if isinstance(read, Reply):
        assert not sample.items
        assert read == sample.reply
        return
    assert [
        _as_expected(one, wanted) for one, wanted in zip(read.items, sample.items, strict=True)
    ] == list(sample.items)
    assert dict(read.ignored) == dict(sample.ignored)
    assert read.reply == sample.reply
    assert dict(read.facts) == dict(sample.facts)


def _as_expected(item: Item, wanted: Expected) -> Expected:
    reply = None if item.reply is None else {**item.reply.facts, **item.reply.secrets}
    return Expected(
        keys=item.keys,
        event=item.event,
        conversation=item.conversation,
        text=item.view.text,
        sender=item.view.sender,
        attachments=len(item.view.attachments),
        body=item.body if wanted.body is not None else None,
        reply=reply,
        dated=item.dated if wanted.dated is not None else None,
        is_echo=item.is_echo,
    )


@each_sample
def test_the_same_request_twice_has_the_same_keys(kind: str, case: Case, sample: Sample) -> None:
    first, second = (case.receive(PROVIDERS[kind], case.signed(sample)) for _ in range(2))
    assert first == second
    if isinstance(first, Batch):
        keys = [key for item in first.items for key in item.keys]
        assert all(keys)
        assert all(item.keys for item in first.items)
        assert len(sample.body) <= PROVIDERS[kind].body_bytes_max


@each_sample
def test_every_slice_is_a_part_of_what_came(kind: str, case: Case, sample: Sample) -> None:
    read = case.receive(PROVIDERS[kind], case.signed(sample))
    if isinstance(read, Batch):
        came = sample.body or sample.request.query
        assert all(item.body in came for item in read.items)


@each_kind
def test_what_we_said_ourselves_is_told_from_what_others_say(kind: str) -> None:
    expected = [item for case in cases_of(kind) for sample in case.samples for item in sample.items]
    assert any(not item.is_echo for item in expected)
    if PROVIDERS[kind].has_echoes:
        assert any(item.is_echo for item in expected), "add a sample of a message of our own"
