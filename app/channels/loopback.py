"""Kind `loopback`: a message is delivered into this installation's own store, and whole runs are
seen without a network.
"""

import asyncio
from typing import ClassVar

from app.channels import (
    HERE,
    Address,
    Draft,
    Facts,
    Limits,
    NoLookup,
    Options,
    Outgoing,
    Probed,
    Reply,
    Secrets,
    Wire,
)
from app.domain.errors import InvalidContent, NotReady
from app.domain.outcome import Delivered, Outcome, Unknown
from app.wire.headers import header_problems


class LoopbackConfig(Options):
    """Nothing to configure."""


class Loopback(NoLookup):
    """Stores what it is sent. The receipt counts how often the key has arrived, so a repeat is
    visible.
    """

    kind: ClassVar = "loopback"
    Config = LoopbackConfig
    limits: ClassVar = Limits()
    answers: ClassVar = frozenset[str]()
    facts: ClassVar = Facts(
        key="the key of what is stored; a repeat is counted",
        lookup="no: look at what is stored",
        receipt="`loopback:` and how often the key has arrived",
    )

    def secrets(self, config: LoopbackConfig) -> tuple[str, ...]:  # noqa: ARG002
        """None."""
        return ()

    def check(self, draft: Draft, *, reply: Reply | None, config: LoopbackConfig) -> Address:  # noqa: ARG002
        """Refuse what no real destination could be sent either; raises `InvalidContent`."""
        problems = header_problems(draft.headers, content_type=draft.content_type)
        if problems:
            raise InvalidContent(*problems)
        return HERE

    async def send(
        self,
        message: Outgoing,
        *,
        config: LoopbackConfig,  # noqa: ARG002
        secrets: Secrets,  # noqa: ARG002
        wire: Wire,
    ) -> Outcome:
        """Store the message. One that was not confirmed in time may be there all the same."""
        try:
            async with asyncio.timeout(wire.timeout_seconds):
                arrivals = await wire.store(message)
        except TimeoutError:
            return Unknown("timeout")
        except NotReady:
            # Whether the write was committed is not known.
            return Unknown("store_not_ready")
        return Delivered(receipt=f"loopback:{arrivals}")

    async def probe(
        self,
        *,
        config: LoopbackConfig,  # noqa: ARG002
        secrets: Secrets,  # noqa: ARG002
        wire: Wire,  # noqa: ARG002
    ) -> Probed:
        """It is here."""
        return Probed(good=True, words="it stores what it is sent in this installation")


channel = Loopback()
