"""Kind `loopback`: a message is delivered into this installation's own store, and whole runs are
seen without a network.
"""

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from app.channels import Draft, Outgoing, Wire
from app.domain.errors import InvalidContent, NotReady
from app.domain.outcome import Delivered, Outcome, Unknown
from app.wire.headers import header_problems


class LoopbackConfig(BaseModel):
    """Nothing to configure."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Loopback:
    """Stores what it is sent. The receipt counts how often the key has arrived, so a repeat is
    visible.
    """

    kind = "loopback"
    Config = LoopbackConfig

    def secrets(self, config: LoopbackConfig) -> tuple[str, ...]:  # noqa: ARG002
        """None."""
        return ()

    def check(self, draft: Draft, *, config: LoopbackConfig) -> None:  # noqa: ARG002
        """Refuse what no real destination could be sent either; raises `InvalidContent`."""
        problems = header_problems(draft.headers, content_type=draft.content_type)
        if problems:
            raise InvalidContent(*problems)

    async def send(
        self,
        message: Outgoing,
        *,
        config: LoopbackConfig,  # noqa: ARG002
        secrets: Sequence[bytes | None],  # noqa: ARG002
        wire: Wire,
        timeout_seconds: float,
    ) -> Outcome:
        """Store the message. One that was not confirmed in time may be there all the same."""
        try:
            async with asyncio.timeout(timeout_seconds):
                arrivals = await wire.store(message)
        except TimeoutError:
            return Unknown("timeout")
        except NotReady:
            # Whether the write was committed is not known.
            return Unknown("store_not_ready")
        return Delivered(receipt=f"loopback:{arrivals}")


channel = Loopback()
