"""The documented shapes of what shows queues, sources and destinations, and stops them."""

from typing import Any, Literal

from pydantic import BaseModel

from app.api.requests import Time


class Pause(BaseModel):
    """Since when something stands still, which key stopped it, and why."""

    at: Time
    by: str
    reason: str | None


class PauseNow(BaseModel):
    """Whether something is paused after a call. `name` is null for everything."""

    kind: Literal["all", "queue", "source", "destination"]
    name: str | None
    paused: Pause | None


class Queue(BaseModel):
    """A queue: its turns by state, each counted up to 1,000. Without `configured` rows name it, and it waits."""

    name: str
    configured: bool
    paused: Pause | None
    policy: dict[str, Any] | None
    turns: dict[str, int]
    oldest_queued_seconds: float | None


class Queues(BaseModel):
    """The queues."""

    items: list[Queue]
    next_cursor: None
    everything_paused: Pause | None


class Differing(BaseModel):
    """A key under which other bodies came than the one that it stands for. `different` are told apart up to 16."""

    key: str
    times: int
    different: int
    first_at: Time
    last_at: Time


class Source(BaseModel):
    """A source, and how many turns it holds up while it is paused, counted up to 1,000.

    `url` is what is pasted at the provider, `missing` what keeps it from being ready, `differing` the last keys whose
    bodies differed. `kind`, `queue`, `reply_to` and `url` are null for the plain API and for what is not configured.
    """

    name: str
    kind: str | None
    queue: str | None
    reply_to: str | None
    url: str | None
    missing: list[str]
    differing: list[Differing]
    configured: bool
    paused: Pause | None
    held: int | None
    oldest_held_seconds: float | None


class Sources(BaseModel):
    """The sources."""

    items: list[Source]
    next_cursor: None
    everything_paused: Pause | None


class Breaker(BaseModel):
    """A destination's health, as all replicas know it. While it is not closed nothing but probes are sent."""

    state: Literal["closed", "open", "probing", "disabled"]
    opened_at: Time | None
    probe_at: Time | None
    reason: str | None


class Destination(BaseModel):
    """A destination: its messages by state, each counted up to 1,000; `pending` are those that nothing blocks."""

    name: str
    configured: bool
    paused: Pause | None
    policy: dict[str, Any] | None
    breaker: Breaker
    messages: dict[str, int] | None
    oldest_pending_seconds: float | None


class Destinations(BaseModel):
    """The destinations."""

    items: list[Destination]
    next_cursor: None
    everything_paused: Pause | None
