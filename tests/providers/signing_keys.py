"""Key pairs that samples are signed with, made once: none of them is anybody's."""

import base64
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


@cache
def elliptic_key(number: int) -> ec.EllipticCurvePrivateKey:
    """The P-256 key of a number."""
    return ec.derive_private_key(number, ec.SECP256R1())


def shown_key(number: int) -> str:
    """Its public half, as SendGrid shows it."""
    public = elliptic_key(number).public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(der).decode()


@cache
def rsa_key(name: str) -> rsa.RSAPrivateKey:  # noqa: ARG001 - another name is another key
    """An RSA key, the same for the same name."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)
