"""The library's metrics, counted by one thread: what is shown is the library's, and no event pays for a lock.

The library takes a lock for each number and looks through all buckets; a message on its way counts a dozen times. Every
number of this service is counted on its loop, and shown there.
"""

from bisect import bisect_left
from collections.abc import Iterable

import prometheus_client
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString


class _Number:
    """What the library keeps a number in."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float) -> None:
        self.value += amount

    def set(self, value: float) -> None:
        self.value = value

    def get(self) -> float:
        return self.value

    def get_exemplar(self) -> None:
        return None


class Counter(prometheus_client.Counter):
    """Counts up, from the loop alone."""

    _value: _Number

    def _metric_init(self) -> None:
        super()._metric_init()
        self._value = _Number()

    def inc(self, amount: float = 1, exemplar: dict[str, str] | None = None) -> None:
        """Count; raises `ValueError` for less than nothing."""
        del exemplar
        if amount < 0:
            raise ValueError("a counter only counts up")
        self._value.value += amount


class Gauge(prometheus_client.Gauge):
    """Goes up and down, from the loop alone."""

    _value: _Number

    def _metric_init(self) -> None:
        super()._metric_init()
        self._value = _Number()

    def inc(self, amount: float = 1) -> None:
        """Go up."""
        self._value.value += amount

    def dec(self, amount: float = 1) -> None:
        """Go down."""
        self._value.value -= amount

    def set(self, value: float) -> None:
        """Show this."""
        self._value.value = float(value)


class Histogram(prometheus_client.Histogram):
    """Counts into buckets, from the loop alone."""

    def _metric_init(self) -> None:
        super()._metric_init()
        self._counts = [0] * len(self._upper_bounds)
        self._total = 0.0

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Count one of this size."""
        del exemplar
        self._counts[bisect_left(self._upper_bounds, amount)] += 1
        self._total += amount

    def _child_samples(self) -> Iterable[Sample]:
        samples: list[Sample] = []
        count = 0
        for bound, own in zip(self._upper_bounds, self._counts, strict=True):
            count += own
            le = floatToGoString(bound)  # type: ignore[no-untyped-call]
            samples.append(Sample("_bucket", {"le": le}, float(count)))
        samples.append(Sample("_count", {}, float(count)))
        samples.append(Sample("_sum", {}, self._total))
        return samples
