"""What every kind of source promises, for whatever kinds there are.

A new kind adds one file of samples; without it the suite says where.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from app.domain.webhook import Batch, Item, Refused, Reply, Request, Result, Secrets
from tests.providers.cases import (
    PROVIDERS,
    SAMPLES,
    Case,
    Expected,
    Sample,
    Vector,
    cases_of,
    config_of,
)

# What the clock asks takes no request: its tests are in test_cron.py.
KINDS = sorted(kind for kind, one in PROVIDERS.items() if not one.is_timed)
FLIPS = 24
DAY = timedelta(days=1)


def _cases() -> Iterator[Any]:
    for kind in KINDS:
        if (SAMPLES / f"{kind}.py").is_file():
            for n, case in enumerate(cases_of(kind)):
                yield pytest.param(kind, case, id=f"{kind}-{n}")


def _samples() -> Iterator[Any]:
    for given in _cases():
        kind, case = given.values
        for sample in case.samples:
            yield pytest.param(kind, case, sample, id=f"{given.id}-{sample.name}")


def _vectors() -> Iterator[Any]:
    for given in _cases():
        kind, case = given.values
        for vector in case.vectors:
            yield pytest.param(kind, case, vector, id=f"{kind}-{vector.name}")


each_kind = pytest.mark.parametrize("kind", KINDS)
each_case = pytest.mark.parametrize(("kind", "case"), list(_cases()))
each_sample = pytest.mark.parametrize(("kind", "case", "sample"), list(_samples()))
each_vector = pytest.mark.parametrize(("kind", "case", "vector"), list(_vectors()))


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


@each_sample
def test_whatever_is_changed_of_what_is_signed_is_refused(
    kind: str, case: Case, sample: Sample
) -> None:
    provider, good = PROVIDERS[kind], case.signed(sample)
    covers = provider.covers(config_of(provider, case.options))
    changed = list(_changed_headers(good, covers.headers))
    if covers.body:
        changed += _changed_bodies(good)
    if covers.url:
        changed += _changed_urls(good)
    changed += [case.tampered[name](good) for name in covers.fields]
    assert changed or not (covers.headers or covers.body)
    for request in changed:
        _refused(case, kind, request)


def _changed_headers(good: Request, names: tuple[str, ...]) -> Iterator[Request]:
    for name in names:
        value = good.headers.get(name)
        if value is None:
            continue
        without = {key: other for key, other in good.headers.items() if key != name}
        yield replace(good, headers=without)
        yield replace(good, headers={**without, name: ""})
        for n in {0, len(value) // 2, len(value) - 1}:
            other = "0" if value[n] != "0" else "1"
            spoiled = value[:n] + other + value[n + 1 :]
            yield replace(good, headers={**without, name: spoiled})


def _changed_bodies(good: Request) -> Iterator[Request]:
    body = good.body
    yield replace(good, body=body + b" ")
    if not body:
        return
    yield replace(good, body=b"")
    yield replace(good, body=body[:-1])
    for n in range(0, len(body), max(1, len(body) // FLIPS)):
        yield replace(good, body=body[:n] + bytes([body[n] ^ 1]) + body[n + 1 :])


def _changed_urls(good: Request) -> Iterator[Request]:
    url = good.public_url
    yield replace(good, public_url=url + ("&" if "?" in url else "?") + "more=1")
    yield replace(good, public_url=url.replace("https://", "http://", 1))
    yield replace(good, public_url=url.replace("/sources/", "/sources/x", 1))


def _refused(case: Case, kind: str, request: Request, **other: Any) -> None:
    with pytest.raises(Refused) as refused:
        case.receive(PROVIDERS[kind], request, **other)
    assert refused.value.result is Result.BAD_SIGNATURE, refused.value


@each_case
def test_both_secrets_are_taken_while_one_is_rotated_and_the_old_one_no_more_after_it(
    kind: str, case: Case
) -> None:
    provider = PROVIDERS[kind]
    if not provider.secrets_min:
        pytest.skip("it has no secrets")
    request = case.signed(case.samples[0])
    mine, others = case.secrets.active[:1], case.other.active[:1]
    for during in ((*others, *mine), (*mine, *others)):
        case.receive(provider, request, secrets=replace(case.secrets, active=during))
    _refused(case, kind, request, secrets=replace(case.secrets, active=others))


@each_case
def test_a_secret_that_is_nothing_lets_nobody_in(kind: str, case: Case) -> None:
    provider = PROVIDERS[kind]
    if not provider.secrets_min:
        pytest.skip("it has no secrets")
    request = case.signed(case.samples[0])
    for active in ((), (b"",), (b"  ",)):
        with pytest.raises(Refused) as refused:
            case.receive(provider, request, secrets=Secrets(active))
        assert refused.value.result is Result.NOT_READY


@each_case
def test_a_signature_of_another_time_is_refused_where_time_is_signed(kind: str, case: Case) -> None:
    provider = PROVIDERS[kind]
    request = case.signed(case.samples[0])
    if provider.covers(config_of(provider, case.options)).time:
        for now in (case.now + DAY, case.now - DAY):
            _refused(case, kind, request, now=now)
    else:
        case.receive(provider, request, now=case.now + DAY)


@each_case
def test_the_window_of_a_signature_is_as_wide_as_configured_and_no_wider(
    kind: str, case: Case
) -> None:
    provider = PROVIDERS[kind]
    config = config_of(provider, case.options)
    if not provider.covers(config).time or provider.has_fetched_keys:
        pytest.skip("its signature has no time, or begins and ends by itself")
    request, width = case.signed(case.samples[0]), timedelta(seconds=config.tolerance_seconds)
    beyond = width + timedelta(seconds=1)
    for inside, outside in ((width, beyond), (-width, -beyond)):
        case.receive(provider, request, now=case.now + inside)
        _refused(case, kind, request, now=case.now + outside)


@each_sample
def test_no_body_does_harm_however_well_it_is_signed(kind: str, case: Case, sample: Sample) -> None:
    provider = PROVIDERS[kind]
    for body in _hostile(sample.body):
        request = case.sign(replace(sample.request, body=body), case.secrets, case.now)
        try:
            read = case.receive(provider, request)
        except Refused as refused:
            assert refused.result in Result  # noqa: PT017
            assert refused.reason.isascii()  # noqa: PT017
            continue
        if isinstance(read, Batch):
            _can_be_kept(read)


def _can_be_kept(read: Batch) -> None:
    for item in read.items:
        assert item.keys
        assert all(item.keys)
        assert isinstance(item.body, bytes)
        texts = (*item.keys, item.event, *item.conversation, item.view.text, item.view.sender)
        for text in texts:
            assert isinstance(text, str)
            text.encode()
        for one in item.view.attachments:
            for text in (one.kind, one.id, one.url, one.name, one.content_type):
                assert isinstance(text, str)
                text.encode()
        assert item.dated is None or item.dated.tzinfo is not None


_VALUES: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    1e400,
    10**30,
    "",
    "\x00",
    "x" * 2000,
    "\ud800",
    float("nan"),
    [],
    [[]],
    {},
    {"id": 1},
)


def _hostile(body: bytes) -> Iterator[bytes]:
    """Cut short, not UTF-8, not JSON, too deep, and with each member replaced by what it should not be."""
    for n in range(0, len(body), max(1, len(body) // FLIPS)):
        yield body[:n]
        yield body[:n] + b"\xff" + body[n + 1 :]
    yield from (
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"',
        b"NaN",
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"&&==&%",
        b"%ff=%ff",
    )
    yield b"[" * 2000
    yield b'{"a":' * 100_000
    yield b"1" * 5000
    yield b'{"id":"\\ud800"}'
    yield b"payload=" + b"%5B" * 1000
    try:
        value = json.loads(body)
    except ValueError:
        yield from _spoiled_form(body)
        return
    for spoiled in _spoiled(value):
        yield json.dumps(spoiled).encode()
    if isinstance(value, dict) and value:
        # Every name twice, the second time with something else.
        nothing = dict.fromkeys(value)
        for first, second in ((nothing, value), (value, nothing)):
            yield json.dumps(first)[:-1].encode() + b"," + json.dumps(second)[1:].encode()


def _spoiled_form(body: bytes) -> Iterator[bytes]:
    """Each field left out, empty, twice, and with what no text is."""
    fields = body.split(b"&")
    for n, field in enumerate(fields):
        name = field.partition(b"=")[0]
        for other in (
            b"",
            name,
            name + b"=",
            field + b"&" + name + b"=1",
            name + b"=%ff%00%ED%A0%80",
        ):
            yield b"&".join((*fields[:n], other, *fields[n + 1 :]))


def _spoiled(value: object) -> Iterator[object]:
    for path in _paths(value):
        for other in _VALUES:
            changed = copy.deepcopy(value)
            here: Any = changed
            for part in path[:-1]:
                here = here[part]
            if path:
                here[path[-1]] = other
                yield changed


def _paths(value: object, *above: Any) -> Iterator[tuple[Any, ...]]:
    yield above
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, below in inside:
        yield from _paths(below, *above, name)


@each_kind
def test_what_we_said_ourselves_is_told_from_what_others_say(kind: str) -> None:
    expected = [item for case in cases_of(kind) for sample in case.samples for item in sample.items]
    assert any(not item.is_echo for item in expected)
    if PROVIDERS[kind].has_echoes:
        assert any(item.is_echo for item in expected), "add a sample of a message of our own"
