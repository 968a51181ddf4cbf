"""Signed tokens (JWT, RS256 and its like) whose keys were fetched: read whole, in one spelling, or not at all."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512

from app.domain.json_view import Json, list_at, number_at, read_object, text_at
from app.domain.webhook import KEY_UNKNOWN, Keys, Refused, Result

TOKEN_CHARACTERS_MAX: Final = 16_384
KEY_BITS_MIN: Final = 2048
KEY_BITS_MAX: Final = 8192
KEYS_MAX: Final = 100

_HASHES: Final = {"RS256": SHA256(), "RS384": SHA384(), "RS512": SHA512()}
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A public key, and the channels that it speaks for; none named means all of them."""

    public: RSAPublicKey = field(repr=False)
    endorsements: frozenset[str] = frozenset()


def read_keys(told: Json) -> Keys | None:
    """The RSA keys of a JSON Web Key Set by their ids; None where it has none that is fit to verify with."""
    found: dict[str, object] = {}
    for one in list_at(told, "keys")[:KEYS_MAX]:
        id_, key = text_at(one, "kid"), _public(one)
        if id_ and key is not None:
            names = list_at(one, "endorsements")
            told_names = frozenset(text_at(names, n) for n in range(len(names)))
            found[id_] = TokenKey(key, told_names - {""})
    return Keys(found) if found else None


def check_token(
    header: str, *, keys: Keys | None, now: datetime, tolerance_seconds: float
) -> tuple[Mapping[str, Json], TokenKey]:
    """The claims of the token in `Authorization: Bearer`, with the key that signed it.

    Raises `Refused` for one that is not rightly signed or not of this time, and says `KEY_UNKNOWN` for a key that was
    not fetched.
    """
    scheme, _, token = header.partition(" ")
    parts = token.split(".") if len(token) <= TOKEN_CHARACTERS_MAX else []
    if scheme.lower() != "bearer" or len(parts) != _PARTS:
        raise Refused(Result.BAD_SIGNATURE, "token_missing")
    head, payload, signature = (_decoded(part) for part in parts)
    told = _object(head)
    algorithm = _HASHES.get(text_at(told, "alg"))
    if algorithm is None or "crit" in told:
        raise Refused(Result.BAD_SIGNATURE, "algorithm_not_allowed")
    if keys is None:
        raise Refused(Result.NOT_READY, "keys_missing")
    key = keys.by_id.get(text_at(told, "kid"))
    if not isinstance(key, TokenKey):
        raise Refused(Result.NOT_READY, KEY_UNKNOWN)
    signed = token.rpartition(".")[0].encode("latin-1")
    try:
        key.public.verify(signature, signed, PKCS1v15(), algorithm)
    except InvalidSignature:
        raise Refused(Result.BAD_SIGNATURE, "signature_wrong") from None
    claims = _object(payload)
    _check_time(claims, now.timestamp(), tolerance_seconds)
    return claims, key


def _check_time(claims: Json, now: float, tolerance_seconds: float) -> None:
    ends, begins = number_at(claims, "exp"), number_at(claims, "nbf")
    if begins is None:
        begins = number_at(claims, "iat")
    if ends is None or begins is None:
        raise Refused(Result.BAD_SIGNATURE, "token_without_time")
    if not begins - tolerance_seconds <= now <= ends + tolerance_seconds:
        raise Refused(Result.BAD_SIGNATURE, "token_outside_time")


def _public(one: Json) -> RSAPublicKey | None:
    if text_at(one, "kty") != "RSA":
        return None
    try:
        modulus, exponent = (
            int.from_bytes(_decoded(text_at(one, name)), "big") for name in ("n", "e")
        )
        if not KEY_BITS_MIN <= modulus.bit_length() <= KEY_BITS_MAX:
            return None
        return RSAPublicNumbers(exponent, modulus).public_key()
    except (ValueError, Refused):
        return None


def _decoded(part: str) -> bytes:
    """A part in base64url without padding, in the one spelling that there is for its bytes."""
    text = part.encode("utf-8", "replace")
    try:
        found = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found or base64.urlsafe_b64encode(found).rstrip(b"=") != text:
        raise Refused(Result.BAD_SIGNATURE, "token_invalid")
    return found


def _object(part: bytes) -> dict[str, Json]:
    try:
        return read_object(part)
    except Refused:
        raise Refused(Result.BAD_SIGNATURE, "token_invalid") from None
