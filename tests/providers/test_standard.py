"""Senders of Standard Webhooks that are moving from one version of signatures to the other."""

from dataclasses import replace

import pytest

from app.domain.webhook import Batch, Refused, Request, Result, Secrets
from tests.providers.cases import PROVIDERS, cases_of, config_of
from tests.providers.samples.standard import NOW, OTHER, OTHER_PUBLIC, PUBLIC, SECRET

STANDARD = PROVIDERS["standard"]
NAME = "webhook-signature"


def receive(request: Request, *secrets: bytes) -> object:
    return STANDARD.receive(
        request, config=config_of(STANDARD, {}), secrets=Secrets(secrets), keys=None, now=NOW
    )


def signed(*, shared: bool = True, pair: bool = True, first: str = "") -> Request:
    """A request with the signatures of both versions, or one of them."""
    ours = [case.signed(case.samples[0]) for case in cases_of("standard")[:2]]
    chosen = [one for one, wanted in zip(ours, (shared, pair), strict=True) if wanted]
    told = [first, *(one.headers[NAME] for one in chosen)]
    return replace(ours[0], headers={**ours[0].headers, NAME: " ".join(filter(None, told))})


@pytest.mark.parametrize(
    "secrets", [(SECRET, PUBLIC), (SECRET, OTHER_PUBLIC), (OTHER, PUBLIC), (SECRET,), (PUBLIC,)]
)
def test_one_signature_that_is_right_is_enough_of_either_version(secrets: tuple[bytes]) -> None:
    assert isinstance(receive(signed(), *secrets), Batch)


@pytest.mark.parametrize(
    ("secrets", "result"),
    [
        ((OTHER, OTHER_PUBLIC), Result.BAD_SIGNATURE),
        ((OTHER_PUBLIC,), Result.BAD_SIGNATURE),
        ((OTHER,), Result.BAD_SIGNATURE),
        ((SECRET, b"whpk_broken"), Result.NOT_READY),
    ],
)
def test_without_one_that_is_right_it_is_refused(secrets: tuple[bytes], result: Result) -> None:
    with pytest.raises(Refused) as refused:
        receive(signed(), *secrets)
    assert refused.value.result is result


def test_a_wrong_signature_of_one_version_does_not_spoil_the_other() -> None:
    assert isinstance(receive(signed(pair=False, first="v1a,AAAA"), SECRET, PUBLIC), Batch)
    assert isinstance(receive(signed(shared=False, first="v1,AAAA"), SECRET, PUBLIC), Batch)
    with pytest.raises(Refused):
        receive(signed(shared=False, pair=False, first="v1a,AAAA"), SECRET, PUBLIC)
