"""What a configuration asks of a source that its kind has not is told in words that lead on."""

import pytest

from app.core import build_intakes
from app.settings import Settings, SettingsError
from tests.providers.signing_keys import shown_key

SENDGRID = {"kind": "sendgrid", "public_keys": [shown_key(7)]}
CLOCK = {"kind": "cron", "every_seconds": 60}


def _details(source: dict[str, object]) -> list[str]:
    with pytest.raises(SettingsError) as error:
        build_intakes(Settings.model_validate({"sources": {"in": source}}))
    return [fault.detail for fault in error.value.faults if fault.path == "sources.in.secrets"]


def test_secrets_of_a_kind_that_has_them_in_its_url_are_pointed_elsewhere() -> None:
    (detail,) = _details({**SENDGRID, "secrets": ["env:MAIL"]})
    assert detail.endswith("belongs in url_secrets")


def test_secrets_of_a_kind_without_any_are_refused() -> None:
    assert _details({**CLOCK, "secrets": ["env:CLOCK"]}) == ["this kind has no secrets"]


def test_a_kind_that_verifies_with_a_secret_asks_for_one() -> None:
    (detail,) = _details({"kind": "slack"})
    assert detail == "this kind verifies with a secret, and none is given"
