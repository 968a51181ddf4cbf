"""Where settings and secrets are written: variables, a file, and what a pointer points at."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import SecretStr
from pydantic_settings import InitSettingsSource, TomlConfigSettingsSource

from app.settings.faults import Fault, SettingsError, dotted
from app.settings.shape import Settings

PREFIX: Final = "SINKSWEEP_"
# Names the file, and what the command line calls with: no keys of the configuration.
_NO_KEYS: Final = frozenset({f"{PREFIX}CONFIG", f"{PREFIX}URL", f"{PREFIX}KEY"})
DEFAULT_FILE: Final = "sinksweep.toml"
_FILE_BYTES_MAX: Final = 1 << 20
_SECRET_BYTES_MAX: Final = 1 << 16

Tree = dict[str, object]


def read_layers(
    overrides: Mapping[str, object],
    *,
    environ: Mapping[str, str],
    assumed: Mapping[str, object] | None,
) -> tuple[dict[str, InitSettingsSource], dict[str, str]]:
    """Every source of settings by its name, the strongest first, and which path came from which variable."""
    flags = {key: value for key, value in overrides.items() if value is not None}
    chosen = flags.pop("config", None) or environ.get(f"{PREFIX}CONFIG")
    variables, origins = read_variables(environ)
    layers = {
        "flag": InitSettingsSource(Settings, flags),
        "environment": InitSettingsSource(Settings, variables),
        "file": read_file(Path(str(chosen or DEFAULT_FILE)), required=bool(chosen)),
        "assumed": InitSettingsSource(Settings, dict(assumed or {})),
    }
    return layers, origins


def resolve_secret(pointer: str, *, environ: Mapping[str, str] | None = None) -> bytes | None:
    """Read what `env:NAME` or `file:/path` points at, now: a rotated secret needs no restart.

    One newline at the end is dropped. None for an absent, empty, blank or too long (64 KiB) secret
    and for what is not a pointer.
    """
    kind, _, place = pointer.partition(":")
    match kind:
        case "env":
            environ = os.environ if environ is None else environ  # noqa: TID251 - the one reader
            secret = os.fsencode(environ.get(place, ""))
        case "file":
            secret = _read_secret_file(Path(place))
        case _:
            return None
    if secret.endswith(b"\n"):
        secret = secret[:-1].removesuffix(b"\r")
    return secret if secret.strip() and len(secret) <= _SECRET_BYTES_MAX else None


def _read_secret_file(path: Path) -> bytes:
    try:
        # Only a regular file: a pipe would hold up everything else in the process.
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(_SECRET_BYTES_MAX + 2)
    except (OSError, ValueError):
        return b""


def read_file(path: Path, *, required: bool) -> TomlConfigSettingsSource:
    """Open the file as a source of settings; an absent one that nobody named holds nothing."""
    at = str(path)
    try:
        if not path.exists() and not required:
            return TomlConfigSettingsSource(Settings, None)
        if not path.is_file():
            raise SettingsError(Fault(at, "file_missing", "there is no such file"))
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise SettingsError(Fault(at, "file_too_large", "the file is larger than 1 MiB"))
        return TomlConfigSettingsSource(Settings, path)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(Fault(at, "toml_invalid", _without_quotes(str(error)))) from None
    except UnicodeDecodeError as error:
        detail = f"not UTF-8 at byte {error.start}"
        raise SettingsError(Fault(at, "toml_invalid", detail)) from None
    except RecursionError:
        raise SettingsError(Fault(at, "toml_invalid", "nested too deeply")) from None
    except (OSError, ValueError) as error:
        detail = getattr(error, "strerror", None) or "cannot be read"
        raise SettingsError(Fault(at, "file_unreadable", detail)) from None


def _without_quotes(message: str) -> str:
    return re.sub(r"'[^']*'", "...", message)


def read_variables(environ: Mapping[str, str]) -> tuple[Tree, dict[str, str]]:
    """Nest the variables like the file, and remember which path came from which variable."""
    tree: Tree = {}
    origins: dict[str, str] = {}
    faults: list[Fault] = []
    if environ.get("DATABASE_URL"):
        tree["database_url"] = SecretStr(environ["DATABASE_URL"])
        origins["database_url"] = "DATABASE_URL"
    for name in sorted(environ):
        if not name.upper().startswith(PREFIX) or name in _NO_KEYS:
            continue
        fault = _refuse_variable(name, environ[name])
        if fault is not None:
            faults.append(fault)
        elif environ[name]:
            path = name.removeprefix(PREFIX).lower().split("__")
            origins[dotted(path)] = name
            if not _put(tree, path, _variable_value(environ[name])):
                faults.append(Fault(name, "invalid", "another variable sets a part of this"))
    if faults:
        raise SettingsError(*faults)
    return tree, origins


def _refuse_variable(name: str, value: str) -> Fault | None:
    if not name.startswith(PREFIX):
        return Fault(name, "unknown_name", "the names of variables are in capitals")
    if name == f"{PREFIX}DATABASE_URL":
        return Fault(name, "unknown_name", "unknown name, did you mean DATABASE_URL?")
    link = name.startswith((f"{PREFIX}SERVICE_", f"{PREFIX}PORT_"))
    if link or (name == f"{PREFIX}PORT" and value.startswith("tcp://")):
        return Fault(
            name,
            "unknown_name",
            "a Kubernetes service link: set enableServiceLinks to false in the pod",
        )
    return None


def _put(tree: Tree, path: list[str], value: object) -> bool:
    *parents, last = path
    for part in parents:
        below = tree.setdefault(part, {})
        if not isinstance(below, dict):
            return False
        tree = below
    return tree.setdefault(last, value) is value


def _variable_value(text: str) -> object:
    """Read a list as TOML (and so JSON) writes it; leave the rest to the type of its key."""
    if text.startswith("["):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            return text
    return text
