"""Every metric and the log format, named once. Neither carries a body, a secret, a key or an address."""

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TextIO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from app import VERSION

# Answers and commits, up to half a minute.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# Turns and messages, which may wait for a person: up to a day.
_LONG_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3600.0, 86_400.0)

# What agents may report that is counted: a name of their own each time must not become a series each time.
USAGE_FIELDS = ("calls", "tokens", "input_tokens", "output_tokens", "money", "wall_seconds")

# How far a log line follows an error into its cause.
FRAMES_MAX = 30

# What a log line may carry beside its text: nothing gets in by accident.
FIELDS = (
    "loop",
    "error",
    "queue",
    "source",
    "destination",
    "turn",
    "message_id",
    "operation",
    "attempt",
    "outcome",
    "pointer",
    "route",
    "status",
    "seconds",
    "count",
    "reason",
)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of one process. Labels are configured names and closed sets only."""

    registry: CollectorRegistry
    requests: Counter
    request_seconds: Histogram
    accepts: Counter
    source_requests: Counter
    source_items: Counter
    claims: Counter
    claimed: Counter
    seals: Counter
    settled: Counter
    accept_to_claim_seconds: Histogram
    claim_to_seal_seconds: Histogram
    seal_to_replied_seconds: Histogram
    accept_to_replied_seconds: Histogram
    leases_lost: Counter
    wasted: Counter
    swept: Counter
    purged: Counter
    attempts: Counter
    attempt_seconds: Histogram
    lookups: Counter
    facts: Counter
    sending: Gauge
    limited: Counter
    breaker_openings: Counter
    breaker: Gauge
    sending_everywhere: Gauge
    drifted: Counter
    passes: Counter
    pass_age_seconds: Gauge
    pass_seconds: Histogram
    turns: Gauge
    oldest_turn_seconds: Gauge
    messages: Gauge
    oldest_queued_seconds: Gauge
    oldest_pending_seconds: Gauge
    unconfigured: Gauge
    paused: Gauge
    pool_connections: Gauge
    pool_connections_max: Gauge
    pool_waiting: Gauge
    pool_acquire_seconds: Histogram
    wakes_listening: Gauge
    wakes_connected: Counter
    wakes_heard: Counter
    clock_ahead_seconds: Gauge
    holds: Counter
    decisions: Counter
    hold_deadlines: Counter
    oldest_hold_seconds: Gauge
    notices: Counter
    oldest_notice_seconds: Gauge
    parks: Counter
    parks_ended: Counter
    signals: Counter
    follow_ups: Counter


def build_metrics() -> Metrics:
    """A registry of its own, so that two services in one process do not mix."""
    # Of no use to anybody, and as many series again.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()

    def counter(name: str, text: str, *labels: str) -> Counter:
        return Counter(f"sinksweep_{name}", text, labels, registry=registry)

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"sinksweep_{name}", text, labels, registry=registry)

    def seconds(name: str, text: str, *labels: str, long: bool = False) -> Histogram:
        buckets = _LONG_SECONDS if long else _SECONDS
        return Histogram(f"sinksweep_{name}", text, labels, registry=registry, buckets=buckets)

    Info("sinksweep_build", "Which version this is.", registry=registry).info({"version": VERSION})
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return Metrics(
        registry=registry,
        requests=counter("http_requests", "Requests answered.", "route", "status"),
        request_seconds=seconds("http_request_seconds", "Time to answer, waits included.", "route"),
        accepts=counter("accepts", "Inbound by what their key said.", "queue", "result"),
        source_requests=counter(
            "source_requests", "Webhooks by what they came to.", "source", "result"
        ),
        source_items=counter(
            "source_items", "What was in webhooks, by what became of it.", "source", "result"
        ),
        claims=counter("claims", "Claims answered, with turns or without.", "queue", "result"),
        claimed=counter("turns_claimed", "Turns given to agents.", "queue"),
        seals=counter("seals", "Seals by what became of them.", "queue", "result"),
        settled=counter(
            "turns_settled", "Turns that their messages moved, by where to.", "queue", "state"
        ),
        accept_to_claim_seconds=seconds(
            "accept_to_claim_seconds", "From input to its first claim.", "queue", long=True
        ),
        claim_to_seal_seconds=seconds(
            "claim_to_seal_seconds", "From a claim to its seal.", "queue", long=True
        ),
        seal_to_replied_seconds=seconds(
            "seal_to_replied_seconds", "From a seal to the last confirmation.", "queue", long=True
        ),
        accept_to_replied_seconds=seconds(
            "accept_to_replied_seconds", "From input to the last confirmation.", "queue", long=True
        ),
        leases_lost=counter("leases_lost", "Calls refused because their lease was lost.", "reason"),
        wasted=counter("wasted_usage", "Usage of attempts that came to nothing.", "field"),
        swept=counter("swept", "What the sweep put back or ended.", "kind", "state"),
        purged=counter("purged", "Rows removed after their time.", "kind"),
        attempts=counter("delivery_attempts", "Attempts by outcome.", "destination", "outcome"),
        lookups=counter("lookups", "Look-ups by what came of them.", "destination", "answer"),
        attempt_seconds=seconds("delivery_attempt_seconds", "Time of an attempt.", "destination"),
        facts=counter("delivery_facts", "Deliveries recorded after their lease was lost."),
        sending=gauge("deliveries_in_flight", "Attempts that run now.", "destination"),
        limited=counter(
            "takes_limited", "Takes that a limit let no more pass.", "destination", "limit"
        ),
        breaker_openings=counter(
            "breaker_openings", "Breakers that opened, and why.", "destination", "reason"
        ),
        breaker=gauge("breaker", "1 for the state of a breaker.", "destination", "state"),
        sending_everywhere=gauge(
            "destination_sending", "Messages that all workers are sending.", "destination"
        ),
        drifted=counter("destinations_recounted", "Counts of what is sent that were wrong."),
        passes=counter("loop_passes", "Passes of the background loops.", "loop", "result"),
        pass_age_seconds=gauge("loop_pass_age_seconds", "Since the last finished pass.", "loop"),
        pass_seconds=seconds("loop_pass_seconds", "Time of a pass.", "loop"),
        turns=gauge("turns", "Turns by open state, counted to 1000.", "queue", "state"),
        oldest_turn_seconds=gauge(
            "oldest_turn_age_seconds", "Since the oldest turn of a state came.", "queue", "state"
        ),
        messages=gauge(
            "messages", "Messages by open state, counted to 1000.", "destination", "state"
        ),
        oldest_queued_seconds=gauge(
            "oldest_queued_age_seconds", "How long the next turn has been due.", "queue"
        ),
        oldest_pending_seconds=gauge(
            "oldest_pending_age_seconds", "How long the next message has been due.", "destination"
        ),
        unconfigured=gauge(
            "unconfigured_names", "Names in open rows that are not configured here.", "kind"
        ),
        paused=gauge("paused", "What people have paused.", "kind"),
        pool_connections=gauge("pool_connections", "Database connections.", "state"),
        pool_connections_max=gauge("pool_connections_max", "How many there may be."),
        pool_waiting=gauge("pool_waiting", "Who waits for a database connection."),
        pool_acquire_seconds=seconds("pool_acquire_seconds", "Time to get a connection."),
        wakes_listening=gauge("wakeups_listening", "1 while other processes are heard."),
        wakes_connected=counter("wakeups_connections", "Connections made to hear the others."),
        wakes_heard=counter("wakeups_heard", "Notifications of other processes."),
        clock_ahead_seconds=gauge(
            "clock_ahead_seconds", "How far this clock is ahead of the database's."
        ),
        holds=counter("holds", "Sets that were held, by who wanted it.", "queue", "demanded_by"),
        decisions=counter("decisions", "Decisions of people, by what came.", "queue", "result"),
        hold_deadlines=counter("hold_deadlines", "Deadlines of holds, by outcome.", "outcome"),
        oldest_hold_seconds=gauge(
            "oldest_hold_age_seconds", "Since the oldest open hold was made.", "queue", "state"
        ),
        notices=counter("notices", "Notices by what became of them.", "queue", "kind", "result"),
        oldest_notice_seconds=gauge(
            "oldest_notice_age_seconds", "How long somebody has been to be told."
        ),
        parks=counter("parks", "Parks by what became of them.", "queue", "result"),
        parks_ended=counter("parks_ended", "Parks that ended, and what by.", "reason"),
        signals=counter("signals", "Signals by what became of them.", "queue", "result"),
        follow_ups=counter("follow_ups", "Follow-ups by what became of them.", "queue", "result"),
    )


def count_wasted(metrics: Metrics, usage: Mapping[str, Decimal]) -> None:
    """Count what an attempt had used, where that came to nothing."""
    for name, total in usage.items():
        if name in USAGE_FIELDS:
            metrics.wasted.labels(name).inc(float(total))


class JsonLines(logging.Formatter):
    """One JSON object a line, with allow-listed fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Name the error's type and not its text, which may quote what it failed on."""
        line: dict[str, object] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["where"] = _where(record)
        return json.dumps(line, ensure_ascii=False, default=str)


class PlainLines(logging.Formatter):
    """The same for a person at a terminal: time, level, words, and the same fields."""

    def format(self, record: logging.LogRecord) -> str:
        """As little of an error as `JsonLines` tells."""
        fields = [f"{name} {getattr(record, name)}" for name in FIELDS if hasattr(record, name)]
        if record.exc_info and record.exc_info[0] is not None:
            fields += [f"error {record.exc_info[0].__name__}", *_where(record)[-1:]]
        told = f" ({', '.join(fields)})" if fields else ""
        at = self.formatTime(record, "%H:%M:%S")
        return f"{at} {record.levelname.lower()}: {record.getMessage()}{told}"


def _where(record: logging.LogRecord) -> list[str]:
    """File and line of each frame: enough to find the place, and nothing of what was in it."""
    frames: list[str] = []
    trace = record.exc_info[2] if record.exc_info else None
    while trace is not None and len(frames) < FRAMES_MAX:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames


def configure_logging(
    *, level: str = "INFO", stream: TextIO = sys.stderr, plain: bool = False
) -> None:
    """Send every log line of the process to one stream, in one format; `plain` is for people."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainLines() if plain else JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("alembic", "aiohttp.access", "uvicorn.access"):
        logging.getLogger(noisy).setLevel("WARNING")
