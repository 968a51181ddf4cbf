"""Kind `instagram`: what people write to the accounts of one Meta app, what these said, and comments."""

from typing import Annotated

from pydantic import Field

from app.domain.meta import SIGNATURE, Webhooks
from app.providers import Options, Provider, Sheet, Signed
from app.wire.pointer import Pointers


class InstagramConfig(Options):
    """Pointers to the token that the handshake asks for: several while it is changed."""

    verify_tokens: Annotated[Pointers, Field(min_length=1)]


class Instagram(Webhooks, Provider[InstagramConfig]):
    """The professional accounts of one Meta app."""

    kind = "instagram"
    about = "instagram"
    Config = InstagramConfig
    signed = Signed(headers=(SIGNATURE,))
    sheet = Sheet(
        title="Instagram",
        signature="HMAC-SHA256 over the body, `X-Hub-Signature-256`",
        key="`mid` of messages and postbacks; of comments their id; the hash of anything else",
        conversation="account and user",
        setup="Instagram, API setup, Webhooks; "
        "the app secret is the secret, the verify token one of `verify_tokens`",
    )


provider = Instagram()
