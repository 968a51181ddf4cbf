"""Figures: percentiles of samples, medians of repeats, ratios within a repeat, and the table of them."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed (nearest rank); nan of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


@dataclass(slots=True)
class Figure:
    """One measured thing: a value for each repeat, and what limited it in the same repeat where that is known."""

    name: str
    unit: str
    values: list[float] = field(default_factory=list)
    limit_name: str = ""
    limits: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Of all repeats."""
        return statistics.median(self.values) if self.values else math.nan

    @property
    def limit(self) -> float | None:
        """The median of the limit."""
        return statistics.median(self.limits) if self.limits else None

    @property
    def ratio(self) -> float | None:
        """The median of the ratios: each repeat is compared with itself."""
        pairs = [one / most for one, most in zip(self.values, self.limits, strict=False) if most]
        return statistics.median(pairs) if pairs else None

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "values": self.values,
            "limit": self.limit,
            "limit_name": self.limit_name,
            "limits": self.limits,
            "ratio": self.ratio,
        }


class Figures:
    """All figures of a run, in the order of their first mention."""

    def __init__(self) -> None:
        self._kept: dict[str, Figure] = {}

    def add(
        self,
        name: str,
        unit: str,
        value: float,
        *,
        limit: float | None = None,
        limit_name: str = "",
    ) -> None:
        """One more repeat of a figure."""
        figure = self._kept.setdefault(name, Figure(name, unit, limit_name=limit_name))
        figure.values.append(value)
        if limit is not None:
            figure.limits.append(limit)

    def __iter__(self) -> Iterator[Figure]:
        return iter(self._kept.values())

    def table(self) -> str:
        """As Markdown."""
        rows = [
            "| what | median | least - most | limit | ratio |",
            "|---|---|---|---|---|",
        ]
        for figure in self._kept.values():
            low, high = _number(min(figure.values)), _number(max(figure.values))
            limit = "" if figure.limit is None else f"{_number(figure.limit)} {figure.limit_name}"
            ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
            median = f"{_number(figure.median)} {figure.unit}"
            rows.append(f"| {figure.name} | {median} | {low} - {high} | {limit} | {ratio} |")
        return "\n".join(rows)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
