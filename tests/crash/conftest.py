"""One stage for all crashes: emptied for each, and what was counted is told at the end of the session."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

import app
from app.domain.ids import IdFactory
from app.engine.database import open_pool
from tests.crash.course import Course, run
from tests.crash.scene import Scene, Still, StoppedClock
from tests.crash.trials import TRIALS
from tests.crash.victim import Job
from tests.database import Server, options_for
from tests.engine.stories import Sink

ROOT = Path(app.__file__).parent.parent
JOB_SECONDS_MAX = 20.0


@dataclass(slots=True)
class Tally:
    """What was enumerated and what was tried."""

    points: dict[str, int] = field(default_factory=dict)
    cuts: int = 0
    kills: int = 0

    def __str__(self) -> str:
        return (
            f"crash points: {sum(self.points.values())} in {len(self.points)} verb calls;"
            f" {self.cuts} cuts of the socket, {self.kills} processes killed"
        )


_TALLY = pytest.StashKey[Tally]()

Courses = Callable[[str], Awaitable[Course]]
Victim = Callable[[Job], Awaitable[int]]


@pytest.fixture(scope="session")
def tally(pytestconfig: pytest.Config) -> Tally:
    """Counts for the summary."""
    return pytestconfig.stash.setdefault(_TALLY, Tally())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was tried."""
    if (tally := terminalreporter.config.stash.get(_TALLY, None)) is not None:
        terminalreporter.write_line(str(tally))


@pytest.fixture(scope="session")
async def scene(postgres: Server) -> AsyncIterator[Scene]:
    """A database, the verbs of a replica that does not crash, and a clock that stands."""
    async with (
        postgres.database() as url,
        open_pool(options_for(url), application_name="sinksweep-test") as pool,
    ):
        admin = await asyncpg.connect(url)
        try:
            ids = IdFactory(
                milliseconds=lambda: time.time_ns() // 1_000_000, random_bytes=os.urandom
            )
            clock = StoppedClock(admin)
            await clock.stop()
            yield Scene(Sink(pool, ids, Still()), admin, clock, url)
        finally:
            await admin.close()


@pytest.fixture(scope="session")
def courses(scene: Scene, tally: Tally) -> Courses:
    """How each trial goes without a crash, found out once."""
    known: dict[str, Course] = {}

    async def course_of(name: str) -> Course:
        if name not in known:
            known[name] = await run(scene, TRIALS[name])
            tally.points[name] = len(known[name].points)
        return known[name]

    return course_of


@pytest.fixture(scope="session")
async def victim() -> AsyncIterator[Victim]:
    """Makes calls in processes that die of them; returns the signal that each died of."""
    command = (sys.executable, "-m", "tests.crash.victim")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    jobs, ends = process.stdin, process.stdout

    async def make(job: Job) -> int:
        jobs.write(job.encoded())
        async with asyncio.timeout(JOB_SECONDS_MAX):
            return int(await ends.readline())

    yield make
    jobs.close()
    await process.wait()
