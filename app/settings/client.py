"""Where the command line finds a running service, and the key that it calls with. No error repeats a value."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from app.settings.faults import Fault, SettingsError
from app.settings.sources import resolve_secret

URL_NAME: Final = "SINKSWEEP_URL"
KEY_NAME: Final = "SINKSWEEP_KEY"
DEV_FILE: Final = "dev.json"
_DEV_BYTES_MAX: Final = 1 << 16
_WHERE: Final = (
    "where the service is: set it, or give --url, or --data-dir of a running `sinksweep dev`"
)


@dataclass(frozen=True, slots=True)
class Client:
    """Where to call, and with which key."""

    url: str
    key: str = field(repr=False)


def load_client(
    *,
    url: str | None = None,
    data_dir: str | None = None,
    environ: Mapping[str, str] | None = None,
    dev_scope: str = "admin",
) -> Client:
    """Read both from the environment, or from the folder of a running `sinksweep dev`; raises `SettingsError`.

    The key may be a pointer (`env:NAME`, `file:/path`). There is no flag for it: others would see it.
    Of a `sinksweep dev` it is its key with `dev_scope`.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251 - a part of the one reader
    if data_dir is not None:
        return _of_dev(Path(data_dir) / DEV_FILE, dev_scope)
    faults: list[Fault] = []
    where, secret = url or environ.get(URL_NAME, ""), environ.get(KEY_NAME, "")
    if not where:
        faults.append(Fault(URL_NAME, "missing", _WHERE))
    elif not _is_url(where):
        faults.append(Fault(URL_NAME, "invalid", "a URL like https://sinksweep.example is needed"))
    if not secret:
        faults.append(Fault(KEY_NAME, "missing", "the key to call with, or a pointer to it"))
    elif secret.startswith(("env:", "file:")):
        found = resolve_secret(secret, environ=environ)
        if found is None:
            faults.append(Fault(KEY_NAME, "invalid", "its pointer leads to nothing"))
        secret = os.fsdecode(found or b"")
    if secret and not (secret.isascii() and secret.isprintable() and " " not in secret):
        faults.append(Fault(KEY_NAME, "invalid", "this cannot be a key"))
    if faults:
        raise SettingsError(*faults)
    return Client(where.rstrip("/"), secret)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _of_dev(path: Path, scope: str) -> Client:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_DEV_BYTES_MAX))
        return Client(str(found["url"]), str(found["keys"][scope]))
    except (OSError, ValueError, KeyError, TypeError):
        detail = "no `sinksweep dev` keeps its data in this folder"
        raise SettingsError(Fault(str(path), "file_missing", detail)) from None
