"""Configuration: read once, checked as a whole, frozen; a name that nobody knows stops the start.

The only reader of the environment and of the configuration file. One precedence: flags, then the
environment, then the file, then what the command assumes, then the defaults. No error repeats a
value, so that none can repeat a secret.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic_settings import InitSettingsSource

from app.settings.contradictions import contradictions
from app.settings.faults import Fault, SettingsError, dotted, explain, unknown_name
from app.settings.incoming import Filter, Source
from app.settings.origins import Shown, show_settings
from app.settings.queues import Queue
from app.settings.shape import (
    Database,
    Delivery,
    Destination,
    Keys,
    Limits,
    Network,
    Retention,
    Server,
    Settings,
    Sweep,
)
from app.settings.silence import has_holds, silences
from app.settings.sources import read_layers, resolve_secret

__all__ = [
    "Database",
    "Delivery",
    "Destination",
    "Fault",
    "Filter",
    "Keys",
    "Limits",
    "Network",
    "Queue",
    "Retention",
    "Server",
    "Settings",
    "SettingsError",
    "Shown",
    "Source",
    "Sweep",
    "dotted",
    "explain",
    "has_holds",
    "load_settings",
    "resolve_secret",
    "show_settings",
    "silences",
    "unknown_name",
]

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
    in the parts that are not checked here: those of the channels and of the providers.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251 - the one reader
    by_name, origins = read_layers(overrides, environ=environ, assumed=assumed)
    layers = tuple(by_name.values())
    faults: list[Fault] = []
    try:
        settings = Settings(_build_sources=(layers, {}))
    except ValidationError as error:
        faults += explain(error, model=Settings)
        with contextlib.suppress(ValidationError):
            # What is wrong elsewhere hides nothing of the kinds.
            only = [InitSettingsSource(Settings, _with_kinds(layer())) for layer in layers]
            faults += also(Settings(_build_sources=(tuple(only), {})))
        raise SettingsError(*(_with_origin(fault, origins) for fault in faults)) from None
    faults += (*also(settings), *contradictions(settings))
    try:
        settings = _with_urls(settings, environ)
    except SettingsError as error:
        faults += error.faults
    if faults:
        raise SettingsError(*(_with_origin(fault, origins) for fault in faults))
    return settings


def _with_kinds(tree: Mapping[str, object]) -> dict[str, object]:
    return {name: tree[name] for name in ("sources", "destinations") if name in tree}


def _with_origin(fault: Fault, origins: Mapping[str, str]) -> Fault:
    variable = origins.get(fault.path)
    return Fault(variable, fault.code, fault.detail) if variable else fault


def _with_urls(settings: Settings, environ: Mapping[str, str]) -> Settings:
    url = _read_url("database_url", settings.database_url, environ)
    direct = _read_url("database.direct_url", settings.database.direct_url, environ)
    database = settings.database.model_copy(update={"direct_url": direct})
    return settings.model_copy(update={"database_url": url, "database": database})


def _read_url(path: str, given: SecretStr | None, environ: Mapping[str, str]) -> SecretStr | None:
    if given is None:
        return None
    text = given.get_secret_value()
    if text.startswith(("env:", "file:")):
        secret = resolve_secret(text, environ=environ)
        if secret is None:
            raise SettingsError(Fault(path, "invalid", "its pointer leads to nothing"))
        text = os.fsdecode(secret)
    if not _DSN.fullmatch(text):
        detail = "a URL that begins with postgresql:// is needed"
        raise SettingsError(Fault(path, "invalid", detail))
    if not _has_readable_host(text):
        detail = "its host cannot be read; write special characters of user and password as %XX"
        raise SettingsError(Fault(path, "invalid", detail))
    return SecretStr(text)


def _has_readable_host(url: str) -> bool:
    """Whether what an unescaped character cut off is not taken for a port, and quoted in an error later."""
    try:
        hosts = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return False
    return all(_HOST.fullmatch(host) for host in hosts.split(","))
