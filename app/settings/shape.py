"""The settings themselves: every key, its default and its bounds, frozen."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import (
    Field,
    SecretStr,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.domain.model import OnUnknown
from app.settings.incoming import Source, SourceName
from app.settings.queues import Queue
from app.settings.section import Section, with_options
from app.settings.values import (
    Count,
    HeaderName,
    Name,
    Networks,
    Options,
    Seconds,
)
from app.wire.pointer import BaseUrl


class Database(Section):
    """How the service meets Postgres. An empty `role` keeps the role of the login."""

    pool_max: Annotated[Count, Field(ge=2, le=1000)] = 10
    reserved_connections: Annotated[Count, Field(ge=1, le=100)] = 3
    acquire_seconds_max: Annotated[Seconds, Field(ge=0.05, le=3)] = 3.0
    connect_seconds: Annotated[Seconds, Field(ge=0.1, le=300)] = 3.0
    statement_timeout_ms: Annotated[Count, Field(ge=10, le=600_000)] = 4000
    lock_timeout_ms: Annotated[Count, Field(ge=10, le=600_000)] = 2000
    command_seconds_max: Annotated[Seconds, Field(ge=0.1, le=600)] = 5.0
    role: Annotated[str, Field(max_length=63)] = "sinksweep_app"
    allow_unsafe: bool = False
    pooler: Literal["none", "transaction"] = "none"
    pooler_keeps_statements: bool = False
    direct_url: SecretStr | None = None


class Limits(Section):
    """What one request may ask for."""

    header_seconds_max: Annotated[Seconds, Field(ge=0.1, le=600)] = 10.0
    body_bytes_max: Annotated[Count, Field(ge=1024, le=1 << 26)] = 1 << 20
    body_seconds_max: Annotated[Seconds, Field(ge=0.1, le=600)] = 10.0
    answer_seconds_max: Annotated[Seconds, Field(ge=0.1, le=600)] = 30.0
    batch_max: Annotated[Count, Field(ge=1, le=1000)] = 100
    batch_bytes_max: Annotated[Count, Field(ge=1024, le=1 << 28)] = 8 << 20
    messages_max: Annotated[Count, Field(ge=1, le=1000)] = 100
    set_bytes_max: Annotated[Count, Field(ge=1024, le=1 << 28)] = 4 << 20
    metadata_bytes_max: Annotated[Count, Field(ge=2, le=1 << 20)] = 16 << 10
    delay_seconds_max: Annotated[Count, Field(ge=0, le=315_360_000)] = 31_536_000
    turns_claim_max: Annotated[Count, Field(ge=1, le=1000)] = 50
    answer_bytes_max: Annotated[Count, Field(ge=1024, le=1 << 28)] = 8 << 20
    lease_seconds_max: Annotated[Count, Field(ge=1, le=86_400)] = 3600
    releases_max: Annotated[Count, Field(ge=0, le=1000)] = 20
    follow_ups_max: Annotated[Count, Field(ge=0, le=1000)] = 20
    depth_max: Annotated[Count, Field(ge=0, le=1000)] = 20
    hold_seconds_max: Annotated[Count, Field(ge=1, le=315_360_000)] = 31_536_000
    park_seconds_max: Annotated[Count, Field(ge=1, le=315_360_000)] = 31_536_000
    parks_max: Annotated[Count, Field(ge=0, le=10_000)] = 100
    wait_seconds_max: Annotated[Seconds, Field(ge=0, le=300)] = 30.0
    state_wait_seconds_max: Annotated[Seconds, Field(ge=0, le=300)] = 60.0


class Keys(Section):
    """How long an idempotency key is remembered."""

    idempotency_days: Annotated[Count, Field(ge=1, le=3650)] = 30

    @property
    def idempotency_seconds(self) -> int:
        """The same in seconds, as the engine wants it."""
        return self.idempotency_days * 86_400


class Delivery(Section):
    """The delivery worker. A message's lease is its destination's timeout and the margin."""

    lease_margin_seconds: Annotated[Seconds, Field(ge=1, le=600)] = 15.0
    poll_seconds: Annotated[Seconds, Field(ge=0.01, le=60)] = 1.0


class Sweep(Section):
    """The sweeper: how often, and how many rows at once."""

    interval_seconds: Annotated[Seconds, Field(ge=0.01, le=60)] = 1.0
    batch_max: Annotated[Count, Field(ge=1, le=10_000)] = 500


class Retention(Section):
    """How long what has ended is kept, and how gently it is removed."""

    turns_days: Annotated[Count, Field(ge=1, le=36_500)] = 30
    failed_days: Annotated[Count, Field(ge=1, le=36_500)] = 90
    tombstone_days: Annotated[Count, Field(ge=0, le=36_500)] = 30
    loopback_days: Annotated[Count, Field(ge=1, le=36_500)] = 30
    operations_days: Annotated[Count, Field(ge=1, le=36_500)] = 90
    interval_seconds: Annotated[Seconds, Field(ge=1, le=86_400)] = 3600.0
    batch_max: Annotated[Count, Field(ge=1, le=5000)] = 100
    share_max: Annotated[Seconds, Field(ge=0.01, le=1)] = 0.25


class Server(Section):
    """How many connections there may be, how a drain goes, and after how many missed intervals readiness turns red."""

    connections_max: Annotated[Count, Field(ge=1, le=1_000_000)] = 10_000
    keep_alive_seconds: Annotated[Count, Field(ge=1, le=3600)] = 75
    drain_delay_seconds: Annotated[Seconds, Field(ge=0, le=600)] = 0.0
    drain_seconds: Annotated[Seconds, Field(ge=0, le=600)] = 20.0
    ready_stale_intervals: Annotated[Count, Field(ge=2, le=1000)] = 10
    # Where providers reach this installation: what is in front of it, without a path of ours.
    public_url: BaseUrl | None = None

    @property
    def files_max(self) -> int:
        """How many files a process may have open: its connections, and what it needs beside them."""
        return self.connections_max + 1000


class Network(Section):
    """The private networks that destinations may reach."""

    allow: Networks = ()


class Destination(Section):
    """The policy of one destination. `options` are the keys that its channel understands."""

    kind: Name
    attempts_max: Annotated[Count, Field(ge=1, le=1000)] = 12
    age_seconds_max: Annotated[Count, Field(ge=1, le=31_536_000)] = 259_200
    timeout_seconds: Annotated[Seconds, Field(ge=0.1, le=300)] = 15.0
    concurrency_max: Annotated[Count, Field(ge=1, le=1000)] = 32
    rate_per_second: Annotated[Seconds | None, Field(ge=0.001, le=100_000)] = None
    pace_seconds: Annotated[Seconds | None, Field(ge=0, le=3600)] = None
    key_ttl_seconds: Annotated[Count | None, Field(ge=1, le=31_536_000)] = None
    breaker_failures: Annotated[Count, Field(ge=1, le=10_000)] = 10
    breaker_seconds: Annotated[Seconds, Field(ge=0.1, le=86_400)] = 5.0
    breaker_seconds_max: Annotated[Seconds, Field(ge=0.1, le=86_400)] = 300.0
    backoff_seconds: Annotated[Seconds, Field(ge=0, le=86_400)] = 1.0
    backoff_seconds_max: Annotated[Seconds, Field(ge=0, le=86_400)] = 3600.0
    on_unknown: OnUnknown = "retry"
    hold: Literal["always"] | None = None
    headers_allow: tuple[HeaderName, ...] = ()
    to_allow: tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...] = ()
    options: Options = Field(default={}, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _gather_options(cls, data: object) -> object:
        return with_options(cls, data)


class Settings(BaseSettings):
    """Everything that can be configured. Built from its arguments alone; see `load_settings`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )
    host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[Count, Field(ge=0, le=65_535)] = 7979
    data_dir: Path = Path("data")
    database_url: SecretStr | None = None
    database: Database = Database()
    limits: Limits = Limits()
    keys: Keys = Keys()
    delivery: Delivery = Delivery()
    sweep: Sweep = Sweep()
    retention: Retention = Retention()
    server: Server = Server()
    network: Network = Network()
    queues: Mapping[Name, Queue] = Field(default={}, validate_default=True)
    sources: Mapping[SourceName, Source] = Field(default={}, validate_default=True)
    destinations: Mapping[Name, Destination] = Field(default={}, validate_default=True)

    @field_validator("queues")
    @classmethod
    def _default_queue_exists(cls, value: Mapping[str, Queue]) -> Mapping[str, Queue]:
        return MappingProxyType({"default": Queue()} | dict(value))

    @field_validator("sources")
    @classmethod
    def _freeze_sources(cls, value: Mapping[str, Source]) -> Mapping[str, Source]:
        return MappingProxyType(dict(value))

    @field_validator("destinations")
    @classmethod
    def _freeze(cls, value: Mapping[str, Destination]) -> Mapping[str, Destination]:
        return MappingProxyType(dict(value))

    @field_serializer("queues", "sources", "destinations")
    def _plain(self, value: Mapping[str, Section]) -> dict[str, object]:
        return {name: policy.model_dump(mode="json") for name, policy in value.items()}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read nothing by itself: a test that builds settings never meets its environment."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)
