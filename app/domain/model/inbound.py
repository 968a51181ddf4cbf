"""What comes in, and the handle it gets."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from uuid import UUID

from app.domain.record import record

# The source of what comes over the plain API.
API_SOURCE = "api"


@record(frozen=True, slots=True)
class Arrival:
    """One inbound to accept. `scope` is what its keys are unique in; `not_before` wins over `delay_seconds`.

    Neither may lie further ahead than `delay_seconds_max`, by the database's clock. `also` are further keys: a hit on
    any makes it a duplicate, and `key` alone stands for its body. `view` is JSON in ASCII; `reply` is leave to answer,
    until `reply_expires_at`.
    """

    scope: str
    key: str
    body_hash: bytes
    queue: str
    source: str
    conversation: str | None
    content_type: str
    body: bytes
    strict_json: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: str | None = None
    priority: int = 0
    delay_seconds: float = 0.0
    not_before: datetime | None = None
    delay_seconds_max: float = 31_536_000.0
    joining: "Joining | None" = None
    also: tuple[str, ...] = ()
    view: str | None = None
    reply: bytes | None = field(default=None, repr=False)
    reply_expires_at: datetime | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key, that of its body first, and none twice."""
        return tuple(dict.fromkeys((self.key, *self.also)))

    @property
    def may_join(self) -> bool:
        """Whether it may share the turn of others of its conversation. What is not due yet joins nobody."""
        return self.joining is not None and self.conversation is not None and self.is_now

    @property
    def is_plain(self) -> bool:
        """Whether it is one turn of its own under one key, from now on."""
        return self.is_now and not self.also and not self.may_join

    @property
    def may_be_too_far(self) -> bool:
        """Whether only the database's clock can tell that it lies too far ahead, or nothing has looked yet."""
        return self.not_before is not None or self.delay_seconds > self.delay_seconds_max

    @property
    def is_now(self) -> bool:
        """Whether no later time is named for it."""
        return self.not_before is None and not self.delay_seconds


@record(frozen=True, slots=True)
class Joining:
    """How inbound of one conversation share a turn: it is due once nothing came for `quiet_seconds`, and at the latest
    `seconds_max` after its first. `inbound_max` and `bytes_max` bound what one turn may gather.
    """

    quiet_seconds: float
    seconds_max: float
    inbound_max: int
    bytes_max: int


@record(frozen=True, slots=True)
class Accepted:
    """The handle of an inbound. `duplicate`: the key was known; `same_body`: and what came was what it stands for."""

    inbound: UUID
    turn: UUID
    state: str
    duplicate: bool
    same_body: bool
    key_expires_at: datetime
