"""Kind `messenger`: what people write to the pages of one Meta app, and what these said."""

from typing import Annotated

from pydantic import Field

from app.domain.meta import SIGNATURE, Webhooks
from app.providers import Options, Provider, Sheet, Signed
from app.wire.pointer import Pointers


class MessengerConfig(Options):
    """Pointers to the token that the handshake asks for: several while it is changed."""

    verify_tokens: Annotated[Pointers, Field(min_length=1)]


class Messenger(Webhooks, Provider[MessengerConfig]):
    """The pages of one Meta app."""

    kind = "messenger"
    about = "page"
    Config = MessengerConfig
    signed = Signed(headers=(SIGNATURE,))
    sheet = Sheet(
        title="Facebook Messenger",
        signature="HMAC-SHA256 over the body, `X-Hub-Signature-256`",
        key="`mid` of messages and postbacks; the hash of anything else",
        conversation="page and user",
        setup="Messenger, API settings, Webhooks; "
        "the app secret is the secret, the verify token one of `verify_tokens`",
    )


provider = Messenger()
