"""What is measured of each side, in the same way for all."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.figures import percentile
from tests.bench.peers.sides import Running, Side, load
from tests.bench.peers.usage import cpu_seconds, resident_mb
from tests.bench.stage import Stage

CONNECTIONS = (1, 16, 64)
LIFE_CONNECTIONS = 32
NOTES_A_SECOND = 50
ARRIVE_SECONDS_MAX = 60.0
FIRST_SECONDS_MAX = 30.0
MEASURE_SECONDS_MAX = 120.0
WORDS_MAX = 600

Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Extent:
    """How long, and how much."""

    seconds: float
    warm_up_seconds: float
    pilot_turns: int
    life_seconds: float
    turns_max: int
    notes: int
    messages_max: int
    drain_seconds: float


FULL = Extent(
    seconds=1.0,
    warm_up_seconds=0.4,
    pilot_turns=150,
    life_seconds=3.0,
    turns_max=6000,
    notes=100,
    messages_max=12_000,
    drain_seconds=3.0,
)
SMOKE = Extent(
    seconds=0.2,
    warm_up_seconds=0.05,
    pilot_turns=8,
    life_seconds=0.1,
    turns_max=16,
    notes=5,
    messages_max=50,
    drain_seconds=5.0,
)


@dataclass(slots=True)
class Spent:
    """Processor time of the side's own processes and of Postgres, in seconds."""

    own: float = 0.0
    postgres: float = 0.0

    def each(self, name: str, count: float) -> Values:
        """As values: microseconds for each of so many."""
        return {
            f"{name} cpu": 1e6 * self.own / count,
            f"{name} postgres": 1e6 * self.postgres / count,
        }


@contextmanager
def spending(running: Running, stage: Stage) -> Iterator[Spent]:
    """What is spent within the context, known behind it."""
    spent = Spent(-cpu_seconds(*running.pids), -cpu_seconds(stage.server_pid))
    yield spent
    spent.own += cpu_seconds(*running.pids)
    spent.postgres += cpu_seconds(stage.server_pid)


async def accepts(side: Side, stage: Stage, extent: Extent) -> Values:
    """Durable accepts over HTTP; what they cost is that of the most connections."""
    values: Values = {}
    # The warm-up's share of the time is about its share of the accepts.
    whole = (extent.seconds + extent.warm_up_seconds) / extent.seconds
    async with side.accepting() as running:
        for connections in CONNECTIONS:
            with spending(running, stage) as spent:
                loaded = await load(
                    stage,
                    running.turns,
                    name=f"c{connections}",
                    connections=connections,
                    seconds=extent.seconds,
                    warm_up_seconds=extent.warm_up_seconds,
                )
            values[f"accept {connections}"] = loaded["per_second"]
            values |= spent.each("accept", whole * loaded["accepted"])
    return values


async def lives(side: Side, stage: Stage, extent: Extent) -> Values:
    """Whole lifecycles, one in and three out; then memory; then starts of handlers at a pace."""
    async with side.living() as running:
        pilot = await _live(running, stage, "pilot", extent.pilot_turns)
        count = round(min(extent.turns_max, max(extent.pilot_turns, pilot * extent.life_seconds)))
        with spending(running, stage) as spent:
            rate = await _live(running, stage, "life", count)
        values = {"life": rate, **spent.each("life", count), "memory": resident_mb(*running.pids)}
        pace = {"connections": 8, "rate": NOTES_A_SECOND, "seconds": extent.notes / NOTES_A_SECOND}
        loaded = await load(stage, running.notes, name="note", **pace)
        took = await running.starts(loaded["accepted"])
        await running.finished()
    values["start p50"] = 1000 * percentile(took, 0.5)
    values["start p99"] = 1000 * percentile(took, 0.99)
    return values


async def _live(running: Running, stage: Stage, name: str, count: int) -> float:
    """So many lifecycles; returns how many a second, from the first request to the last arrival."""
    await stage.receiver.ask("reset")
    task = {"connections": LIFE_CONNECTIONS, "count": count, "seconds": ARRIVE_SECONDS_MAX}
    loaded = await load(stage, running.turns, name=name, **task)
    came = await stage.arrivals(3 * count, seconds_max=ARRIVE_SECONDS_MAX)
    assert came["count"] == 3 * count, came
    # A figure counts only where the work was done.
    await running.finished()
    return float(count / (came["span"][1] - loaded["began"]))


async def drains(side: Side, stage: Stage, extent: Extent) -> Values:
    """Sends that were there before the worker: from the first arrival to the last, or for as long as allowed."""
    await stage.receiver.ask("reset")
    count = min(extent.messages_max, side.backlog)
    draining = side.draining(count)
    if draining is None:
        return {}
    async with draining as running:
        before = await stage.arrivals(1, seconds_max=FIRST_SECONDS_MAX)
        with spending(running, stage) as spent:
            came = await stage.arrivals(count, seconds_max=extent.drain_seconds)
    assert came["count"] > 1, came
    first, last = came["span"]
    values = {"drain": came["count"] / (last - first)}
    if came["count"] > before["count"]:
        values |= spent.each("drain", came["count"] - before["count"])
    return values


Measure = Callable[[Side, Stage, Extent], Awaitable[Values]]
MEASURES: Mapping[str, Measure] = {"accepts": accepts, "lives": lives, "drains": drains}


async def measure(side: Side, stage: Stage, extent: Extent) -> tuple[Values, Mapping[str, str]]:
    """All measures of a side: the values, and the measures that failed with what they said."""
    values: Values = {}
    failed: dict[str, str] = {}
    for name, take in MEASURES.items():
        try:
            async with asyncio.timeout(MEASURE_SECONDS_MAX):
                values |= await take(side, stage, extent)
        except Exception as error:  # noqa: BLE001 - whatever a peer runs into is a part of the report
            failed[name] = told(error)
    return values, failed


def told(error: Exception) -> str:
    """On one line, with what was noted of it."""
    said = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
    return " ".join(" ".join(said).split())[:WORDS_MAX]
