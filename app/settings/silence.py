"""Queues in which something can wait for a person and nobody would ever hear of it.

It is no contradiction: a database in which turns are held must be served all the same. It is not meant, either.
"""

from collections.abc import Iterator
from typing import Final

from app.settings.faults import Fault, dotted
from app.settings.queues import Queue
from app.settings.shape import Settings

# Whoever writes one of these expects holds.
_OF_HOLDS: Final = frozenset({"hold", "approvers", "on_deadline", "hold_deadline_seconds"})


def silences(settings: Settings) -> Iterator[Fault]:
    """Each queue with holds that can escalate to nobody. A seal may ask for a hold in every other one, too."""
    for name, queue in settings.queues.items():
        if queue.escalate_to is None and _is_used(name, settings) and has_holds(queue, settings):
            path = f"{dotted(['queues', name])}.escalate_to"
            detail = "not set, and its turns can be held: nobody hears of a hold past its deadline"
            yield Fault(path, "nobody_told", detail)


def has_holds(queue: Queue, settings: Settings) -> bool:
    """Whether configuration makes holds in this queue, or says how they go."""
    usable = settings.destinations if queue.destinations is None else queue.destinations
    demanded = any(
        settings.destinations[name].hold is not None
        for name in usable
        if name in settings.destinations
    )
    return demanded or bool(_OF_HOLDS & queue.model_fields_set)


def _is_used(name: str, settings: Settings) -> bool:
    """The queue that exists without being written is none of those that are meant, where others are written."""
    return (
        name != "default"
        or len(settings.queues) == 1
        or bool(settings.queues[name].model_fields_set)
    )
