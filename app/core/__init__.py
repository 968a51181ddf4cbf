"""The composition root: opens what the service needs, and closes it in reverse order.

Everything that works with settings, database, channels and the world meets here, and nowhere else.
"""

import contextlib
import os
import random
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from app import VERSION
from app.channels import Outgoing, Wire
from app.core.destinations import (
    Route,
    build_routes,
    channel_faults,
    warn_of_secrets,
)
from app.core.policies import notice_routes, retention_windows, turn_policies
from app.core.sources import (
    FetchedKeys,
    Intake,
    build_intakes,
    source_faults,
    warn_of_source_secrets,
)
from app.core.told import notice_forms, telling_faults, warn_of_silence
from app.domain.errors import SinksweepError
from app.domain.ids import IdFactory
from app.domain.model import API_SOURCE, DeliveryPolicy, TurnPolicy
from app.domain.notice import NoticeForm, NoticeRoute
from app.engine.database import DatabaseOptions, PoolWatch, open_shares
from app.engine.loopback import store
from app.engine.wake import Wakes
from app.settings import Fault, Settings
from app.telemetry.metrics import Metrics, build_metrics
from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient
from app.wire.deadlines import Deadlines

if TYPE_CHECKING:
    from app.engine.database import Pool


__all__ = [
    "Core",
    "Draining",
    "Intake",
    "InvalidConfiguration",
    "Route",
    "build_intakes",
    "build_routes",
    "channel_faults",
    "database_options",
    "kind_faults",
    "now",
    "open_core",
    "retention_windows",
]


class InvalidConfiguration(SinksweepError):
    """The configuration is well formed and cannot work: one line for each thing that is wrong."""


class Draining:
    """Whether the service is on its way out: it takes nothing new and ends every wait."""

    def __init__(self) -> None:
        self.started = False
        self._callbacks: list[Callable[[], None]] = []

    def when_started(self, callback: Callable[[], None]) -> None:
        """Call back when the drain starts."""
        self._callbacks.append(callback)

    def start(self) -> None:
        """Start once; again is harmless."""
        if not self.started:
            self.started = True
            for callback in self._callbacks:
                callback()


@dataclass(frozen=True, slots=True)
class Core:
    """What every entry point shares."""

    settings: Settings
    # `urgent` is the same pool with its reserve: for what must go through however many others wait.
    pool: "Pool"
    urgent: "Pool"
    pool_watch: PoolWatch
    wakes: Wakes
    routes: Mapping[str, Route]
    intakes: Mapping[str, Intake]
    wire: Wire
    metrics: Metrics
    ids: IdFactory
    jitter: random.Random
    draining: Draining
    # When each loop last finished a pass, on the monotonic clock, and how old that may get.
    passes: dict[str, tuple[float, float]] = field(default_factory=dict)
    # What open rows name and nobody configured here, by kind.
    unconfigured: dict[str, list[str]] = field(default_factory=dict)
    # When attempts are given up as hung.
    attempt_limits: Deadlines = field(default_factory=Deadlines)
    # The public keys of the sources that need some.
    fetched: FetchedKeys = field(default_factory=FetchedKeys)

    # The policy of each configured queue, and of each configured destination; whom each queue tells.
    turn_policies: Mapping[str, TurnPolicy] = field(init=False)
    notice_routes: Mapping[str, NoticeRoute] = field(init=False)
    notice_forms: Mapping[str, NoticeForm] = field(init=False)
    delivery_policies: Mapping[str, DeliveryPolicy] = field(init=False)

    def queue_label(self, queue: str) -> str:
        """A queue as metrics know it: those that are not configured here are all one, without a name."""
        return queue if queue in self.settings.queues else ""

    def __post_init__(self) -> None:
        """Settings never change: neither do the policies that follow from them."""
        object.__setattr__(self, "turn_policies", turn_policies(self.settings))
        object.__setattr__(self, "notice_routes", notice_routes(self.settings))
        object.__setattr__(self, "notice_forms", notice_forms(self.settings, self.routes))
        policies = {name: route.policy for name, route in self.routes.items()}
        object.__setattr__(self, "delivery_policies", policies)

    @property
    def configured(self) -> Mapping[str, frozenset[str]]:
        """The names that are configured here, by kind: `queue`, `source` and `destination`."""
        return {
            "queue": frozenset(self.settings.queues),
            "source": frozenset({API_SOURCE, *self.intakes}),
            "destination": frozenset(self.routes),
        }


def kind_faults(settings: Settings) -> list[Fault]:
    """What channels and providers find wrong with their own parts of the configuration."""
    channels = channel_faults(settings)
    # Whom a destination tells is asked of one that is in order.
    told = [] if channels else telling_faults(settings, build_routes(settings))
    return [*channels, *source_faults(settings), *told]


def database_options(settings: Settings) -> DatabaseOptions:
    """How to connect; raises `InvalidConfiguration` without a URL."""
    if settings.database_url is None:
        message = (
            "database_url: set DATABASE_URL; `sinksweep dev` brings a database of its own,"
            " and while it runs its dev.json says where"
        )
        raise InvalidConfiguration(message)
    direct = settings.database.direct_url
    return DatabaseOptions(
        url=settings.database_url.get_secret_value(),
        role=settings.database.role,
        pool_max=settings.database.pool_max,
        reserved_connections=settings.database.reserved_connections,
        acquire_seconds_max=settings.database.acquire_seconds_max,
        connect_seconds=settings.database.connect_seconds,
        statement_timeout_ms=settings.database.statement_timeout_ms,
        lock_timeout_ms=settings.database.lock_timeout_ms,
        command_seconds_max=settings.database.command_seconds_max,
        pooled=settings.database.pooler == "transaction",
        keeps_statements=settings.database.pooler_keeps_statements,
        direct_url=None if direct is None else direct.get_secret_value(),
    )


@contextlib.asynccontextmanager
async def open_core(settings: Settings, *, application_name: str) -> AsyncGenerator[Core]:
    """Open everything for one process. The database may be away: then calls fail, and the start does not."""
    options = database_options(settings)
    routes, intakes = build_routes(settings), build_intakes(settings)
    warn_of_secrets(routes)
    warn_of_silence(settings)
    warn_of_source_secrets(intakes)
    async with contextlib.AsyncExitStack() as stack:
        metrics = build_metrics()
        watch = PoolWatch(acquired=metrics.pool_acquire_seconds.observe)
        pool, urgent = await stack.enter_async_context(
            open_shares(options, application_name=application_name, watch=watch)
        )
        wakes = Wakes(options)
        wakes.on_connected, wakes.on_heard = metrics.wakes_connected.inc, metrics.wakes_heard.inc
        concurrency = [route.settings.concurrency_max for route in routes.values()]
        client = await stack.enter_async_context(
            GuardedClient(
                AddressPolicy(settings.network.allow),
                connections_max=max(concurrency, default=1),
                user_agent=f"Sinksweep/{VERSION}",
            )
        )
        yield Core(
            settings=settings,
            pool=pool,
            urgent=urgent,
            pool_watch=watch,
            wakes=wakes,
            routes=routes,
            intakes=intakes,
            wire=Wire(http=client, store=partial(_store, pool)),
            metrics=metrics,
            ids=IdFactory(milliseconds=_unix_milliseconds, random_bytes=os.urandom),
            jitter=random.Random(secrets.randbits(64)),
            draining=Draining(),
        )


async def _store(pool: "Pool", message: Outgoing) -> int:
    return await store(
        pool,
        key=message.key,
        queue=message.queue,
        conversation=message.conversation,
        destination=message.destination,
        content_type=message.content_type,
        headers=message.headers,
        body=message.body,
    )


def now() -> datetime:
    """This machine's clock, for the time of signatures and nothing else: Postgres is the clock that decides."""
    return datetime.fromtimestamp(time.time_ns() / 1e9, UTC)


def _unix_milliseconds() -> int:
    """Only to make ids sort: nothing is decided by it."""
    return time.time_ns() // 1_000_000
