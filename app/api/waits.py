"""Waiting for a turn to reach a state. Between two looks a waiter holds no database connection."""

import asyncio
import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from app.core import Core
from app.domain.errors import InvalidContent, Problem
from app.domain.lifecycle import TURN_ENDED, TurnState
from app.engine.inspect import Progress, find_progress
from app.engine.standing import TurnView, find_turn
from app.engine.wake import turn_topic
from app.settings import Limits

WAIT_PARAMETERS: Final = ("wait", "timeout_seconds")
POLL_SECONDS: Final = 1.0
# Where too much happens everybody is woken: what happens to others must not become queries without end.
LOOK_SECONDS_MIN: Final = 0.03
DEFAULT_SECONDS: Final = 30.0

_SECONDS: Final = re.compile(r"\d{1,6}(\.\d{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wait:
    """What to wait for, and how long at most."""

    state: TurnState
    seconds: float


def read_wait(query: Mapping[str, str], *, limits: Limits) -> Wait | None:
    """Read `wait` and `timeout_seconds`; raises `InvalidContent`."""
    problems: list[Problem] = []
    state, text = query.get("wait"), query.get("timeout_seconds")
    longest = limits.state_wait_seconds_max
    seconds = min(DEFAULT_SECONDS, longest)
    if state is not None and state not in set(TurnState):
        problems.append(Problem("/wait", "state_unknown", ", ".join(TurnState)))
    if text is not None and state is None:
        problems.append(Problem("/timeout_seconds", "unknown_field", "only with wait"))
    elif text is not None and _SECONDS.fullmatch(text) is None:
        problems.append(Problem("/timeout_seconds", "wrong_type", "a number of seconds"))
    elif text is not None and float(text) > longest:
        problems.append(Problem("/timeout_seconds", "out_of_range", f"0 to {longest:g}"))
    elif text is not None:
        seconds = float(text)
    if problems:
        raise InvalidContent(*problems)
    return None if state is None else Wait(TurnState(state), seconds)


async def turn_when(core: Core, turn: UUID, *, wait: Wait | None) -> TurnView | None:
    """Look at a turn once it reached the state, ended otherwise, the time is up, or the service drains.

    None if there is no such turn.
    """
    if wait is not None:
        await _until(core, turn, wait)
    # Read last, so that what is shown is never older than what ended the wait.
    return await find_turn(core.pool, turn)


async def _until(core: Core, turn: UUID, wait: Wait) -> None:
    until = time.monotonic() + wait.seconds
    with core.wakes.waiting(turn_topic(turn)) as told:
        while True:
            told.clear()
            if _is_over(await find_progress(core.pool, turn, wait.state)):
                return
            left = until - time.monotonic()
            if left <= 0 or core.draining.started:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, POLL_SECONDS)):
                    await asyncio.sleep(LOOK_SECONDS_MIN)
                    await told.wait()


def _is_over(progress: Progress | None) -> bool:
    return progress is None or progress.reached or progress.state in TURN_ENDED
