"""Trials: what a source is tried with is rightly signed, and nothing is kept of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.webhook import Batch, Refused, Request, Result, Secrets
from tests.providers.cases import PROVIDERS, URL, Case, cases_of, config_of

TRIED = {"slack", "stripe", "github", "telegram", "line", "whatsapp", "messenger", "instagram"}
NONE = Secrets()


def _request(kind: str, case: Case, secrets: Secrets) -> Request | None:
    config = config_of(PROVIDERS[kind], case.options)
    trial = PROVIDERS[kind].trial(config=config, secrets=secrets, now=case.now)
    if trial is None:
        return None
    return Request(method="POST", public_url=URL, headers=trial.headers, body=trial.body)


def _result(kind: str, case: Case, request: Request) -> str:
    try:
        read = case.receive(PROVIDERS[kind], request, now=case.now + timedelta(seconds=2))
    except Refused as refused:
        return refused.result
    return f"{len(read.items)} items" if isinstance(read, Batch) else "answered"


@pytest.mark.parametrize("kind", sorted(TRIED))
def test_a_trial_is_verified_and_holds_nothing_to_keep(kind: str) -> None:
    case = cases_of(kind)[0]
    request = _request(kind, case, case.secrets)
    assert request is not None
    assert _result(kind, case, request) in ("0 items", "answered", Result.MALFORMED)
    assert repr(case.secrets.active[0])[2:-1] not in repr(request)
    wrong = _request(kind, case, replace(case.other, named=case.secrets.named))
    assert wrong is not None
    assert _result(kind, case, wrong) == Result.BAD_SIGNATURE
    with pytest.raises(Refused) as refused:
        _request(kind, case, NONE)
    assert refused.value.result is Result.NOT_READY


def test_the_other_kinds_say_that_they_can_sign_nothing() -> None:
    for kind, provider in PROVIDERS.items():
        if kind not in TRIED and not provider.is_timed:
            case = cases_of(kind)[0]
            assert _request(kind, case, case.secrets) is None, kind
