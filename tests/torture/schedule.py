"""Which faults come when: a pure function of a seed, so that a run can be had again."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

REPLICAS = 3
AGENTS = 6
# Where what is unknown waits for a person.
HELD = "till"
DESTINATIONS = ("crm", "mail", HELD)


class Kind(StrEnum):
    """What is done to the service, its database and those around it."""

    KILL_REPLICA = "replica killed"
    FREEZE_REPLICA = "replica frozen"
    ROLL = "replicas restarted in turn"
    KILL_POSTGRES = "Postgres killed"
    KILL_BOTH = "Postgres and a replica killed"
    KILL_BACKEND = "one backend killed"
    TERMINATE = "sessions terminated"
    HOLD_TRANSACTION = "transaction held open"
    HOLD_LOCKS = "rows locked"
    COMMIT_SNAGS = "cut around commits"
    BYTE_SNAGS = "cut at a byte, before Postgres"
    SLOW_DATABASE = "slow way to Postgres"
    DATABASE_HOLE = "black hole before Postgres"
    DATABASE_RESET = "connections to Postgres reset"
    WIRE_SNAGS = "cut at a byte, before a destination"
    SLOW_WIRE = "slow way to a destination"
    WIRE_HOLE = "black hole before a destination"
    WIRE_RESET = "connections to a destination reset"
    FREEZE_AGENT = "agent frozen"
    KILL_AGENT = "agent killed"


# How often each comes, in comparison.
WEIGHTS: Mapping[Kind, int] = {
    Kind.KILL_REPLICA: 5,
    Kind.FREEZE_REPLICA: 4,
    Kind.ROLL: 1,
    Kind.KILL_POSTGRES: 3,
    Kind.KILL_BOTH: 2,
    Kind.KILL_BACKEND: 2,
    Kind.TERMINATE: 6,
    Kind.HOLD_TRANSACTION: 3,
    Kind.HOLD_LOCKS: 5,
    Kind.COMMIT_SNAGS: 16,
    Kind.BYTE_SNAGS: 8,
    Kind.SLOW_DATABASE: 4,
    Kind.DATABASE_HOLE: 5,
    Kind.DATABASE_RESET: 5,
    Kind.WIRE_SNAGS: 8,
    Kind.SLOW_WIRE: 3,
    Kind.WIRE_HOLE: 4,
    Kind.WIRE_RESET: 5,
    Kind.FREEZE_AGENT: 6,
    Kind.KILL_AGENT: 6,
}
# What takes processes away: afterwards they are given time, or nobody would be there for the next fault.
HEAVY = frozenset(
    {Kind.KILL_REPLICA, Kind.ROLL, Kind.KILL_POSTGRES, Kind.KILL_BOTH, Kind.KILL_BACKEND}
)
WARM_UP_SECONDS = 1.5
PAUSE_SECONDS = (0.3, 1.5)
HEAVY_PAUSE_SECONDS = 2.0
LASTS_SECONDS = (0.3, 3.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, `at_seconds` after the crowd has begun. `target` is a number that each kind reads in its way."""

    at_seconds: float
    kind: Kind
    target: int
    lasts_seconds: float
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.at_seconds:8.2f} s  {self.kind:<40} target {self.target:<3}"
            f" for {self.lasts_seconds:.2f} s, seed {self.seed}"
        )


def draw(
    *, seed: int, seconds: float, pause_seconds: tuple[float, float] = PAUSE_SECONDS
) -> Sequence[Fault]:
    """The faults of a run, in order. Every kind comes once before any comes at random."""
    rng = random.Random(f"faults {seed}")
    first = list(Kind)
    rng.shuffle(first)
    faults: list[Fault] = []
    at = WARM_UP_SECONDS
    while at < seconds:
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        kind = first.pop() if first else rng.choices(kinds, weights=weights)[0]
        fault = Fault(
            at_seconds=at,
            kind=kind,
            target=rng.randrange(1000),
            lasts_seconds=rng.uniform(*LASTS_SECONDS),
            seed=rng.randrange(1 << 30),
        )
        faults.append(fault)
        at += rng.uniform(*pause_seconds) + (HEAVY_PAUSE_SECONDS if kind in HEAVY else 0.0)
    return faults
