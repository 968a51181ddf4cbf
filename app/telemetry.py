"""Every metric and the log format, named once. Neither carries a body, a secret, a key or an address."""

import json
import logging
import sys
from dataclasses import dataclass
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# How far a log line follows an error into its cause.
FRAMES_MAX = 30

# What a log line may carry beside its text: nothing gets in by accident.
FIELDS = (
    "loop",
    "error",
    "queue",
    "destination",
    "turn",
    "message_id",
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
    claimed: Counter
    seals: Counter
    leases_lost: Counter
    swept: Counter
    attempts: Counter
    attempt_seconds: Histogram
    facts: Counter
    sending: Gauge
    passes: Counter
    pass_age_seconds: Gauge
    oldest_queued_seconds: Gauge
    oldest_pending_seconds: Gauge
    pool_connections: Gauge
    wakes_listening: Gauge


def build_metrics() -> Metrics:
    """A registry of its own, so that two services in one process do not mix."""
    registry = CollectorRegistry()

    def counter(name: str, text: str, *labels: str) -> Counter:
        return Counter(f"sinksweep_{name}", text, labels, registry=registry)

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"sinksweep_{name}", text, labels, registry=registry)

    def seconds(name: str, text: str, *labels: str) -> Histogram:
        return Histogram(f"sinksweep_{name}", text, labels, registry=registry, buckets=_SECONDS)

    return Metrics(
        registry=registry,
        requests=counter("http_requests", "Requests answered.", "route", "status"),
        request_seconds=seconds("http_request_seconds", "Time to answer, waits included.", "route"),
        accepts=counter("accepts", "Inbound by what their key said.", "queue", "result"),
        claimed=counter("turns_claimed", "Turns given to agents.", "queue"),
        seals=counter("seals", "Seals by what became of them.", "queue", "result"),
        leases_lost=counter("leases_lost", "Calls refused because their lease was lost.", "reason"),
        swept=counter("swept", "What the sweep put back or ended.", "kind", "state"),
        attempts=counter("delivery_attempts", "Attempts by outcome.", "destination", "outcome"),
        attempt_seconds=seconds("delivery_attempt_seconds", "Time of an attempt.", "destination"),
        facts=counter("delivery_facts", "Deliveries recorded after their lease was lost."),
        sending=gauge("deliveries_in_flight", "Attempts that run now.", "destination"),
        passes=counter("loop_passes", "Passes of the background loops.", "loop", "result"),
        pass_age_seconds=gauge("loop_pass_age_seconds", "Since the last finished pass.", "loop"),
        oldest_queued_seconds=gauge(
            "oldest_queued_age_seconds", "How long the next turn has been due.", "queue"
        ),
        oldest_pending_seconds=gauge(
            "oldest_pending_age_seconds", "How long the next message has been due.", "destination"
        ),
        pool_connections=gauge("pool_connections", "Database connections.", "state"),
        wakes_listening=gauge("wakeups_listening", "1 while other processes are heard."),
    )


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
