"""Standard Webhooks signatures over the very bytes that are sent.

Never with an empty secret, and never over a text that could be read as the text of another message.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from app.domain.errors import SinksweepError

_PREFIX = b"whsec_"
# Destinations are sent to many times with the same secrets.
_KEYS_MAX = 256


class UnusableSecret(SinksweepError):
    """A secret is empty, or is not what its prefix says. The message is a stable code and never
    shows it.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class UnsignableId(SinksweepError):
    """A message id with a full stop: that is what separates the parts that are signed."""

    code = "key_invalid"


@lru_cache(maxsize=_KEYS_MAX)
def signing_key(secret: bytes) -> bytes:
    """The key in a secret: what follows `whsec_` decoded, any other secret as it is. Raises
    `UnusableSecret`.
    """
    secret = secret.strip()
    if not secret.startswith(_PREFIX):
        key = secret
    else:
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise UnusableSecret("secret_invalid") from None
    if not key:
        raise UnusableSecret("secret_missing")
    return key


def signature_headers(
    message_id: str, *, body: bytes, keys: Sequence[bytes], attempted_at: datetime
) -> dict[str, str]:
    """The three headers of one attempt, with a signature for each of `keys`; unsigned only for no
    keys at all.

    Raises `UnsignableId`.
    """
    if "." in message_id:
        raise UnsignableId
    timestamp = str(int(attempted_at.timestamp()))
    headers = {"webhook-id": message_id, "webhook-timestamp": timestamp}
    if keys:
        signed = b".".join((message_id.encode(), timestamp.encode(), body))
        headers["webhook-signature"] = " ".join(f"v1,{_signature(key, signed)}" for key in keys)
    return headers


def _signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
