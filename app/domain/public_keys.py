"""Signatures that anybody can check and only one can make: Ed25519 and ECDSA P-256, over raw bytes."""

import base64
import binascii
from collections.abc import Iterable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

from app.domain.authenticity import CANDIDATES_MAX
from app.domain.webhook import Refused, Result


def check_ed25519(given: Iterable[bytes], signed: bytes, *, keys: Iterable[bytes]) -> None:
    """Demand that one of the `given` signatures fits one of the raw public keys of 32 bytes; raises `Refused`."""
    candidates = [one for one in given if one][:CANDIDATES_MAX]
    if not candidates:
        raise Refused(Result.BAD_SIGNATURE, "signature_missing")
    for key in _some(keys):
        try:
            public = Ed25519PublicKey.from_public_bytes(key)
        except ValueError:
            raise Refused(Result.NOT_READY, "public_key_invalid") from None
        if any(_fits_ed25519(public, one, signed) for one in candidates):
            return
    raise Refused(Result.BAD_SIGNATURE, "signature_wrong")


def check_ecdsa_p256(given: bytes, signed: bytes, *, keys: Iterable[bytes]) -> None:
    """Demand that a DER signature with SHA-256 fits one of the public keys in DER (SPKI); raises `Refused`."""
    if not given:
        raise Refused(Result.BAD_SIGNATURE, "signature_missing")
    for key in _some(keys):
        try:
            public = load_der_public_key(key)
        except ValueError:
            raise Refused(Result.NOT_READY, "public_key_invalid") from None
        if not isinstance(public, EllipticCurvePublicKey):
            raise Refused(Result.NOT_READY, "public_key_invalid")
        try:
            public.verify(given, signed, ECDSA(SHA256()))
        except InvalidSignature:
            continue
        return
    raise Refused(Result.BAD_SIGNATURE, "signature_wrong")


def from_base64(text: str | bytes) -> bytes:
    """What stands in base64; empty for what does not."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def from_hex(text: str) -> bytes:
    """What stands in hex, without anything between; empty for what does not."""
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        return b""


def _some(keys: Iterable[bytes]) -> list[bytes]:
    found = [key for key in keys if key]
    if not found:
        raise Refused(Result.NOT_READY, "public_key_missing")
    return found


def _fits_ed25519(public: Ed25519PublicKey, given: bytes, signed: bytes) -> bool:
    try:
        public.verify(given, signed)
    except InvalidSignature:
        return False
    return True
