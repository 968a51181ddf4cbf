"""Kind `messenger`: what people write to the pages of one Meta app, and what these said."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.meta import (
    BODY_BYTES_MAX,
    SIGNATURE,
    answer_handshake,
    check_signature,
    read_page,
    signed_nothing,
)
from app.domain.webhook import Batch, Keys, Reply, Request, Secrets
from app.providers import Options, Provider, Sheet, Signed, Trial
from app.wire.pointer import Pointers


class MessengerConfig(Options):
    """Pointers to the token that the handshake asks for: several while it is changed."""

    verify_tokens: Annotated[Pointers, Field(min_length=1)]


class Messenger(Provider[MessengerConfig]):
    """The pages of one Meta app."""

    kind = "messenger"
    Config = MessengerConfig
    signed = Signed(headers=(SIGNATURE,))
    methods = frozenset({"GET", "POST"})
    body_bytes_max = BODY_BYTES_MAX
    secret_fields = ("verify_tokens",)
    has_echoes = True
    sheet = Sheet(
        title="Facebook Messenger",
        signature="HMAC-SHA256 over the body, `X-Hub-Signature-256`",
        key="`mid` of messages and postbacks; the hash of anything else",
        conversation="page and user",
        setup="Messenger, API settings, Webhooks; "
        "the app secret is the secret, the verify token one of `verify_tokens`",
    )

    def receive(
        self,
        request: Request,
        *,
        config: MessengerConfig,  # noqa: ARG002
        secrets: Secrets,
        keys: Keys | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Batch | Reply:
        """Answer the handshake, or verify and take apart what came."""
        if request.method == "GET":
            return answer_handshake(request, secrets.named.get("verify_tokens", ()))
        check_signature(request, secrets.active)
        return read_page(request.body, of="page")

    def trial(
        self,
        *,
        config: MessengerConfig,  # noqa: ARG002
        secrets: Secrets,
        now: datetime,  # noqa: ARG002
    ) -> Trial:
        """A batch without entries."""
        return Trial(*signed_nothing("page", secrets.active))


provider = Messenger()
