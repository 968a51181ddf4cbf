"""Where messages come from: one file a kind, found by being there, all behind one small contract.

A provider turns one request into the inbound that it holds, or refuses it. It reads no clock, no environment and no
table, keeps nothing between requests, and reaches nobody while it reads one.
"""

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from app.domain.webhook import REPLIES, Batch, Item, Keys, Reply, Request, Result, Secrets, Trial
from app.wire.client import GuardedClient

ConfigT = TypeVar("ConfigT", bound=BaseModel)

BODY_BYTES_MAX = 1 << 20


class Options(BaseModel):
    """The base of every `Config`: frozen, no unknown names, and no error that repeats a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What a kind's signature covers: whatever of it is changed, the request is refused.

    `headers` are those that are signed, and those that carry the signature. `fields` are the names of form fields, or
    the dotted paths of JSON members, where a body is signed in parts. `time` tells that the time of signing is.
    """

    body: bool = True
    url: bool = False
    time: bool = False
    headers: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What people are told of a kind, a line each: docs/sources.md is made of them."""

    title: str
    signature: str
    key: str
    conversation: str
    setup: str


class Provider(ABC, Generic[ConfigT]):
    """One kind of source. Each module of this package exports one as `provider`."""

    kind: ClassVar[str]
    Config: type[ConfigT]
    sheet: ClassVar[Sheet]
    signed: ClassVar[Signed]
    methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    # What a source takes that says nothing else, in bytes.
    body_bytes_max: ClassVar[int] = BODY_BYTES_MAX
    # Where this provider takes another answer than most: see `REPLIES`.
    replies: ClassVar[Mapping[Result, Reply]] = MappingProxyType({})
    # Headers that are kept with each inbound: what tells of retries, and never a credential.
    keeps: ClassVar[tuple[str, ...]] = ()
    # How many of `secrets` there must be; 0 for a kind that has none.
    secrets_min: ClassVar[int] = 1
    # Fields of `Config` that hold pointers to secrets of another use: one, or several.
    secret_fields: ClassVar[tuple[str, ...]] = ()
    # Whether what we say ourselves comes back from it, and is told from the rest.
    has_echoes: ClassVar[bool] = False
    # Whether the ids are found by what a configuration says, which may be wrong.
    has_configured_ids: ClassVar[bool] = False
    # Whether it is asked by the clock instead of by requests.
    is_timed: ClassVar[bool] = False
    # Whether it needs public keys, which `refresh` fetches.
    has_fetched_keys: ClassVar[bool] = False

    def covers(self, config: ConfigT) -> Signed:  # noqa: ARG002 - one kind is told by its configuration
        """What is signed under this configuration."""
        return self.signed

    @abstractmethod
    def receive(
        self,
        request: Request,
        *,
        config: ConfigT,
        secrets: Secrets,
        keys: Keys | None,
        now: datetime,
    ) -> Batch | Reply:
        """Verify a request and read it. A `Reply` is a handshake: it is answered, and nothing is kept.

        Pure. Raises `Refused` and nothing else, whatever the bytes are. `now` judges the time of a signature, and is
        what a capability's end counts from; nothing else is decided by it.
        """

    def due(
        self,
        *,
        config: ConfigT,  # noqa: ARG002 - for kinds that are asked by the clock
        after: datetime,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
        items_max: int,  # noqa: ARG002
    ) -> Sequence[Item]:
        """What came due behind `after` and up to `now`, in order, at most the last `items_max`.

        Pure, and the same for every replica: times are the database's, and an item's first key is its scheduled time.
        """
        return ()

    def catch_up_max(self, config: ConfigT) -> int:  # noqa: ARG002
        """How many of the times that were missed are brought, the last ones."""
        return 1

    def trial(
        self,
        *,
        config: ConfigT,  # noqa: ARG002 - for kinds that can sign something
        secrets: Secrets,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> Trial | None:
        """What a source can be tried with, so that nothing is kept of it; None where nothing can be signed."""
        return None

    async def refresh(self, *, config: ConfigT, wire: GuardedClient) -> Keys | None:  # noqa: ARG002
        """Fetch the public keys; None where they could not be had."""
        return None

    def reply(self, result: Result) -> Reply:
        """What this provider is told of a result."""
        return self.replies.get(result) or REPLIES[result]


AnyProvider = Provider[Any]


def discover() -> Mapping[str, AnyProvider]:
    """Every provider of this package by its kind."""
    found: dict[str, AnyProvider] = {}
    for module in pkgutil.iter_modules(__path__):
        provider: AnyProvider = import_module(f"{__name__}.{module.name}").provider
        if provider.kind in found:
            raise ImportError(f"two providers are of kind {provider.kind!r}")
        found[provider.kind] = provider
    return MappingProxyType(found)
