"""A process that forks a child for each verb call, and each child kills itself at one point of it.

Reads one pickled job a line from its input, answers each with the signal that ended the child (0 for none).
"""

import asyncio
import base64
import os
import pickle
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from app.domain.ids import IdFactory
from app.engine.database import open_pool
from tests.crash.calls import Call
from tests.crash.scene import Still
from tests.crash.watch import Point, WatchedPool, statement_names
from tests.database import options_for
from tests.engine.stories import Sink

if TYPE_CHECKING:
    from app.engine.statements import Link

APPLICATION = "sinksweep-crash"


@dataclass(frozen=True, slots=True)
class Job:
    """A call in a database, and where its process dies: before this point is sent, or after its answer."""

    url: str
    call: Call
    at: int
    after: bool

    def encoded(self) -> bytes:
        """As one line."""
        return base64.b64encode(pickle.dumps(self)) + b"\n"


@dataclass(frozen=True, slots=True)
class Suicide:
    """Kills this process with a signal that nobody can catch."""

    at: int
    dies_after: bool

    async def before(self, point: Point, _connection: "Link") -> None:
        """Before it is sent."""
        self._die(point, is_after=False)

    async def after(self, point: Point, _connection: "Link") -> None:
        """After its answer."""
        self._die(point, is_after=True)

    def _die(self, point: Point, *, is_after: bool) -> None:
        if point.number == self.at and is_after is self.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)


async def perform(job: Job, names: dict[str, str]) -> None:
    """Make the call, and die of it."""
    async with open_pool(options_for(job.url, pool_max=1), application_name=APPLICATION) as pool:
        watched = WatchedPool(pool, Suicide(job.at, job.after), names)
        ids = IdFactory(milliseconds=lambda: time.time_ns() // 1_000_000, random_bytes=os.urandom)
        await job.call.made(Sink(cast("Any", watched), ids, Still()))


def main() -> None:
    """Fork for each job, and tell how its child ended."""
    names = statement_names()
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            asyncio.run(perform(pickle.loads(base64.b64decode(line)), names))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)


if __name__ == "__main__":
    main()
