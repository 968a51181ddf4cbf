"""Who sent it: signatures over raw bytes, shared secrets and the time of signing, compared in constant time.

Everything that came is taken for bytes: no text that is sent can make a check fail in another way than `Refused`.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

from app.domain.webhook import Refused, Result

Algorithm = Literal["sha1", "sha256", "sha512"]
Encoding = Literal["hex", "base64"]

# More signatures than anybody sends in one header.
CANDIDATES_MAX: Final = 16
TOLERANCE_SECONDS: Final = 300.0
_SECONDS_CHARACTERS_MAX: Final = 16

_ENCODERS: Final[dict[Encoding, Callable[[bytes], bytes]]] = {
    "hex": lambda digest: digest.hex().encode(),
    "base64": base64.b64encode,
}


def check_hmac(
    given: Iterable[str],
    signed: bytes,
    *,
    secrets: Sequence[bytes],
    algorithm: Algorithm = "sha256",
    encoding: Encoding = "hex",
    prefix: str = "",
) -> None:
    """Demand that one of the `given` signatures, each behind its prefix, is that of `signed` under one of the secrets.

    Raises `Refused`.
    """
    found = (one.removeprefix(prefix) for one in given if one.startswith(prefix))
    candidates = [one.encode("utf-8", "replace") for one in found if one][:CANDIDATES_MAX]
    if not candidates:
        raise Refused(Result.BAD_SIGNATURE, "signature_missing")
    encode = _ENCODERS[encoding]
    matched = False
    for secret in usable(secrets):
        expected = encode(hmac.digest(secret, signed, algorithm))
        for candidate in candidates:
            # Whoever is right is found out no earlier than whoever is wrong.
            matched |= equal(candidate, expected)
    if not matched:
        raise Refused(Result.BAD_SIGNATURE, "signature_wrong")


def hmac_of(
    signed: bytes,
    *,
    secrets: Sequence[bytes],
    algorithm: Algorithm = "sha256",
    encoding: Encoding = "hex",
) -> str:
    """Sign as a provider does, with the first secret: for a trial of our own; raises `Refused` without one."""
    return _ENCODERS[encoding](hmac.digest(usable(secrets)[0], signed, algorithm)).decode()


def check_shared(given: str | bytes, *, secrets: Sequence[bytes]) -> None:
    """Demand that what is given is one of the secrets itself; a header is text. Raises `Refused`."""
    sent = given.encode("latin-1", "replace") if isinstance(given, str) else given
    if not sent:
        raise Refused(Result.BAD_SIGNATURE, "secret_not_sent")
    # By their hashes, which are of one length whatever is sent.
    candidate = hashlib.sha256(sent).digest()
    matched = False
    for secret in usable(secrets):
        matched |= equal(candidate, hashlib.sha256(secret).digest())
    if not matched:
        raise Refused(Result.BAD_SIGNATURE, "secret_wrong")


def check_time(
    seconds: float, now: datetime, *, tolerance_seconds: float = TOLERANCE_SECONDS
) -> None:
    """Demand that a time of signing, in Unix seconds, is neither long ago nor far ahead; raises `Refused`."""
    if not abs(now.timestamp() - seconds) <= tolerance_seconds:
        raise Refused(Result.BAD_SIGNATURE, "timestamp_outside_window")


def read_seconds(text: str) -> int:
    """Read a time that was sent in Unix seconds (or milliseconds); raises `Refused` for all but plain digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= _SECONDS_CHARACTERS_MAX):
        raise Refused(Result.BAD_SIGNATURE, "timestamp_invalid")
    return int(text)


def usable(secrets: Sequence[bytes]) -> Sequence[bytes]:
    """The secrets that are any; raises `Refused` where there is none: an empty one would let in everybody."""
    found = [secret for secret in secrets if secret.strip()]
    if not found:
        raise Refused(Result.NOT_READY, "secret_missing")
    return found


def equal(one: bytes, other: bytes) -> bool:
    """Compare in a time that tells no more than whether both are of one length."""
    return len(one) == len(other) and hmac.compare_digest(one, other)


def decoded(secrets: Sequence[bytes], *, prefix: bytes = b"") -> list[bytes]:
    """The keys in secrets that are base64 behind a prefix; raises `Refused` for one that is not."""
    try:
        return [
            base64.b64decode(secret.strip().removeprefix(prefix), validate=True)
            for secret in usable(secrets)
        ]
    except (binascii.Error, ValueError):
        raise Refused(Result.NOT_READY, "secret_invalid") from None
