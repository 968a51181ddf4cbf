"""How a trial goes when nothing crashes, point by point, and the demand that a crash changes nothing of it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.engine.database import open_pool
from app.engine.transaction import DatabaseUnavailable
from tests.crash.calls import Call
from tests.crash.scene import BROKEN, Scene, Trial
from tests.crash.snapshot import Snapshot, shape, snapshot, unknown_ids
from tests.crash.victim import APPLICATION
from tests.crash.watch import BEGIN, ROLLBACK, Point, WatchedPool
from tests.crash.wire import Cut, Wire, stretched
from tests.database import POLL_SECONDS, options_for

if TYPE_CHECKING:
    from app.engine.database import Pool
    from app.engine.statements import Link
    from tests.database import Admin

GONE_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Course:
    """A trial without a crash.

    `committed[n]` is what was committed before point n; the last is what the whole call has committed. `requests[n]` is
    how many requests had gone to the server behind point n: a new session also asks for what its driver wants to know.
    `repeated` is the answer of the same call made again, `after` the rows behind that, `end` the rows once everything
    came to rest.
    """

    points: tuple[Point, ...]
    committed: tuple[Snapshot, ...]
    requests: tuple[int, ...]
    first: object
    repeated: object
    after: Snapshot
    end: Snapshot
    confirmed: int

    def cuts(self) -> "Iterator[tuple[int, Cut, set[Snapshot]]]":
        """Where the socket can be cut, how, and what may then be committed."""
        for point, behind in zip(self.points, self.requests, strict=True):
            before, after = self.committed[point.number : point.number + 2]
            if point.label not in (BEGIN, ROLLBACK):
                yield behind - 1, Cut.BEFORE, {before}
            yield behind - 1, Cut.SENT, {before, after}
            if point.commits:
                yield behind - 1, Cut.ANSWERED, {after}


@dataclass(slots=True)
class _Recorder:
    """Writes down what is committed behind each point."""

    admin: "Admin"
    wire: Wire
    committed: list[Snapshot]
    requests: list[int] = field(default_factory=list)

    async def before(self, _point: Point, _connection: "Link") -> None:
        """Nothing: it is what was behind the point before."""

    async def after(self, _point: Point, _connection: "Link") -> None:
        """What is committed now."""
        self.committed.append(await snapshot(self.admin))
        self.requests.append(self.wire.requests)


@asynccontextmanager
async def replica(url: str) -> "AsyncIterator[Pool]":
    """The pool of a replica with one connection, which may be lost."""
    async with open_pool(options_for(url, pool_max=1), application_name=APPLICATION) as pool:
        yield pool


async def run(scene: Scene, trial: Trial) -> Course:
    """Let a trial go its way once, over a wire and a watched pool that do nothing but count."""
    call = await _prepared(scene, trial)
    async with stretched(scene.url) as wire, replica(wire.url(scene.url)) as pool:
        recorder = _Recorder(scene.admin, wire, [await snapshot(scene.admin)])
        watched = WatchedPool(pool, recorder)
        first = await call.made(scene.with_pool(watched))
    assert await unknown_ids(scene.admin, first) == set()
    repeated = await call.made(scene.sink)
    after = await snapshot(scene.admin)
    await scene.rest()
    await _sound(scene)
    end = await snapshot(scene.admin)
    return Course(
        tuple(watched.points),
        tuple(recorder.committed),
        tuple(recorder.requests),
        first,
        repeated,
        after,
        end,
        len(scene.confirmed),
    )


async def _prepared(scene: Scene, trial: Trial) -> Call:
    await scene.clear()
    return await trial(scene)


@dataclass(slots=True)
class Crash:
    """One crash of a trial, which ends in `recovers`."""

    scene: Scene
    course: Course
    call: Call

    @classmethod
    async def of(cls, scene: Scene, trial: Trial, course: Course) -> "Crash":
        """Bring the trial to where its verb is called."""
        crash = cls(scene, course, await _prepared(scene, trial))
        assert await snapshot(scene.admin) == course.committed[0]
        return crash

    async def through(self, wire: Wire) -> None:
        """Make the call over a wire that is cut: it has no answer."""
        async with replica(wire.url(self.scene.url)) as pool:
            try:
                answer = await self.call.made(self.scene.with_pool(pool))
            except DatabaseUnavailable:
                return
        message = f"a call over a wire that was cut has answered {answer}"
        raise AssertionError(message)

    async def recovers(self, *allowed: Snapshot) -> None:
        """Exactly one of these is what the crash left; the repeat and everybody else finish what was begun."""
        scene, course = self.scene, self.course
        await self._is_gone()
        left = await snapshot(scene.admin)
        assert left in allowed, _difference(left, allowed[-1])
        again = await self.call.made(scene.sink)
        assert await unknown_ids(scene.admin, again) == set()
        # What was all done is answered as a repeat, anything less as the first time.
        done = left == course.committed[-1]
        assert shape(again) == shape(course.repeated if done else course.first)
        after = await snapshot(scene.admin)
        assert after == course.after, _difference(after, course.after)
        await scene.rest()
        await _sound(scene)
        end = await snapshot(scene.admin)
        assert end == course.end, _difference(end, course.end)
        assert len(scene.confirmed) == course.confirmed

    async def _is_gone(self) -> None:
        query = "select count(*) from pg_stat_activity where application_name = $1"
        async with asyncio.timeout(GONE_SECONDS_MAX):
            while await self.scene.admin.fetchval(query, APPLICATION):
                await asyncio.sleep(POLL_SECONDS)


async def _sound(scene: Scene) -> None:
    assert await scene.admin.fetch(BROKEN) == []
    assert len(scene.confirmed) == len(set(scene.confirmed))


def _difference(found: Snapshot, wanted: Snapshot) -> dict[str, list[str]]:
    return {
        "there and not wanted": [row for row in found if row not in wanted],
        "wanted and not there": [row for row in wanted if row not in found],
    }
