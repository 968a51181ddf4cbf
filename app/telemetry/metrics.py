"""Every metric, declared once, where its name and its words are. None carries a body, a secret, a key or an address."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from app import VERSION
from app.telemetry.counting import Counter, Gauge, Histogram

MetricT = TypeVar("MetricT", Counter, Gauge, Histogram)

# Answers and commits, up to half a minute.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# Turns and messages, which may wait for a person: up to a day.
_LONG_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3600.0, 86_400.0)

# What agents may report that is counted: a name of their own each time must not become a series each time.
USAGE_FIELDS = ("calls", "tokens", "input_tokens", "output_tokens", "money", "wall_seconds")


class _Declared(Generic[MetricT]):
    """A metric as it is declared: on the instance it is the one that was made there."""

    def __init__(
        self, kind: type[MetricT], name: str, text: str, *labels: str, **more: Any
    ) -> None:
        self._make: Callable[..., MetricT] = partial(
            kind, f"sinksweep_{name}", text, labels, **more
        )

    def make(self, registry: CollectorRegistry) -> MetricT:
        """The metric itself, in a registry. None of its children is ever removed, so each is looked up once."""
        made = self._make(registry=registry)
        known: dict[tuple[str, ...], MetricT] = {}
        look_up = made.labels

        def labels(*values: str) -> MetricT:
            child = known.get(values)
            if child is None:
                child = known[values] = look_up(*values)
            return child

        vars(made)["labels"] = labels
        return made

    def __get__(self, metrics: "Metrics", owner: type["Metrics"]) -> MetricT:
        """What `metrics.name` is."""
        raise NotImplementedError  # every instance has its own


def _counter(name: str, text: str, *labels: str) -> _Declared[Counter]:
    return _Declared(Counter, name, text, *labels)


def _gauge(name: str, text: str, *labels: str) -> _Declared[Gauge]:
    return _Declared(Gauge, name, text, *labels)


def _seconds(name: str, text: str, *labels: str) -> _Declared[Histogram]:
    return _Declared(Histogram, name, text, *labels, buckets=_SECONDS)


def _long_seconds(name: str, text: str, *labels: str) -> _Declared[Histogram]:
    return _Declared(Histogram, name, text, *labels, buckets=_LONG_SECONDS)


class Metrics:
    """The metrics of one process. Labels are configured names and closed sets only."""

    # What comes in.
    requests = _counter("http_requests", "Requests answered.", "route", "status")
    request_seconds = _seconds("http_request_seconds", "Time to answer, waits included.", "route")
    accepts = _counter("accepts", "Inbound by what their key said.", "queue", "result")
    source_requests = _counter(
        "source_requests", "Webhooks by what they came to.", "source", "result"
    )
    source_items = _counter(
        "source_items", "What was in webhooks, by what became of it.", "source", "result"
    )

    # Turns, from their claim to their end.
    claims = _counter("claims", "Claims answered, with turns or without.", "queue", "result")
    claimed = _counter("turns_claimed", "Turns given to agents.", "queue")
    seals = _counter("seals", "Seals by what became of them.", "queue", "result")
    settled = _counter(
        "turns_settled", "Turns that their messages moved, by where to.", "queue", "state"
    )
    accept_to_claim_seconds = _long_seconds(
        "accept_to_claim_seconds", "From input to its first claim.", "queue"
    )
    claim_to_seal_seconds = _long_seconds(
        "claim_to_seal_seconds", "From a claim to its seal.", "queue"
    )
    seal_to_replied_seconds = _long_seconds(
        "seal_to_replied_seconds", "From a seal to the last confirmation.", "queue"
    )
    accept_to_replied_seconds = _long_seconds(
        "accept_to_replied_seconds", "From input to the last confirmation.", "queue"
    )
    leases_lost = _counter("leases_lost", "Calls refused because their lease was lost.", "reason")
    wasted = _counter("wasted_usage", "Usage of attempts that came to nothing.", "field")
    swept = _counter("swept", "What the sweep put back or ended.", "kind", "state")
    purged = _counter("purged", "Rows removed after their time.", "kind")

    # Deliveries.
    attempts = _counter("delivery_attempts", "Attempts by outcome.", "destination", "outcome")
    lookups = _counter("lookups", "Look-ups by what came of them.", "destination", "answer")
    attempt_seconds = _seconds("delivery_attempt_seconds", "Time of an attempt.", "destination")
    facts = _counter("delivery_facts", "Deliveries recorded after their lease was lost.")
    sending = _gauge("deliveries_in_flight", "Attempts that run now.", "destination")
    limited = _counter(
        "takes_limited", "Takes that a limit let no more pass.", "destination", "limit"
    )
    breaker_openings = _counter(
        "breaker_openings", "Breakers that opened, and why.", "destination", "reason"
    )
    breaker = _gauge("breaker", "1 for the state of a breaker.", "destination", "state")
    sending_everywhere = _gauge(
        "destination_sending", "Messages that all workers are sending.", "destination"
    )
    drifted = _counter("destinations_recounted", "Counts of what is sent that were wrong.")

    # The loops, and what waits for them.
    passes = _counter("loop_passes", "Passes of the background loops.", "loop", "result")
    pass_age_seconds = _gauge("loop_pass_age_seconds", "Since the last finished pass.", "loop")
    pass_seconds = _seconds("loop_pass_seconds", "Time of a pass.", "loop")
    turns = _gauge("turns", "Turns by open state, counted to 1000.", "queue", "state")
    oldest_turn_seconds = _gauge(
        "oldest_turn_age_seconds", "Since the oldest turn of a state came.", "queue", "state"
    )
    messages = _gauge(
        "messages", "Messages by open state, counted to 1000.", "destination", "state"
    )
    oldest_queued_seconds = _gauge(
        "oldest_queued_age_seconds", "How long the next turn has been due.", "queue"
    )
    oldest_pending_seconds = _gauge(
        "oldest_pending_age_seconds", "How long the next message has been due.", "destination"
    )
    unconfigured = _gauge(
        "unconfigured_names", "Names in open rows that are not configured here.", "kind"
    )
    paused = _gauge("paused", "What people have paused.", "kind")

    # The database.
    pool_connections = _gauge("pool_connections", "Database connections.", "state")
    pool_connections_max = _gauge("pool_connections_max", "How many there may be.")
    pool_waiting = _gauge("pool_waiting", "Who waits for a database connection.")
    pool_acquire_seconds = _seconds("pool_acquire_seconds", "Time to get a connection.")
    wakes_listening = _gauge("wakeups_listening", "1 while other processes are heard.")
    wakes_connected = _counter("wakeups_connections", "Connections made to hear the others.")
    wakes_heard = _counter("wakeups_heard", "Notifications of other processes.")
    clock_ahead_seconds = _gauge(
        "clock_ahead_seconds", "How far this clock is ahead of the database's."
    )

    # Whom and what turns wait for.
    holds = _counter("holds", "Sets that were held, by who wanted it.", "queue", "demanded_by")
    decisions = _counter("decisions", "Decisions of people, by what came.", "queue", "result")
    hold_deadlines = _counter("hold_deadlines", "Deadlines of holds, by outcome.", "outcome")
    oldest_hold_seconds = _gauge(
        "oldest_hold_age_seconds", "Since the oldest open hold was made.", "queue", "state"
    )
    notices = _counter("notices", "Notices by what became of them.", "queue", "kind", "result")
    oldest_notice_seconds = _gauge(
        "oldest_notice_age_seconds", "How long somebody has been to be told."
    )
    parks = _counter("parks", "Parks by what became of them.", "queue", "result")
    parks_ended = _counter("parks_ended", "Parks that ended, and what by.", "reason")
    signals = _counter("signals", "Signals by what became of them.", "queue", "result")
    follow_ups = _counter("follow_ups", "Follow-ups by what became of them.", "queue", "result")

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        for name, one in vars(Metrics).items():
            if isinstance(one, _Declared):
                vars(self)[name] = one.make(registry)


def build_metrics() -> Metrics:
    """A registry of its own, so that two services in one process do not mix."""
    # Of no use to anybody, and as many series again.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    Info("sinksweep_build", "Which version this is.", registry=registry).info({"version": VERSION})
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return Metrics(registry)


def count_wasted(metrics: Metrics, usage: Mapping[str, Decimal]) -> None:
    """Count what an attempt had used, where that came to nothing."""
    for name, total in usage.items():
        if name in USAGE_FIELDS:
            metrics.wasted.labels(name).inc(float(total))
