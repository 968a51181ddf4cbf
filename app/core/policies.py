"""What follows from the settings alone, as the engine wants it."""

from collections.abc import Mapping

from app.domain.model import TurnPolicy
from app.domain.notice import NoticeRoute
from app.engine.purge import Windows
from app.settings import Settings

DAY_SECONDS = 86_400


def turn_policies(settings: Settings) -> Mapping[str, TurnPolicy]:
    """How the turns of each configured queue are tried, held and sent back."""
    return {
        name: TurnPolicy(
            attempts_max=queue.attempts_max,
            releases_max=settings.limits.releases_max,
            backoff_seconds=queue.backoff_seconds,
            backoff_seconds_max=queue.backoff_seconds_max,
            reminder_seconds=queue.reminder_seconds,
            reminder_seconds_max=queue.reminder_seconds_max,
            revisions_max=queue.revisions_max,
        )
        for name, queue in settings.queues.items()
    }


def notice_routes(settings: Settings) -> Mapping[str, NoticeRoute]:
    """Whom each configured queue tells."""
    return {
        name: NoticeRoute(queue.escalate_to, queue.approvers)
        for name, queue in settings.queues.items()
    }


def retention_windows(settings: Settings) -> Windows:
    """How long what has ended is kept."""
    retention = settings.retention
    return Windows(
        turns_seconds=retention.turns_days * DAY_SECONDS,
        failed_seconds=retention.failed_days * DAY_SECONDS,
        tombstone_seconds=retention.tombstone_days * DAY_SECONDS,
        key_seconds=settings.keys.idempotency_seconds,
    )
