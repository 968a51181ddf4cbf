"""A Postgres server on a local folder: ends with this process, keeps all that it acknowledged.

Who may connect: the server trusts everyone who reaches its socket, so the socket's folder is the
lock. That folder is 0700 and owned by the account that the server runs as: this process's own, or,
started by root, the one root dropped to. So only that account and root can enter it. There is no
TCP listener.

How it ends: the server is a child in a session of its own, so that Ctrl-C reaches this process
alone, which may drain before it stops the server. Killed outright, Linux sends the server SIGINT (a
fast shutdown). Elsewhere the server lives on; the next start ends it and starts its own, rather
than adopt one whose settings may differ and that would not end with it.
"""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import asyncpg

from app.dev.binaries import Binaries, PostgresUnavailable, choose_runner
from app.dev.child import POLL_SECONDS, Runner, ended, spawn, stop
from app.dev.folder import SOCKET_PREFIX, AlreadyRunning, Record, end_leftover, hold

__all__ = ["AlreadyRunning", "EmbeddedPostgres", "ServerEnded", "StartFailed"]

_logger = logging.getLogger(__name__)

_INITDB_SECONDS_MAX = 120.0
_LOG_TAIL_BYTES_MAX = 4096
WATCH_SECONDS = 0.1
_PORT = 5432  # names the socket's file; nothing listens on a port

_SETTINGS = (
    "listen_addresses=",
    "unix_socket_permissions=0777",
    "max_connections=100",
    "shared_buffers=128MB",
    "max_wal_size=1GB",
    "timezone=UTC",
    "log_timezone=UTC",
    "log_checkpoints=off",
    "logging_collector=off",
    "log_destination=stderr",
)
_SETTINGS_NOT_DURABLE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class ServerEnded(PostgresUnavailable):
    """The server ended by itself, or somebody ended it."""


class StartFailed(PostgresUnavailable):
    """initdb or the server did not come up; the text quotes the end of the server's log."""


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A running server: a DSN for any local process of this account or of root, words, a process."""

    url: str
    origin: str
    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        """The server's own process, or the one that runs it in a namespace."""
        return self.process.pid

    async def watch(self) -> NoReturn:
        """Raise `ServerEnded` when the server ends although nobody here asked it to."""
        while (code := self.process.poll()) is None:  # noqa: ASYNC110 - a process sets no event
            await asyncio.sleep(WATCH_SECONDS)
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        raise ServerEnded(
            f"the embedded Postgres has ended {how}; what it acknowledged is kept, start again to go on"
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        data_dir: Path,
        *,
        binaries: Binaries,
        durable: bool = True,
        start_seconds_max: float = 60.0,
    ) -> "AsyncIterator[EmbeddedPostgres]":
        """Serve `data_dir/pg<major>`, made on first use, until the context ends.

        `durable=False` gives up crash safety for speed: for tests only. Raises
        PostgresUnavailable, as AlreadyRunning or StartFailed where one of them fits.
        """
        # Linux ties the parent's death to the thread that forked: a short-lived one would end the
        # server early.
        if threading.current_thread() is not threading.main_thread():
            raise StartFailed("open the embedded Postgres from the main thread")
        folder = _made(data_dir)
        cluster = folder / f"pg{binaries.version}"
        with hold(folder) as claim:
            await end_leftover(cluster, before=claim.before)
            runner = choose_runner(binaries, cluster=cluster)
            log = _new_log(folder)
            with _socket_folder(runner) as sockets:
                claim.write(Record(os.getpid(), 0, str(sockets)))
                await _make_ready(cluster, binaries, runner=runner, log=log, durable=durable)
                url = f"postgresql://postgres@/postgres?host={sockets}&port={_PORT}"
                command = _command(cluster, binaries, sockets=sockets, durable=durable)
                server = spawn(command, runner=runner, log=log, dies_with=signal.SIGINT)
                try:
                    claim.write(Record(os.getpid(), server.pid, str(sockets)))
                    await _wait_ready(server, url, log=log, seconds_max=start_seconds_max)
                    yield cls(url, f"{binaries.origin}, run by {runner.name}", server)
                finally:
                    await stop(server)


def _made(data_dir: Path) -> Path:
    data_dir.mkdir(parents=True, exist_ok=True)
    return data_dir.resolve()


def _new_log(folder: Path) -> Path:
    """The server's stderr, from this start on; the one before is kept beside it."""
    log = folder / "postgres.log"
    if log.exists():
        log.replace(folder / "postgres.log.1")
    # Errors quote rows, so nobody else may read them.
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return log


@contextmanager
def _socket_folder(runner: Runner) -> Iterator[Path]:
    # Not in the data folder: a socket's path has a limit of about 100 bytes. Not in TMPDIR, which
    # may be long, or private to this account while the server runs as another.
    folder = Path(tempfile.mkdtemp(prefix=SOCKET_PREFIX, dir="/tmp"))
    try:
        _hand_over(folder, runner)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hand_over(folder: Path, runner: Runner) -> None:
    """Give a folder and all in it to the account that the server runs as."""
    if folder.stat().st_uid == runner.owner_uid:
        return
    for parent, _, names in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in names)):  # noqa: PTH118
            os.chown(path, runner.owner_uid, runner.owner_gid, follow_symlinks=False)


async def _make_ready(
    cluster: Path, binaries: Binaries, *, runner: Runner, log: Path, durable: bool
) -> None:
    """Have a whole cluster at `cluster`, or nothing: a kill on the way leaves only a sibling."""
    if _is_made(cluster, runner):
        return
    making = Path(tempfile.mkdtemp(prefix=f"{cluster.name}.making-", dir=cluster.parent))
    try:
        _hand_over(making, runner)
        modern = binaries.version >= 17  # noqa: PLR2004 - the first with a provider of its own
        libc = "C.UTF-8" if sys.platform == "linux" else "C"
        command = [
            *(str(binaries.folder / "initdb"), "-D", str(making), "-U", "postgres", "-E", "UTF8"),
            *(("--locale-provider=builtin", "--builtin-locale=C.UTF-8") if modern else ()),
            *(() if modern else (f"--locale={libc}",)),
            *("--auth-local=trust", "--auth-host=scram-sha-256", "--no-instructions", "-k"),
            *(() if durable else ("--no-sync",)),
        ]
        initdb = spawn(command, runner=runner, log=log, dies_with=signal.SIGTERM)
        try:
            await ended(lambda: initdb.poll() is None, seconds_max=_INITDB_SECONDS_MAX)
        finally:
            await stop(initdb)
        if initdb.returncode != 0:
            raise StartFailed(f"initdb failed on {cluster.parent}:\n{_tail(log)}")
        _put_in_place(making, cluster)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _is_made(cluster: Path, runner: Runner) -> bool:
    if not (cluster / "PG_VERSION").exists():
        for other in cluster.parent.glob("pg*/PG_VERSION"):
            _logger.warning("starting empty in %s: %s stays unused", cluster, other.parent)
        return False
    _hand_over(cluster, runner)
    return True


def _put_in_place(making: Path, cluster: Path) -> None:
    try:
        making.rename(cluster)
    except OSError as error:
        raise StartFailed(
            f"{cluster} is there and is not a Postgres cluster ({error.strerror}): move it away"
        ) from error
    descriptor = os.open(cluster.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _command(cluster: Path, binaries: Binaries, *, sockets: Path, durable: bool) -> list[str]:
    command = [str(binaries.folder / "postgres"), "-D", str(cluster)]
    command += ["-k", str(sockets), "-p", str(_PORT)]
    for setting in (*_SETTINGS, *(() if durable else _SETTINGS_NOT_DURABLE)):
        command += ["-c", setting]
    return command


async def _wait_ready(
    server: "subprocess.Popen[bytes]", url: str, *, log: Path, seconds_max: float
) -> None:
    """Wait until a query could be asked: recovery after a crash may take a while."""
    deadline = time.monotonic() + seconds_max
    while server.poll() is None:
        try:
            connection = await asyncpg.connect(url, timeout=5)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            if time.monotonic() >= deadline:
                raise StartFailed(
                    f"Postgres gave no connection in {seconds_max:g} s:\n{_tail(log)}"
                ) from None
            await asyncio.sleep(POLL_SECONDS)
        else:
            await connection.close()
            return
    raise StartFailed(f"Postgres ended while starting:\n{_tail(log)}")


def _tail(log: Path) -> str:
    lines = log.read_bytes()[-_LOG_TAIL_BYTES_MAX:].decode(errors="replace").splitlines()
    return "\n".join(lines[-4:]) + f"\n(all of it: {log})"
