"""What is counted without locks is shown as the library shows it."""

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

from app.telemetry import counting

AMOUNTS = (0.0, 0.1, 0.10001, 0.5, 1.0, 7.0, 100.0)


def shown(library: object) -> bytes:
    """A page of the same events, counted by this module."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry, kinds = CollectorRegistry(), vars(library)
    counter = kinds["Counter"]("c", "Counts.", ["a", "b"], registry=registry)
    gauge = kinds["Gauge"]("g", "Goes.", registry=registry)
    histogram = kinds["Histogram"]("h", "Takes.", ["a"], buckets=(0.1, 0.5, 1.0), registry=registry)
    for amount in AMOUNTS:
        counter.labels("x", "y").inc(amount)
        counter.labels("x", "z").inc()
        gauge.inc(amount)
        gauge.dec(0.25)
        histogram.labels("x").observe(amount)
    histogram.labels("never")
    kinds["Gauge"]("set", "Set.", registry=registry).set(3)
    return generate_latest(registry)


def test_the_page_is_the_one_that_the_library_makes() -> None:
    assert shown(counting) == shown(prometheus_client)


def test_a_counter_goes_up_alone() -> None:
    counter = counting.Counter("c", "Counts.", registry=CollectorRegistry())
    with pytest.raises(ValueError, match="counts up"):
        counter.inc(-1)


def test_a_metric_with_labels_counts_nothing_without_them() -> None:
    registry = CollectorRegistry()
    with pytest.raises(AttributeError):
        counting.Counter("c", "Counts.", ["a"], registry=registry).inc()
    with pytest.raises(AttributeError):
        counting.Histogram("h", "Takes.", ["a"], registry=registry).observe(1.0)
