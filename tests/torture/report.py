"""What a run came to: its figures, and everything that is not as it must be."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.torture.harm import Done
from tests.torture.provider import SETTLED, Attempt
from tests.torture.schedule import Kind

VIOLATIONS_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class Figures:
    """Recovery is from a fault to the end of the first accept that was begun after it, at a replica that it hit."""

    recoveries: Mapping[Kind, Sequence[float]]
    faults: Mapping[Kind, int]
    snags: Mapping[str, int]
    moods: Mapping[str, int]
    operators: Mapping[str, int]
    turns: Mapping[str, int]
    messages: Mapping[str, int]
    events: Mapping[str, int]
    accepts: int
    requests_refused: int
    requests_unanswered: int
    seconds: float
    arrivals: int
    arrived_twice: int
    agents_lost: int
    replica_starts: int
    replica_refusals: int
    cut_looks: int


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict; `violations` empty is good."""

    seed: int
    figures: Figures
    violations: Sequence[str]

    def lines(self) -> Iterable[str]:
        """For a person to read."""
        f = self.figures
        every = [one for found in f.recoveries.values() for one in found]
        yield f"seed {self.seed}, {f.seconds:.0f} s of faults"
        yield f"accepted {f.accepts} ({f.accepts / f.seconds:.1f}/s while there were faults)"
        yield f"posts refused with 503 {f.requests_refused}, without an answer {f.requests_unanswered}"
        yield f"turns {_spelled(f.turns)}; messages {_spelled(f.messages)}"
        yield f"events {_spelled(f.events)}"
        yield f"arrivals on the wire {f.arrivals}, of keys that had arrived before {f.arrived_twice}"
        yield f"replicas started {f.replica_starts} times, refused to start {f.replica_refusals} times"
        yield f"agents lost {f.agents_lost}; operators {_spelled(f.operators)}"
        yield f"receivers {_spelled(f.moods)}"
        yield f"cut {_spelled(f.snags)}; looks at the rules that took too long {f.cut_looks}"
        yield f"faults {sum(f.faults.values())} of {len(f.faults)} kinds; recovery {_times(every)}"
        for kind, count in sorted(f.faults.items()):
            yield f"  {count:6} {kind:<40} {_times(f.recoveries.get(kind, ()))}"
        yield f"violations: {len(self.violations)}"
        yield from (f"  {one}" for one in self.violations[:VIOLATIONS_SHOWN_MAX])


def recoveries(
    done: Iterable[Done], attempts: Iterable[Attempt]
) -> tuple[dict[Kind, list[float]], list[str]]:
    """Seconds for each fault and replica that it hit; and the faults after which nothing was accepted any more."""
    good: dict[str, list[Attempt]] = {}
    for attempt in sorted(attempts, key=lambda one: one.began_at):
        if attempt.status in SETTLED:
            good.setdefault(attempt.replica, []).append(attempt)
    found: dict[Kind, list[float]] = {}
    never: list[str] = []
    # Backwards, so that each replica's list is gone through once.
    next_good: dict[str, float] = {}
    for fault in sorted(done, key=lambda one: one.at, reverse=True):
        for replica in fault.replicas:
            left = good.get(replica, [])
            while left and left[-1].began_at >= fault.at:
                # What began later may have ended earlier.
                ended = left.pop().ended_at
                next_good[replica] = min(ended, next_good.get(replica, ended))
            if replica in next_good:
                found.setdefault(fault.kind, []).append(next_good[replica] - fault.at)
            else:
                never.append(f"{replica} accepted nothing after: {fault.kind}")
    return found, never


def _spelled(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _times(seconds: Sequence[float]) -> str:
    if not seconds:
        return ""
    return f"p50 {statistics.median(seconds):.2f} s, max {max(seconds):.2f} s"
