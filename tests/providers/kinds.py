"""The kinds that take requests, and all that they have to show, as parameters of tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.providers.cases import PROVIDERS, SAMPLES, Case, cases_of, config_of

# What the clock asks takes no request: its tests are in test_cron.py.
KINDS = sorted(kind for kind, one in PROVIDERS.items() if not one.is_timed)


def _cases(applies: Callable[[str, Case], bool] = lambda _kind, _case: True) -> Iterator[Any]:
    for kind in KINDS:
        if (SAMPLES / f"{kind}.py").is_file():
            for n, case in enumerate(cases_of(kind)):
                if applies(kind, case):
                    yield pytest.param(kind, case, id=f"{kind}-{n}")


def has_secrets(kind: str, _case: Case) -> bool:
    """Whether it signs with secrets of a source's configuration."""
    return PROVIDERS[kind].secrets_min > 0


def has_window(kind: str, case: Case) -> bool:
    """Whether its signature has a time, which a source's configuration gives a width."""
    provider = PROVIDERS[kind]
    covers = provider.covers(config_of(provider, case.options))
    return covers.time and not provider.has_fetched_keys


def has_no_secrets(kind: str, case: Case) -> bool:
    """Whether it needs none: its public keys are configured, or fetched."""
    return not has_secrets(kind, case)


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
each_case_with_secrets = pytest.mark.parametrize(("kind", "case"), list(_cases(has_secrets)))
each_case_without_secrets = pytest.mark.parametrize(("kind", "case"), list(_cases(has_no_secrets)))
each_case_with_window = pytest.mark.parametrize(("kind", "case"), list(_cases(has_window)))
each_sample = pytest.mark.parametrize(("kind", "case", "sample"), list(_samples()))
each_vector = pytest.mark.parametrize(("kind", "case", "vector"), list(_vectors()))
