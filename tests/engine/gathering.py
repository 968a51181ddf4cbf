"""Callers that meet, and a database that does what it is given when it is let."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.domain.errors import InvalidContent, Problem
from app.engine.gather import Bounds, Gatherer

if TYPE_CHECKING:
    Calls = Gatherer[int, str]


SECONDS_MAX = 5.0
SMALL = Bounds(batches_max=1, slow_max=1, items_max=4, bytes_max=100, waiting_max=20)


@dataclass(slots=True)
class Database:
    """Does what it is given when it is let, all or nothing, and remembers the batches."""

    poisoned: frozenset[int] = frozenset()
    error: Exception = field(default_factory=lambda: InvalidContent(Problem("", "poison")))
    batches: list[list[int]] = field(default_factory=list)
    waits: list[int | None] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    running: int = 0
    running_most: int = 0
    let: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, items: Sequence[int], lock_wait_ms: int | None) -> list[str]:
        self.batches.append(list(items))
        self.waits.append(lock_wait_ms)
        self.running += 1
        self.running_most = max(self.running, self.running_most)
        try:
            await self.let.wait()
        finally:
            self.running -= 1
        if self.poisoned.intersection(items):
            raise self.error
        self.done += items
        return [f"answer to {item}" for item in items]


@contextlib.asynccontextmanager
async def gathering(database: Database, bounds: Bounds = SMALL) -> "AsyncIterator[Calls]":
    async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as tasks:
        yield Gatherer(database.work, size=lambda _: 30, tasks=tasks, bounds=bounds)


class Callers:
    """Each calls with a number of its own, and keeps what it was told."""

    def __init__(self, calls: "Calls") -> None:
        self.calls = calls
        self.told: dict[int, object] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def call(self, number: int) -> None:
        try:
            self.told[number] = await self.calls.call(number)
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            self.told[number] = error

    def start(self, group: asyncio.TaskGroup, *numbers: int) -> None:
        for number in numbers:
            self.tasks[number] = group.create_task(self.call(number))


async def settled(seconds: float = 0.0) -> None:
    """Let everything run that can."""
    await asyncio.sleep(seconds)
    for _ in range(10):
        await asyncio.sleep(0)
