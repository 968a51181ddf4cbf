"""A secret in the URL that was pasted: all that some providers send of themselves, and worth no more than TLS is."""

import base64
from collections.abc import Sequence
from typing import Final

from app.domain.authenticity import check_shared, usable
from app.domain.form import read_form, values_of
from app.domain.webhook import Refused, Request, Result

PARAMETER: Final = "token"


def check_url_secret(request: Request, *, secrets: Sequence[bytes]) -> None:
    """Demand one of the secrets: as `user:password` before the host, or as `?token=`; raises `Refused`."""
    known = usable(secrets)
    given = request.header("authorization")
    if not given:
        tokens = values_of(read_form(request.query), PARAMETER)
        check_shared(tokens[0] if len(tokens) == 1 else b"", secrets=known)
        return
    scheme, _, credentials = given.partition(" ")
    if scheme.lower() != "basic":
        raise Refused(Result.BAD_SIGNATURE, "secret_wrong")
    check_shared(credentials.strip(), secrets=[base64.b64encode(one) for one in known])
