"""Tokens: what a widely used library signs is taken, and what is wrong with one in any way is not."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from app.domain.bearer_token import check_token, read_keys
from app.domain.webhook import KEY_UNKNOWN, Keys, Refused, Result
from tests.providers.signing_keys import rsa_key

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
CLAIMS = {"iss": "me", "nbf": SECONDS, "exp": SECONDS + 3600}
SHOWN = json.loads(RSAAlgorithm.to_jwk(rsa_key("k1").public_key()))
SET = {"keys": [{**SHOWN, "kid": "k1", "endorsements": ["msteams"]}]}


def keys() -> Keys:
    found = read_keys(SET)
    assert found is not None
    return found


def token(
    *,
    algorithm: str = "RS256",
    key: Any = None,
    headers: dict[str, Any] | None = None,
    **claims: object,
) -> str:
    head = {"kid": "k1"} if headers is None else headers
    return jwt.encode(CLAIMS | claims, key or rsa_key("k1"), algorithm=algorithm, headers=head)


def refused(header: str, *, known: Keys | None = None, now: datetime = NOW) -> Refused:
    with pytest.raises(Refused) as told:
        check_token(header, keys=known or keys(), now=now, tolerance_seconds=300)
    return told.value


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512"])
def test_what_a_library_signs_is_taken(algorithm: str) -> None:
    header = f"Bearer {token(algorithm=algorithm)}"
    claims, key = check_token(header, keys=keys(), now=NOW, tolerance_seconds=300)
    assert claims == CLAIMS
    assert key.endorsements == {"msteams"}


@pytest.mark.parametrize("scheme", ["", "Basic", "bearer:", "HMAC"])
def test_another_scheme_is_refused(scheme: str) -> None:
    assert refused(f"{scheme} {token()}").result is Result.BAD_SIGNATURE


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_no_other_algorithm_is_taken() -> None:
    # The public key is known to everybody: it must not become a shared secret.
    public = base64.urlsafe_b64decode(SHOWN["n"] + "==")
    for told in (
        token(algorithm="HS256", key=public),
        jwt.encode(CLAIMS, "", algorithm="none", headers={"kid": "k1"}),
        token(algorithm="PS256"),
    ):
        assert refused(f"Bearer {told}").reason in {"algorithm_not_allowed", "token_invalid"}


def test_another_s_key_is_refused_and_an_unknown_one_is_asked_for() -> None:
    assert refused(f"Bearer {token(key=rsa_key('k2'))}").reason == "signature_wrong"
    unknown = refused(f"Bearer {token(headers={'kid': 'k9'})}")
    assert (unknown.result, unknown.reason) == (Result.NOT_READY, KEY_UNKNOWN)


def test_a_critical_header_that_nobody_understands_is_refused() -> None:
    told = token(headers={"kid": "k1", "crit": ["b64"], "b64": True})
    assert refused(f"Bearer {told}").reason == "algorithm_not_allowed"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": SECONDS - 301},
        {"nbf": SECONDS + 301},
        {"exp": None},
        {"exp": "4102444800"},
        {"exp": True},
        {"nbf": None},
    ],
)
def test_a_token_of_another_time_or_of_none_is_refused(claims: dict[str, object]) -> None:
    # The library would not make some of them.
    parts = [{"alg": "RS256", "kid": "k1"}, CLAIMS | claims]
    signed = b".".join(
        base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in parts
    )
    signature = RSAAlgorithm(RSAAlgorithm.SHA256).sign(signed, rsa_key("k1"))
    told = signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")
    assert refused(f"Bearer {told.decode()}").result is Result.BAD_SIGNATURE


def test_the_clocks_may_be_a_little_apart() -> None:
    for told in (token(exp=SECONDS - 299), token(nbf=SECONDS + 299)):
        header = f"Bearer {told}"
        check_token(header, keys=keys(), now=NOW, tolerance_seconds=300)


def test_every_changed_character_is_refused() -> None:
    told = token()
    for n in range(0, len(told), 7):
        for other in "A0-_.=\u00e9":
            if other != told[n]:
                one = refused(f"Bearer {told[:n]}{other}{told[n + 1 :]}")
                # The id of the key stands in it too.
                assert one.result is Result.BAD_SIGNATURE or one.reason == KEY_UNKNOWN


def test_a_signature_has_one_spelling() -> None:
    told = token()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(told[-1])
    # The last character of 256 bytes carries four bits that mean nothing.
    assert last % 16 == 0
    for other in alphabet[last + 1 : last + 16]:
        assert refused(f"Bearer {told[:-1]}{other}").reason == "token_invalid"
    assert refused(f"Bearer {told}==").reason == "token_invalid"


@pytest.mark.parametrize("told", ["", "..", "a.b.c", "a" * 20_000, "e30.e30.e30", "a.b.c.d"])
def test_what_is_no_token_is_refused(told: str) -> None:
    assert refused(f"Bearer {told}").result is Result.BAD_SIGNATURE


def test_keys_that_are_none_are_left_out() -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    weak = json.loads(RSAAlgorithm.to_jwk(short))
    for wrong in (
        {**weak, "kid": "k1"},
        {**SHOWN, "kid": ""},
        {**SHOWN, "kid": "k1", "kty": "EC"},
        {**SHOWN, "kid": "k1", "n": "!"},
        {**SHOWN, "kid": "k1", "e": "AA"},
        {"kid": "k1", "kty": "RSA"},
        None,
        1,
    ):
        assert read_keys({"keys": [wrong]}) is None
    no_sets: list[object] = [None, [], {"keys": {}}, {"keys": 1}]
    for no_set in no_sets:
        assert read_keys(no_set) is None
    found = read_keys({"keys": [None, *SET["keys"]]})
    assert found is not None
    assert list(found.by_id) == ["k1"]
