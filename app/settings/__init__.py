"""Configuration: read once, checked as a whole, frozen; a name that nobody knows stops the start.

The only reader of the environment and of the configuration file. One precedence: flags, then the
environment, then the file, then what the command assumes, then the defaults. No error repeats a
value, so that none can repeat a secret.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic_settings import InitSettingsSource

from app.settings.faults import Fault, SettingsError, dotted, explain, unknown_name
from app.settings.shape import (
    Database,
    Delivery,
    Destination,
    Keys,
    Limits,
    Network,
    Queue,
    Server,
    Settings,
    Sweep,
)
from app.settings.sources import PREFIX, read_file, read_variables, resolve_secret

__all__ = [
    "Database",
    "Delivery",
    "Destination",
    "Fault",
    "Keys",
    "Limits",
    "Network",
    "Queue",
    "Server",
    "Settings",
    "SettingsError",
    "Sweep",
    "dotted",
    "explain",
    "load_settings",
    "resolve_secret",
    "unknown_name",
]

DEFAULT_FILE: Final = "sinksweep.toml"
_DSN: Final = re.compile(r"postgres(ql)?://\S+")
_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")


def load_settings(
    *,
    overrides: Mapping[str, object],
    environ: Mapping[str, str] | None = None,
    assumed: Mapping[str, object] | None = None,
    also: Callable[[Settings], Iterable[Fault]] = lambda _: (),
) -> Settings:
    """Read the configuration, or raise `SettingsError` with everything that is wrong.

    `overrides` are the flags: nested like the file, `config` names the file, None means not given.
    `assumed` is nested likewise and gives way to all that anybody wrote. `also` finds what is wrong
    in the parts that are not checked here: those of the channels.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251 - the one reader
    flags = {key: value for key, value in overrides.items() if value is not None}
    chosen = flags.pop("config", None) or environ.get(f"{PREFIX}CONFIG")
    variables, origins = read_variables(environ)
    layers = (
        InitSettingsSource(Settings, flags),
        InitSettingsSource(Settings, variables),
        read_file(Path(str(chosen or DEFAULT_FILE)), required=bool(chosen)),
        InitSettingsSource(Settings, dict(assumed or {})),
    )
    faults: list[Fault] = []
    try:
        settings = Settings(_build_sources=(layers, {}))
    except ValidationError as error:
        faults += explain(error, model=Settings)
        with contextlib.suppress(ValidationError):
            # What is wrong elsewhere hides nothing of the destinations.
            only = [InitSettingsSource(Settings, _destinations(layer())) for layer in layers]
            faults += also(Settings(_build_sources=(tuple(only), {})))
        raise SettingsError(*(_with_origin(fault, origins) for fault in faults)) from None
    faults += (*also(settings), *_contradictions(settings))
    try:
        settings = _with_database_url(settings, environ)
    except SettingsError as error:
        faults += error.faults
    if faults:
        raise SettingsError(*(_with_origin(fault, origins) for fault in faults))
    return settings


def _destinations(tree: Mapping[str, object]) -> dict[str, object]:
    return {name: tree[name] for name in ("destinations",) if name in tree}


def _with_origin(fault: Fault, origins: Mapping[str, str]) -> Fault:
    variable = origins.get(fault.path)
    return Fault(variable, fault.code, fault.detail) if variable else fault


def _with_database_url(settings: Settings, environ: Mapping[str, str]) -> Settings:
    if settings.database_url is None:
        return settings
    text = settings.database_url.get_secret_value()
    if text.startswith(("env:", "file:")):
        secret = resolve_secret(text, environ=environ)
        if secret is None:
            raise SettingsError(Fault("database_url", "invalid", "its pointer leads to nothing"))
        text = os.fsdecode(secret)
    if not _DSN.fullmatch(text):
        detail = "a URL that begins with postgresql:// is needed"
        raise SettingsError(Fault("database_url", "invalid", detail))
    if not _has_readable_host(text):
        detail = "its host cannot be read; write special characters of user and password as %XX"
        raise SettingsError(Fault("database_url", "invalid", detail))
    return settings.model_copy(update={"database_url": SecretStr(text)})


def _has_readable_host(url: str) -> bool:
    """Whether what an unescaped character cut off is not taken for a port, and quoted in an error later."""
    try:
        hosts = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return False
    return all(_HOST.fullmatch(host) for host in hosts.split(","))


def _contradictions(settings: Settings) -> Iterator[Fault]:
    """Find what each key allows and all together do not."""

    def compare(path: str, low: float, high: float, *, other: str) -> Iterator[Fault]:
        if low > high:
            yield Fault(path, "contradiction", f"must not exceed {other}")

    database, limits = settings.database, settings.limits
    yield from compare(
        "database.lock_timeout_ms",
        database.lock_timeout_ms,
        database.statement_timeout_ms,
        other="database.statement_timeout_ms",
    )
    yield from compare(
        "database.statement_timeout_ms",
        database.statement_timeout_ms,
        database.command_seconds_max * 1000,
        other="database.command_seconds_max",
    )
    for name, queue in settings.queues.items():
        at = dotted(["queues", name])
        limit = limits.lease_seconds_max
        yield from compare(
            f"{at}.lease_seconds", queue.lease_seconds, limit, other="limits.lease_seconds_max"
        )
        yield from compare(
            f"{at}.coalesce_quiet_seconds",
            queue.coalesce_quiet_seconds or 0.0,
            queue.longest_coalesce_seconds,
            other="coalesce_seconds_max",
        )
        if queue.coalesce_seconds_max is not None and queue.coalesce_quiet_seconds is None:
            detail = "bounds coalesce_quiet_seconds, which is not given"
            yield Fault(f"{at}.coalesce_seconds_max", "contradiction", detail)
        for destination in queue.destinations or ():
            if destination not in settings.destinations:
                path = f"{at}.destinations.{dotted([destination])}"
                yield unknown_name(path, name=destination, known=settings.destinations)
    policies: list[tuple[str, Queue | Destination]] = [
        *((dotted(["queues", name]), queue) for name, queue in settings.queues.items()),
        *((dotted(["destinations", name]), to) for name, to in settings.destinations.items()),
    ]
    for at, policy in policies:
        yield from compare(
            f"{at}.backoff_seconds",
            policy.backoff_seconds,
            policy.backoff_seconds_max,
            other="backoff_seconds_max",
        )
