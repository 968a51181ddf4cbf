"""What each key allows and all together do not: found before anything starts, and named by the key that gives way."""

from collections.abc import Iterator

from app.settings.faults import Fault, dotted, unknown_name
from app.settings.incoming import Source
from app.settings.queues import Queue
from app.settings.shape import Database, Destination, Limits, Settings


def contradictions(settings: Settings) -> Iterator[Fault]:
    """Find every one."""
    yield from _of_database(settings.database)
    for name, queue in settings.queues.items():
        at = dotted(["queues", name])
        yield from _of_queue(at, queue, settings)
        yield from _of_backoff(at, queue)
    for name, to in settings.destinations.items():
        at = dotted(["destinations", name])
        yield from _compare(
            f"{at}.breaker_seconds",
            to.breaker_seconds,
            to.breaker_seconds_max,
            other="breaker_seconds_max",
        )
        yield from _of_backoff(at, to)
    for name, source in settings.sources.items():
        yield from _of_source(dotted(["sources", name]), source, settings)


def _of_source(at: str, source: Source, settings: Settings) -> Iterator[Fault]:
    if source.queue not in settings.queues:
        yield unknown_name(f"{at}.queue", name=source.queue, known=settings.queues)
    if source.reply_to is None:
        return
    if source.reply_to not in settings.destinations:
        yield unknown_name(f"{at}.reply_to", name=source.reply_to, known=settings.destinations)
        return
    queue = settings.queues.get(source.queue)
    allowed = None if queue is None else queue.destinations
    if allowed is not None and source.reply_to not in allowed:
        detail = "the source's queue may not use this destination"
        yield Fault(f"{at}.reply_to", "contradiction", detail)


def _of_database(database: Database) -> Iterator[Fault]:
    yield from _compare(
        "database.lock_timeout_ms",
        database.lock_timeout_ms,
        database.statement_timeout_ms,
        other="database.statement_timeout_ms",
    )
    yield from _compare(
        "database.statement_timeout_ms",
        database.statement_timeout_ms,
        database.command_seconds_max * 1000,
        other="database.command_seconds_max",
    )
    if database.pooler_keeps_statements and database.pooler == "none":
        detail = "tells of a pooler, and database.pooler names none"
        yield Fault("database.pooler_keeps_statements", "contradiction", detail)


def _of_queue(at: str, queue: Queue, settings: Settings) -> Iterator[Fault]:
    yield from _compare(
        f"{at}.lease_seconds",
        queue.lease_seconds,
        settings.limits.lease_seconds_max,
        other="limits.lease_seconds_max",
    )
    yield from _compare(
        f"{at}.coalesce_quiet_seconds",
        queue.coalesce_quiet_seconds or 0.0,
        queue.longest_coalesce_seconds,
        other="coalesce_seconds_max",
    )
    if queue.coalesce_seconds_max is not None and queue.coalesce_quiet_seconds is None:
        detail = "bounds coalesce_quiet_seconds, which is not given"
        yield Fault(f"{at}.coalesce_seconds_max", "contradiction", detail)
    if queue.rate_burst is not None and queue.rate_per_second is None:
        detail = "bounds rate_per_second, which is not given"
        yield Fault(f"{at}.rate_burst", "contradiction", detail)
    yield from _of_waits(at, queue, settings.limits)
    yield from _of_names(at, queue, settings)


def _of_waits(at: str, queue: Queue, limits: Limits) -> Iterator[Fault]:
    yield from _compare(
        f"{at}.hold_deadline_seconds",
        queue.hold_deadline_seconds,
        limits.hold_seconds_max,
        other="limits.hold_seconds_max",
    )
    yield from _compare(
        f"{at}.park_seconds",
        queue.park_seconds,
        limits.park_seconds_max,
        other="limits.park_seconds_max",
    )
    yield from _compare(
        f"{at}.reminder_seconds",
        queue.reminder_seconds,
        queue.reminder_seconds_max,
        other="reminder_seconds_max",
    )


def _of_names(at: str, queue: Queue, settings: Settings) -> Iterator[Fault]:
    """A name that nobody knows would be found out when it is needed most."""
    for key, names, known in (
        ("destinations", queue.destinations or (), settings.destinations),
        ("follow_up_queues", queue.follow_up_queues or (), settings.queues),
    ):
        for name in names:
            if name not in known:
                yield unknown_name(f"{at}.{key}.{dotted([name])}", name=name, known=known)
    for key, told in (("escalate_to", queue.escalate_to), ("approvers", queue.approvers)):
        if told is not None and told not in settings.destinations:
            yield unknown_name(f"{at}.{key}", name=told, known=settings.destinations)


def _of_backoff(at: str, policy: Queue | Destination) -> Iterator[Fault]:
    yield from _compare(
        f"{at}.backoff_seconds",
        policy.backoff_seconds,
        policy.backoff_seconds_max,
        other="backoff_seconds_max",
    )


def _compare(path: str, low: float, high: float, *, other: str) -> Iterator[Fault]:
    if low > high:
        yield Fault(path, "contradiction", f"must not exceed {other}")
