"""Whose folder it is: one process holds it at a time, and clears what a killed one left in it.

The kernel lets go of the lock when its holder dies; what the file says serves the next start alone.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from app.dev.binaries import PostgresUnavailable
from app.dev.child import QUIT_SECONDS_MAX, STOP_SECONDS_MAX, ended

SOCKET_PREFIX = "sinksweep-"

_RECORD_BYTES_MAX = 4096


class AlreadyRunning(PostgresUnavailable):
    """Another process holds the folder; the text names the folder and the process."""


@dataclass(frozen=True, slots=True)
class Record:
    """What the lock file tells the next start: who holds or held the folder, what it started."""

    pid: int = 0
    server_pid: int = 0
    socket_folder: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """The folder's lock, held."""

    descriptor: int
    before: Record

    def write(self, record: Record) -> None:
        text = json.dumps(asdict(record)).encode()
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))


@contextmanager
def hold(folder: Path) -> Iterator[Claim]:
    # The file stays for ever: removing a lock file lets two processes each lock one of their own.
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _record(os.pread(descriptor, _RECORD_BYTES_MAX, 0)).pid
            raise AlreadyRunning(
                f"{folder} is in use by the process with pid {holder or 'unknown'}:"
                " stop it, or choose another SINKSWEEP_DATA_DIR"
            ) from None
        claim = Claim(descriptor, _record(os.pread(descriptor, _RECORD_BYTES_MAX, 0)))
        claim.write(Record(os.getpid()))
        yield claim
        claim.write(Record())
    finally:
        os.close(descriptor)


def _record(text: bytes) -> Record:
    # Half a record is what a kill or a full disk leaves: as good as none.
    with contextlib.suppress(ValueError, TypeError):
        return Record(**json.loads(text))
    return Record()


async def end_leftover(cluster: Path, *, before: Record) -> None:
    """Clear what a killed predecessor left: a live server, a socket folder, half a cluster."""
    pid, sockets = _postmaster(cluster)
    if pid and _is_alive(pid) and not _is_server(pid, cluster):
        # Postgres itself looks only at whether the pid lives, and would refuse to start.
        (cluster / "postmaster.pid").unlink(missing_ok=True)
    elif pid and _is_alive(pid):
        if pid != before.server_pid and (not sockets or sockets != before.socket_folder):
            raise AlreadyRunning(
                f"{cluster} is served by a Postgres with pid {pid} that was started by other means:"
                " stop it, or choose another SINKSWEEP_DATA_DIR"
            )
        await _end(pid, cluster)
    _remove_leftovers(cluster.parent, sockets=before.socket_folder)


async def _end(pid: int, cluster: Path) -> None:
    for number, seconds in (
        (signal.SIGINT, STOP_SECONDS_MAX),
        (signal.SIGQUIT, QUIT_SECONDS_MAX),
    ):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if await ended(lambda: _is_server(pid, cluster), seconds_max=seconds):
            return
    raise AlreadyRunning(f"the Postgres with pid {pid} on {cluster} does not end: end it by hand")


def _postmaster(cluster: Path) -> tuple[int, str]:
    """The pid and the socket folder that postmaster.pid names; 0 and nothing without one."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
        return abs(int(lines[0])), lines[4] if len(lines) > 4 else ""  # noqa: PLR2004
    except (FileNotFoundError, IndexError, ValueError):
        return 0, ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_server(pid: int, cluster: Path) -> bool:
    """Whether a process may be the server of `cluster`, and not some other with its old pid."""
    if not _is_alive(pid):
        return False
    if not Path("/proc/self/cmdline").exists():
        return True
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    if "postgres" not in words[0] and "postmaster" not in words[0]:
        return False
    named = words[words.index("-D") + 1] if "-D" in words[:-1] else ""
    return not named.startswith("/") or Path(named) == cluster


def _remove_leftovers(folder: Path, *, sockets: str) -> None:
    for half_made in folder.glob("pg*.making-*"):
        shutil.rmtree(half_made, ignore_errors=True)
    if Path(sockets).name.startswith(SOCKET_PREFIX):
        shutil.rmtree(sockets, ignore_errors=True)
