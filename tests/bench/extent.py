"""How long things are measured, and how much of them: in full, quickly, or only so that the bench is known to work."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.bench.figures import Figures
from tests.bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Extent:
    """How long things are measured, and how much of them."""

    seconds: float
    warm_up_seconds: float
    turns: int
    messages: int
    samples: int
    # At how many accepts a second, one after the other.
    rates: tuple[int, ...] = (300,)
    # How many finished turns lie in the database, one database for each.
    finished: tuple[int, ...] = (0, 1_000_000)
    # Conversations with a backlog; turns and messages of a storm.
    crowd: int = 100_000
    # How long a transaction is held open, and a replica left alone.
    long_seconds: float = 60.0
    # How many processes share one Postgres.
    processes: tuple[int, ...] = (1, 2, 4)


FULL = Extent(seconds=3.0, warm_up_seconds=0.5, turns=6000, messages=10_000, samples=80)
QUICK = Extent(
    seconds=1.5,
    warm_up_seconds=0.3,
    turns=1500,
    messages=3000,
    samples=30,
    finished=(0, 100_000),
    crowd=10_000,
    long_seconds=20.0,
)
SMOKE = Extent(
    seconds=0.3,
    warm_up_seconds=0.05,
    turns=20,
    messages=50,
    samples=3,
    rates=(100,),
    finished=(0, 300),
    crowd=40,
    long_seconds=1.0,
    processes=(2,),
)

Scenario = Callable[[Stage, Extent, Figures], Awaitable[None]]
