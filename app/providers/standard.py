"""Kind `standard`: whoever signs after Standard Webhooks, and Svix with its older names of headers.

The id is a part of what is signed, so that it alone is the key; each try is signed anew, with its own time.
"""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.authenticity import check_hmac, check_time, decoded, read_seconds
from app.domain.json_view import name_at, path_of, read_json, text_at
from app.domain.public_keys import check_ed25519, from_base64
from app.domain.webhook import Batch, Item, Keys, Refused, Request, Result, Secrets, View
from app.providers import Options, Provider, Sheet, Signed

_SHARED = b"whsec_"
_PUBLIC = b"whpk_"
Path = Annotated[str, Field(min_length=1, max_length=255)]


class StandardConfig(Options):
    """Where the body says what it is about: paths with dots, as in `data.ticket.id`; how far clocks may be apart."""

    conversation: Path | None = None
    text: Path | None = None
    sender: Path | None = None
    event: Path = "type"
    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300


class Standard(Provider[StandardConfig]):
    """Any sender of Standard Webhooks."""

    kind = "standard"
    Config = StandardConfig
    signed = Signed(time=True, headers=("webhook-id", "webhook-timestamp", "webhook-signature"))
    sheet = Sheet(
        title="Standard Webhooks, Svix",
        signature="HMAC-SHA256 (`v1`) or Ed25519 (`v1a`) over id, time and body",
        key="`webhook-id`",
        conversation="what `conversation` points at",
        setup="`secrets` are `whsec_…`, or `whpk_…` for senders that sign with a key pair",
    )

    def receive(
        self,
        request: Request,
        *,
        config: StandardConfig,
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,
    ) -> Batch:
        """Verify, and take the body whole."""
        names = "webhook" if "webhook-id" in request.headers else "svix"
        id_, time, signatures = (
            request.header(f"{names}-{part}") for part in ("id", "timestamp", "signature")
        )
        _verify(id_, time, signatures, body=request.body, secrets=secrets)
        check_time(read_seconds(time), now, tolerance_seconds=config.tolerance_seconds)
        return Batch((_item(id_, request, config),))


def _verify(id_: str, time: str, signatures: str, *, body: bytes, secrets: Secrets) -> None:
    # A full stop in one of them would make two messages out of the same text.
    if not id_ or "." in id_ or "." in time:
        raise Refused(Result.BAD_SIGNATURE, "id_invalid")
    signed = b".".join((id_.encode("latin-1"), time.encode("latin-1"), body))
    given = [one.partition(",") for one in signatures.split(" ")]
    public = [secret for secret in secrets.active if secret.strip().startswith(_PUBLIC)]
    shared = [secret for secret in secrets.active if secret not in public]
    if public and any(version == "v1a" for version, _, _ in given):
        try:
            check_ed25519(
                (from_base64(value) for version, _, value in given if version == "v1a"),
                signed,
                keys=decoded(public, prefix=_PUBLIC),
            )
        except Refused as refused:
            # One that is right is enough, of either version.
            is_signed_twice = any(version == "v1" for version, _, _ in given)
            if refused.result is not Result.BAD_SIGNATURE or not (shared and is_signed_twice):
                raise
        else:
            return
    if public and not shared:
        raise Refused(Result.BAD_SIGNATURE, "signature_missing")
    check_hmac(
        (value for version, _, value in given if version == "v1"),
        signed,
        secrets=decoded(shared, prefix=_SHARED),
        encoding="base64",
    )


def _item(id_: str, request: Request, config: StandardConfig) -> Item:
    try:
        body = read_json(request.body)
    except Refused:
        # The scheme says nothing of the body: whatever it is, it was signed.
        body = None

    def told(path: str | None) -> str:
        return name_at(body, *path_of(path)) if path else ""

    return Item(
        keys=(id_,),
        body=request.body,
        content_type=request.header("content-type") or "application/octet-stream",
        event=text_at(body, *path_of(config.event)),
        conversation=tuple(part for part in (told(config.conversation),) if part),
        view=View(text=told(config.text), sender=told(config.sender)),
    )


provider = Standard()
