"""A crash at any point of any verb leaves all of it or nothing, and what follows leads where it would have led."""

import signal
from itertools import pairwise

import pytest

from tests.crash.conftest import Courses, Tally, Victim
from tests.crash.course import Crash
from tests.crash.scene import Scene
from tests.crash.snapshot import ids_in
from tests.crash.trials import TRIALS
from tests.crash.victim import Job
from tests.crash.watch import BEGIN, COMMIT, ROLLBACK
from tests.crash.wire import stretched

EACH = pytest.mark.parametrize("name", TRIALS)


# These give each caller something else; everything else answers the same call with the same ids.
NEW_EACH_TIME = (
    "claim",
    "claim past what is too old",
    "take",
    "take for the first time",
    "take what is spoiled",
    "late fact",
    "fact while another sends",
    "take a resend",
)
# What is spoiled is ended, and the row of a destination made, in a transaction of its own, before the next take. An
# erasure takes the turns before the lanes that they were in.
COMMITS_TWICE = (
    "take what is spoiled",
    "take for the first time",
    "erase",
    # It ends before the next is looked for.
    "claim past what is too old",
)


@EACH
async def test_every_point_of_a_verb_is_found_by_running_it(name: str, courses: Courses) -> None:
    course = await courses(name)
    labels = [point.label for point in course.points]
    # The wire counts what really went to the server, the watched pool what the verb asked for.
    assert course.requests[-1] >= len(labels)
    assert labels.count(BEGIN) == labels.count(COMMIT) + labels.count(ROLLBACK)


@EACH
async def test_a_verb_commits_once_and_its_repeat_changes_nothing(
    name: str, courses: Courses
) -> None:
    course = await courses(name)
    commits = [before != after for before, after in pairwise(course.committed)]
    assert commits.count(True) == 1 + (name in COMMITS_TWICE)
    assert course.after == course.committed[-1]
    if name not in NEW_EACH_TIME:
        assert ids_in(course.repeated) == ids_in(course.first)


@EACH
async def test_a_socket_cut_at_any_point_leaves_all_or_nothing(
    name: str, scene: Scene, courses: Courses, tally: Tally
) -> None:
    course = await courses(name)
    for request, cut, allowed in course.cuts():
        crash = await Crash.of(scene, TRIALS[name], course)
        async with stretched(scene.url, at=request, cut=cut) as wire:
            await crash.through(wire)
        await crash.recovers(*allowed)
        tally.cuts += 1


@EACH
async def test_a_process_killed_around_any_commit_leaves_all_or_nothing(
    name: str, scene: Scene, courses: Courses, tally: Tally, victim: Victim
) -> None:
    course = await courses(name)
    for point in course.points:
        if not point.commits:
            continue
        for after in (False, True):
            crash = await Crash.of(scene, TRIALS[name], course)
            job = Job(scene.url, crash.call, point.number, after)
            assert await victim(job) == signal.SIGKILL
            await crash.recovers(course.committed[point.number + after])
            tally.kills += 1
