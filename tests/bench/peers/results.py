"""What was measured, kept after each peer, so that a run can be ended and taken up again; and the tables of it.

A peer's values stand beside ours of the same minutes: the mean of those before and after it. A ratio is of one round,
and the median of those is shown. It says how much better ours is, whichever way is better.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.peers.catalog import ENTRIES, Entry
from tests.bench.peers.measures import Values

MORE_IS_BETTER: Final = ("accept 1", "accept 16", "accept 64", "life", "drain")
COLUMNS: Final[Mapping[str, str]] = {
    "accept 1": "accepts/s, 1 connection",
    "accept 16": "16",
    "accept 64": "64",
    "life": "lifecycles/s",
    "drain": "sends/s of a backlog",
    "start p50": "start p50, ms",
    "start p99": "p99, ms",
    "memory": "memory, MB",
}
COSTS: Final[Mapping[str, str]] = {
    "accept cpu": "an accept, of 64 at once: own",
    "accept postgres": "Postgres",
    "life cpu": "a lifecycle: own",
    "life postgres": "Postgres",
    "drain cpu": "a send of a backlog: own",
    "drain postgres": "Postgres",
}


@dataclass(slots=True)
class Round:
    """One peer in one round, or ours alone: values, ours beside them, and inserts a second directly before."""

    values: Values
    ours: Values
    calibration: float
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Results:
    """Rounds by side; `missing` peers could not be made, and why."""

    rounds: dict[str, list[Round]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    about: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path | None) -> "Results":
        """What an earlier run has kept, if it has."""
        if path is None or not path.exists():
            return cls()
        kept = json.loads(path.read_text(encoding="utf-8"))
        rounds = {name: [Round(**one) for one in many] for name, many in kept["rounds"].items()}
        return cls(rounds, kept["missing"], kept["about"])

    def write(self, path: Path) -> None:
        """Keep all of it; a run that ends meanwhile leaves the old file or the new one."""
        new = path.with_suffix(path.suffix + ".new")
        new.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        new.replace(path)

    def forget(self, names: Sequence[str]) -> None:
        """What is measured anew."""
        for name in names:
            self.rounds.pop(name, None)
            self.missing.pop(name, None)

    def add(self, name: str, one: Round) -> None:
        """One more round."""
        self.rounds.setdefault(name, []).append(one)

    def ours(self) -> Round:
        """The medians of ours over all rounds of all peers."""
        beside = [one for rounds in self.rounds.values() for one in rounds if one.ours]
        return Round(_medians([one.ours for one in beside]), {}, 0.0)

    def tables(self) -> str:
        """As Markdown."""
        ours = self.ours().values
        parts = [
            self._table(COLUMNS, ours),
            "Processor time in microseconds:",
            self._table(COSTS, ours),
            _differences([entry for entry in ENTRIES if entry.name in self.rounds]),
        ]
        inserts = [one.calibration for rounds in self.rounds.values() for one in rounds]
        if inserts:
            low, high = _number(min(inserts)), _number(max(inserts))
            parts.append(f"Inserts of one row a second, directly before each peer: {low} - {high}.")
        notes = [f"- {name} is not here: {why}" for name, why in self.missing.items()]
        for name, rounds in self.rounds.items():
            failed = [(n + 1, what) for n, one in enumerate(rounds) for what in one.failed.items()]
            notes += [f"- {name}, round {n}, {what} failed: {why}" for n, (what, why) in failed]
        return "\n\n".join([*parts, "\n".join(notes)]).strip()

    def _table(self, columns: Mapping[str, str], ours: Values) -> str:
        lines = [
            f"| | {' | '.join(columns.values())} |",
            f"|---|{'---|' * len(columns)}",
            f"| **Sinksweep** | {' | '.join(_number(ours.get(name)) for name in columns)} |",
        ]
        for side, rounds in self.rounds.items():
            cells = [_cell(rounds, name) for name in columns]
            lines.append(f"| {side} | {' | '.join(cells)} |")
        return "\n".join(lines)


def mean(one: Values, other: Values) -> Values:
    """Of what both have."""
    return {name: (one[name] + other[name]) / 2 for name in one if name in other}


def _medians(many: Sequence[Values]) -> Values:
    names = dict.fromkeys(name for one in many for name in one)
    return {name: statistics.median(one[name] for one in many if name in one) for name in names}


def _cell(rounds: Sequence[Round], name: str) -> str:
    """The median, and how much better ours was beside it."""
    value = _medians([one.values for one in rounds]).get(name)
    if value is None:
        return "-"
    ratios = [
        one.ours[name] / one.values[name] if name in MORE_IS_BETTER else one.values[name] / one.ours[name]
        for one in rounds
        if one.ours.get(name) and one.values.get(name)
    ]  # fmt: skip
    return f"{_number(value)} ({statistics.median(ratios):.2f}x)" if ratios else _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _differences(entries: Sequence[Entry]) -> str:
    head = "| | key of an accept | order | a handler's sends, all or none | left to who sends | set to |"
    ours = (
        "kept for 30 days, with its first answer",
        "by conversation, also of what goes out",
        "yes: sealed in the transaction that ends the turn",
        "nothing: key, signature, retries, breaker, order, unknown outcomes",
        "as it is served; agents over HTTP, 4 turns a claim",
    )
    lines = [head, "|---|---|---|---|---|---|", f"| **Sinksweep** | {' | '.join(ours)} |"]
    for one in entries:
        told = (one.name, one.key, one.order, one.whole, one.sends, one.set_to)
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines)
