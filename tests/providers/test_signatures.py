"""Whatever kind of source there is: what is not signed, by one of its secrets and in its time, is refused."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.domain.webhook import Refused, Request, Result, Secrets
from tests.providers.cases import PROVIDERS, Case, Sample, config_of
from tests.providers.kinds import (
    each_case,
    each_case_with_secrets,
    each_case_with_window,
    each_case_without_secrets,
    each_sample,
)

FLIPS = 24
DAY = timedelta(days=1)


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


@each_case_with_secrets
def test_both_secrets_are_taken_while_one_is_rotated_and_the_old_one_no_more_after_it(
    kind: str, case: Case
) -> None:
    provider = PROVIDERS[kind]
    request = case.signed(case.samples[0])
    mine, others = case.secrets.active[:1], case.other.active[:1]
    for during in ((*others, *mine), (*mine, *others)):
        case.receive(provider, request, secrets=replace(case.secrets, active=during))
    _refused(case, kind, request, secrets=replace(case.secrets, active=others))


@each_case_with_secrets
def test_a_secret_that_is_nothing_lets_nobody_in(kind: str, case: Case) -> None:
    provider = PROVIDERS[kind]
    request = case.signed(case.samples[0])
    for active in ((), (b"",), (b"  ",)):
        with pytest.raises(Refused) as refused:
            case.receive(provider, request, secrets=Secrets(active))
        assert refused.value.result is Result.NOT_READY


@each_case_without_secrets
def test_whoever_says_that_it_has_no_secrets_needs_none(kind: str, case: Case) -> None:
    request = case.signed(case.samples[0])
    read = case.receive(PROVIDERS[kind], request)
    for active in ((), (b"",), (b"whatever is configured",)):
        others = replace(case.secrets, active=active)
        assert case.receive(PROVIDERS[kind], request, secrets=others) == read


@each_case
def test_a_signature_of_another_time_is_refused_where_time_is_signed(kind: str, case: Case) -> None:
    provider = PROVIDERS[kind]
    request = case.signed(case.samples[0])
    if provider.covers(config_of(provider, case.options)).time:
        for now in (case.now + DAY, case.now - DAY):
            _refused(case, kind, request, now=now)
    else:
        # It has none in truth, so that it has no window either.
        for now in (case.now + 400 * DAY, case.now - 400 * DAY):
            case.receive(provider, request, now=now)


@each_case_with_window
def test_the_window_of_a_signature_is_as_wide_as_configured_and_no_wider(
    kind: str, case: Case
) -> None:
    provider = PROVIDERS[kind]
    config = config_of(provider, case.options)
    request, width = case.signed(case.samples[0]), timedelta(seconds=config.tolerance_seconds)
    beyond = width + timedelta(seconds=1)
    for inside, outside in ((width, beyond), (-width, -beyond)):
        case.receive(provider, request, now=case.now + inside)
        _refused(case, kind, request, now=case.now + outside)
