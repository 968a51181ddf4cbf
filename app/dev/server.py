"""`sinksweep dev`: the whole service in one process on a Postgres of its own, for the person in front of it.

Listens on loopback only. Tells where it is and with which keys, on the terminal and in `dev.json`.
"""

import asyncio
import contextlib
import fcntl
import ipaddress
import json
import os
import socket
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path

from pydantic import SecretStr

from app.core import Core, InvalidConfiguration, open_core
from app.core.sources import build_intakes
from app.dev.binaries import find_binaries
from app.dev.postgres import AlreadyRunning, EmbeddedPostgres
from app.domain.errors import SinksweepError
from app.domain.scopes import SCOPES
from app.engine.keys import create_key, find_principal, list_keys, revoke_key
from app.engine.schema import upgrade
from app.service import Role, bind, check_database, run_service, url_of
from app.settings import Settings

# What dev assumes where nobody says otherwise: a receiver without a receiver.
ASSUMED: Mapping[str, object] = {"destinations": {"loopback": {"kind": "loopback"}}}
# Receivers on this machine are reachable in dev, whatever else is allowed.
NEIGHBOURS = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
DESCRIPTION = "dev.json"


class FolderUnusable(SinksweepError):
    """The data folder cannot be made, or not be written to."""


async def dev(settings: Settings) -> None:
    """Run until a signal asks to stop."""
    if not _is_loopback(settings.host):
        message = f"host: dev listens on loopback only, and {settings.host!r} is not"
        raise InvalidConfiguration(message)
    with _only_one(settings.data_dir):
        listener = bind(settings.host, settings.port)
        with contextlib.closing(listener):
            async with _database(settings) as (url, origin):
                await upgrade(url)
                # A source whose provider signs the URL is told that it lacks one: it is not reached here.
                build_intakes(settings)
                assumed = for_dev(settings, url, here=url_of(listener))
                async with open_core(assumed, application_name="sinksweep dev") as core:
                    await _serve(core, listener, url=url, origin=origin)


def for_dev(settings: Settings, url: str, *, here: str | None = None) -> Settings:
    """The settings with the database that dev has, the networks that it may reach, and where its links lead."""
    allow = (*settings.network.allow, *NEIGHBOURS)
    network = settings.network.model_copy(update={"allow": allow})
    public_url = settings.server.public_url or here
    server = settings.server.model_copy(update={"public_url": public_url})
    return settings.model_copy(
        update={"database_url": SecretStr(url), "network": network, "server": server}
    )


async def _serve(core: Core, listener: socket.socket, *, url: str, origin: str) -> None:
    await check_database(core)
    description = core.settings.data_dir / DESCRIPTION
    keys = await _keys(core, description)
    here = url_of(listener)

    def tell() -> None:
        _write(
            description,
            {"url": here, "keys": keys, "database_url": url, "pid": os.getpid()},
        )
        print(_greeting(here, keys, origin, description), flush=True)

    await run_service(core, roles=frozenset(Role), listener=listener, when_ready=tell)
    print("Stopped. Everything that was accepted is kept.", flush=True)


@contextlib.asynccontextmanager
async def _database(settings: Settings) -> AsyncGenerator[tuple[str, str]]:
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), "DATABASE_URL"
        return
    print("Starting Postgres ...", flush=True)
    async with (
        EmbeddedPostgres.open(settings.data_dir, binaries=find_binaries()) as server,
        asyncio.TaskGroup() as tasks,
    ):
        watching = tasks.create_task(server.watch())
        yield server.url, server.origin
        watching.cancel()


async def _keys(core: Core, description: Path) -> dict[str, str]:
    """One key for each scope: those of the last time, where this database still knows them."""
    kept: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        text = description.read_text(encoding="utf-8")  # noqa: ASYNC240 - before anything runs
        kept = dict(json.loads(text)["keys"])
    keys: dict[str, str] = {}
    for scope in SCOPES:
        key = kept.get(scope)
        if not isinstance(key, str) or await find_principal(core.pool, key) is None:
            key = await _new_key(core, scope)
        keys[scope] = key
    return keys


async def _new_key(core: Core, scope: str) -> str:
    """A key in place of those that earlier starts made: nobody has them any more."""
    name = f"dev {scope}"
    for view in await list_keys(core.pool):
        if view.name == name and view.revoked_at is None:
            await revoke_key(core.pool, view.id)
    return await create_key(core.pool, name=name, scopes=[scope], queues=None)


def _greeting(url: str, keys: Mapping[str, str], origin: str, description: Path) -> str:
    return f"""
Sinksweep is ready at {url}
  Postgres   {origin}
  keys       in {description.resolve()}, one for each scope; this one accepts:
             {keys["accept"]}

Accept a message (paste it twice: the second is the same one):

  curl -s {url}/v1/inbound -H 'Authorization: Bearer {keys["accept"]}' \\
    -H 'Content-Type: application/json' -H 'Idempotency-Key: hello-1' \\
    -d '{{"conversation": "ada", "payload": {{"text": "I would like a waffle maker"}}}}'

Ctrl-C stops everything."""


def _write(description: Path, content: Mapping[str, object]) -> None:
    """Replaced as a whole and never readable by others: it holds keys."""
    new = description.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
    new.replace(description)


@contextlib.contextmanager
def _only_one(data_dir: Path) -> Iterator[None]:
    """Hold the folder, also where the database is elsewhere: two services would write one dev.json."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data_dir / "dev.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        message = (
            f"data_dir: {data_dir.absolute()} cannot be used ({error.strerror}); "
            "choose another with SINKSWEEP_DATA_DIR or --data-dir"
        )
        raise FolderUnusable(message) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            message = (
                f"a Sinksweep (pid {owner or 'unknown'}) already runs on {data_dir.resolve()}; stop it, or give "
                "this one another folder with SINKSWEEP_DATA_DIR or --data-dir"
            )
            raise AlreadyRunning(message) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


__all__ = ["ASSUMED", "dev"]
