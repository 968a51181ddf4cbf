"""Runs a program, under another account if need be, and sees that it ends with this process.

A child sees nothing of the caller's environment, and Ctrl-C on the terminal does not reach it.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS_MAX = 30.0
QUIT_SECONDS_MAX = 10.0
POLL_SECONDS = 0.01

# All that a child sees: PG* variables of the caller would change what it does.
CHILD_ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Runner:
    """How to run a program: as this process, as another account, or in a user namespace.

    `uid` and `gid` are None unless the child changes account; `owner_uid` and `owner_gid` own its
    files as seen from outside.
    """

    name: str
    uid: int | None
    gid: int | None
    owner_uid: int
    owner_gid: int
    prefix: tuple[str, ...] = ()


def spawn(
    command: list[str],
    *,
    runner: Runner,
    log: Path,
    dies_with: signal.Signals,
    environment: Mapping[str, str] = CHILD_ENVIRONMENT,
) -> "subprocess.Popen[bytes]":
    """Start a child in a session of its own that gets the signal when this process dies.

    Linux only, and tied to the thread that calls: that must be one that lives as long.
    """
    parent = os.getpid()
    libc = ctypes.CDLL(None)
    on_linux = sys.platform == "linux"

    def prepare() -> None:
        # A job in a shell's background ignores SIGINT and would hand that down, deaf to `stop`.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Runs after the change of account, which would have cleared it; exec keeps it.
        if on_linux:
            libc.prctl(_PR_SET_PDEATHSIG, int(dies_with), 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    with log.open("ab") as output, warnings.catch_warnings():
        # Python warns of forking with threads; what runs between fork and exec takes no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        return subprocess.Popen(
            [*runner.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=environment,
            user=runner.uid,
            group=runner.gid,
            extra_groups=None if runner.uid is None else [],
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509
        )


async def stop(child: "subprocess.Popen[bytes]") -> None:
    """End a child: SIGINT, after a while SIGQUIT, at the very last SIGKILL."""
    try:
        for number, seconds in (
            (signal.SIGINT, STOP_SECONDS_MAX),
            (signal.SIGQUIT, QUIT_SECONDS_MAX),
        ):
            child.send_signal(number)
            if await ended(lambda: child.poll() is None, seconds_max=seconds):
                return
    finally:
        # Also where the wait was cancelled: asked twice, it ends at once, and recovers next time.
        if child.poll() is None:
            child.send_signal(signal.SIGQUIT)
            try:
                child.wait(timeout=QUIT_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(timeout=QUIT_SECONDS_MAX)


async def ended(running: Callable[[], bool], *, seconds_max: float) -> bool:
    """Wait until it no longer runs; False when it still does after `seconds_max`."""
    deadline = time.monotonic() + seconds_max
    while running():
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True
