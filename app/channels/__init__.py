"""Where messages go: one file a kind, found by being there, all behind one small contract.

A channel says at the seal where a message goes and whether it could ever be sent, and turns one attempt at it into an
outcome. It reads no clock, no environment and no table, it keeps nothing between attempts, and each of its calls ends
within the time it was given.
"""

import math
import pkgutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from app.domain.content import Reading, read_content
from app.domain.errors import InvalidContent, Problem
from app.domain.message import HERE, Address, Draft, Outgoing, Reply, is_id
from app.domain.outcome import Found, Outcome, RetryLater, Unknown
from app.domain.record import record
from app.wire.asking import ANSWER_BYTES_MAX, Heard, Request, ask
from app.wire.client import GuardedClient, Method
from app.wire.reach import words_of

__all__ = [
    "HERE",
    "NO_TOKEN",
    "Address",
    "AnyChannel",
    "Channel",
    "Draft",
    "Facts",
    "Limits",
    "NoLookup",
    "Options",
    "Outgoing",
    "Probed",
    "Reply",
    "Secrets",
    "Wire",
    "answerable",
    "discover",
    "is_id",
    "read_draft",
    "unreached",
]

ConfigT = TypeVar("ConfigT", bound=BaseModel)

# No setting allows more.
TIMEOUT_SECONDS_MAX: Final = 300.0

# What the pointers of a destination hold at this moment: None for one that holds nothing.
Secrets = Sequence[bytes | None]


@record(frozen=True, slots=True, kw_only=True)
class Wire:
    """What a channel may reach the world with, for one call that is over at `until`, on the monotonic clock.

    `store` keeps a message inside this installation and answers how many times its key has arrived,
    1 the first time. `group` is the destination, `now` when the attempt was recorded, and no text of `hidden` is in
    anything that is heard.
    """

    http: GuardedClient
    store: Callable[[Outgoing], Awaitable[int]]
    until: float = math.inf
    group: str = ""
    now: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    hidden: tuple[str, ...] = ()

    @property
    def timeout_seconds(self) -> float:
        """What is left of the time of this call."""
        return max(0.0, min(self.until - time.monotonic(), TIMEOUT_SECONDS_MAX))

    def of_call(
        self, *, until: float, group: str, now: datetime | None, hidden: tuple[str, ...]
    ) -> "Wire":
        """The wire of one call: to one destination, over at `until`, and silent about what is `hidden`."""
        return Wire(
            http=self.http,
            store=self.store,
            until=until,
            group=group,
            now=now or self.now,
            hidden=hidden,
        )

    async def ask(
        self,
        method: Method,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> Heard | RetryLater | Unknown:
        """Send one request to a provider's API, once. What was not answered is an outcome already."""
        request = Request(
            method=method,
            url=url,
            headers=headers or {},
            body=body,
            hidden=self.hidden,
            group=self.group,
            now=self.now,
            timeout_seconds=self.timeout_seconds,
            answer_bytes_max=answer_bytes_max,
        )
        return await ask(self.http, request)


@record(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider takes, as defaults of a destination of its kind; None leaves what every destination has.

    `rate_per_second` and `concurrency_max` are of the account; `pace_seconds` is the rest between two messages of one
    conversation. `key_ttl_seconds` is how long the provider remembers our key.
    """

    rate_per_second: float | None = None
    concurrency_max: int | None = None
    pace_seconds: float | None = None
    timeout_seconds: float | None = None
    key_ttl_seconds: int | None = None


@record(frozen=True, slots=True, kw_only=True)
class Facts:
    """What docs/channels.md says of a kind, a few words each: what becomes of our key, whether the provider can be
    asked, and what the receipt is.
    """

    key: str
    lookup: str
    receipt: str


@record(frozen=True, slots=True)
class Probed:
    """What a look at a destination found, in plain words: nothing of it is secret."""

    good: bool
    words: str


NO_TOKEN: Final = Probed(good=False, words="its token holds what no token does")


class Channel(Protocol[ConfigT]):
    """One kind of destination. Each module of this package exports one as `channel`."""

    # The name that configuration uses for it, and what it says of itself.
    kind: ClassVar[str]
    facts: ClassVar[Facts]
    limits: ClassVar[Limits]
    # The kinds of sources whose conversations it can answer in.
    answers: ClassVar[frozenset[str]]
    # How long after an attempt the provider can say what became of it; None where it cannot be asked.
    lookup_after_seconds: ClassVar[float | None]

    @property
    def Config(self) -> type[ConfigT]:  # noqa: N802 - it is a class
        """What a destination of this kind is configured with: frozen, and no unknown names."""
        ...

    def secrets(self, config: ConfigT) -> tuple[str, ...]:
        """The pointers (`env:NAME`, `file:/path`) that it needs resolved, in the order in which it wants them."""
        ...

    def check(self, draft: Draft, *, reply: Reply | None, config: ConfigT) -> Address:
        """Say at the seal where a message goes, and refuse what could never be sent: its `to`, then what the
        destination is configured with, then the conversation that it answers in.

        Raises `InvalidContent`, pointing within the message; touches nothing outside. `reply` is of one of the kinds
        that it `answers`; None where the turn has no source that could be answered.
        """
        ...

    async def send(
        self, message: Outgoing, *, config: ConfigT, secrets: Secrets, wire: Wire
    ) -> Outcome:
        """Make one attempt and say what is known of it, within the time that `wire` gives in all.

        `secrets` are what the pointers hold at this moment, None for one that holds nothing.
        Expected failures are outcomes, never exceptions; no outcome carries a secret, a capability or a URL.
        """
        ...

    async def lookup(
        self, message: Outgoing, *, config: ConfigT, secrets: Secrets, wire: Wire
    ) -> Found:
        """Ask whether any attempt at a message has arrived, the first of them made at `first_attempted_at`.

        `NotThere` only when that is certain; `RetryLater` when it cannot be said now, `Unknown` when it never will.
        """
        ...

    async def probe(self, *, config: ConfigT, secrets: Secrets, wire: Wire) -> Probed:
        """Say whether a destination could be sent to, without sending anything."""
        ...


class NoLookup:
    """A provider that cannot be asked what became of a message."""

    lookup_after_seconds: ClassVar[float | None] = None

    async def lookup(
        self,
        message: Outgoing,  # noqa: ARG002
        *,
        config: Any,  # noqa: ARG002
        secrets: Secrets,  # noqa: ARG002
        wire: Wire,  # noqa: ARG002
    ) -> Found:
        """Nobody knows."""
        return Unknown("lookup_impossible", ours=True)


class Options(BaseModel):
    """The base of every `Config`: frozen, no unknown names, and no error that repeats a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def answerable(channel: "AnyChannel", reply: Reply | None) -> Reply | None:
    """What a channel is told that a message answers: a conversation of a kind that it does not answer is none."""
    return reply if reply is not None and reply.kind in channel.answers else None


def read_draft(draft: Draft) -> Reading:
    """The content of a draft for an API, which takes no headers; raises `InvalidContent`."""
    if draft.headers:
        raise InvalidContent(Problem("/headers", "header_not_allowed", "this kind sends none"))
    return Reading(read_content(draft.content_type, draft.body))


def unreached(outcome: RetryLater | Unknown) -> Probed:
    """What a look at a provider found that did not answer."""
    said, advice = words_of(outcome.reason)
    words = f"the provider cannot be reached ({outcome.reason}): {said}. {advice.removesuffix('.')}"
    return Probed(good=False, words=words)


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
