"""Where messages go: one file a kind, found by being there, all behind one small contract.

A channel turns one attempt at one message into an outcome. It reads no clock, no environment and no
table, it keeps nothing between attempts, and its `send` ends within the time it was given.
"""

import pkgutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from app.domain.outcome import Outcome
from app.wire.client import GuardedClient

ConfigT = TypeVar("ConfigT", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message as an agent proposes it, before the seal. `headers` are the agent's own, not the
    channel's.
    """

    destination: str
    recipient: str | None
    headers: Mapping[str, str]
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A sealed message and the attempt that is about to be made at it.

    Everything but `attempt` (1 for the first) and `attempted_at` is the same in all attempts. All
    times have a zone and come from the database; `attempted_at` is when this attempt was recorded.
    """

    id: str
    key: str
    destination: str
    queue: str
    conversation: str | None
    recipient: str | None
    headers: Mapping[str, str]
    content_type: str
    body: bytes
    sealed_at: datetime
    expires_at: datetime | None
    attempt: int
    attempted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What a channel may reach the world with.

    `store` keeps a message inside this installation and answers how many times its key has arrived,
    1 the first time.
    """

    http: GuardedClient
    store: Callable[[Outgoing], Awaitable[int]]


class Channel(Protocol[ConfigT]):
    """One kind of destination. Each module of this package exports one as `channel`."""

    @property
    def kind(self) -> str:
        """The name that configuration uses for it."""
        ...

    @property
    def Config(self) -> type[ConfigT]:  # noqa: N802 - it is a class
        """What a destination of this kind is configured with: frozen, and no unknown names."""
        ...

    def secrets(self, config: ConfigT) -> tuple[str, ...]:
        """The pointers (`env:NAME`, `file:/path`) that `send` needs resolved, in the order in which
        it wants them.
        """
        ...

    def check(self, draft: Draft, *, config: ConfigT) -> None:
        """Refuse at the seal what could never be sent; raises `InvalidContent` and touches nothing
        outside.
        """
        ...

    async def send(
        self,
        message: Outgoing,
        *,
        config: ConfigT,
        secrets: Sequence[bytes | None],
        wire: Wire,
        timeout_seconds: float,
    ) -> Outcome:
        """Make one attempt and say what is known of it, within `timeout_seconds` in all.

        `secrets` are what the pointers hold at this moment, None for one that holds nothing.
        Expected failures are outcomes, never exceptions; no outcome carries a secret or an address.
        """
        ...


# Which configuration belongs to which channel is known only at run time, from the kind.
AnyChannel = Channel[Any]


def discover() -> Mapping[str, AnyChannel]:
    """Every channel of this package by its kind."""
    found: dict[str, AnyChannel] = {}
    for module in pkgutil.iter_modules(__path__):
        channel: AnyChannel = import_module(f"{__name__}.{module.name}").channel
        if channel.kind in found:
            raise ImportError(f"two channels are of kind {channel.kind!r}")
        found[channel.kind] = channel
    return MappingProxyType(found)
