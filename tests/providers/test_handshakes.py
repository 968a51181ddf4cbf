"""Meta's handshake tells its challenge to who knows the verify token, and to nobody else."""

from datetime import UTC, datetime

import pytest

from app.domain.webhook import Refused, Reply, Request, Result, Secrets
from tests.providers.cases import PROVIDERS, URL, config_of

NOW = datetime(2026, 11, 30, tzinfo=UTC)
KINDS = ("whatsapp", "messenger", "instagram")
GOOD = "hub.mode=subscribe&hub.challenge=42&hub.verify_token="
SECRETS = Secrets((b"app-secret",), {"verify_tokens": (b"new", b"old")})


def _answered(kind: str, query: str, secrets: Secrets = SECRETS, body: bytes = b"") -> Reply:
    provider = PROVIDERS[kind]
    request = Request(method="GET", public_url=f"{URL}?{query}", headers={}, body=body)
    config = config_of(provider, {"verify_tokens": ["env:A"]})
    read = provider.receive(request, config=config, secrets=secrets, keys=None, now=NOW)
    assert isinstance(read, Reply)
    return read


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", ["new", "old"])
def test_both_tokens_are_known_while_one_is_changed(kind: str, token: str) -> None:
    assert _answered(kind, GOOD + token).body == b"42"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("query", "result"),
    [
        ("", Result.BAD_SIGNATURE),
        (GOOD, Result.BAD_SIGNATURE),
        (GOOD + "app-secret", Result.BAD_SIGNATURE),
        (GOOD + "new&hub.verify_token=wrong", Result.BAD_SIGNATURE),
        (GOOD + "%ff%00", Result.BAD_SIGNATURE),
        ("hub.mode=unsubscribe&hub.challenge=42&hub.verify_token=new", Result.MALFORMED),
        ("hub.mode=subscribe&hub.challenge=%0d%0a&hub.verify_token=new", Result.MALFORMED),
        (f"hub.mode=subscribe&hub.challenge={'4' * 1001}&hub.verify_token=new", Result.MALFORMED),
        ("&".join(["a=b"] * 2000), Result.MALFORMED),
    ],
)
def test_everything_else_is_refused(kind: str, query: str, result: Result) -> None:
    with pytest.raises(Refused) as refused:
        _answered(kind, query)
    assert refused.value.result is result


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_token_of_ours_nobody_is_let_in(kind: str) -> None:
    for held in ((), (b"",)):
        with pytest.raises(Refused) as refused:
            _answered(kind, GOOD + "new", Secrets((b"app-secret",), {"verify_tokens": held}))
        assert refused.value.result is Result.NOT_READY


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_signed_is_not_taken_with_a_handshake(kind: str) -> None:
    with pytest.raises(Refused) as refused:
        _answered(kind, GOOD + "new", body=b"{}")
    assert refused.value.result is Result.BAD_SIGNATURE
