"""Why and for how long a set is held: what the seal asks for, and what queue and destinations demand of it.

An agent can only tighten a hold. What it wishes and may not have is overruled, and the answer says what holds.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.api.fields import Fields, duration, escaped
from app.core import Route
from app.domain.model import DemandedBy, HoldPlan, OnDeadline
from app.settings import Limits, Queue

NOTE_BYTES_MAX: Final = 4000

_FIELDS: Final = frozenset({"deadline_seconds", "on_deadline", "note"})
# The stricter, the later in the list: nothing is ever let go by a stricter one that a looser one would keep.
_BY_STRICTNESS: Final[tuple[OnDeadline, ...]] = ("send", "escalate", "cancel")


@dataclass(frozen=True, slots=True)
class HoldWish:
    """What a seal asks for; None is whatever the queue says."""

    deadline_seconds: float | None = None
    on_deadline: OnDeadline | None = None
    note: str | None = None

    @property
    def spelled(self) -> bytes:
        """The same for the same wish, however it was written."""
        return json.dumps([self.deadline_seconds, self.on_deadline, self.note]).encode()


def read_hold(fields: Fields, *, limits: Limits) -> HoldWish | None:
    """Read `hold`; None where it is absent, or wrong, which is noted."""
    value = fields.values.get("hold")
    if value is None:
        return None
    if not isinstance(value, dict):
        fields.refuse("hold", "wrong_type", "an object is needed")
        return None
    inner = Fields(value, pointer=f"{fields.pointer}/hold", problems=fields.problems)
    for name in value.keys() - _FIELDS:
        inner.refuse(escaped(name), "unknown_field", "unknown")
    return HoldWish(
        deadline_seconds=_deadline(inner, limits.hold_seconds_max),
        on_deadline=_on_deadline(inner),
        note=inner.text("note", bytes_max=NOTE_BYTES_MAX),
    )


def plan_hold(
    wish: HoldWish | None, queue: Queue, routes: Iterable[Route | None], *, limits: Limits
) -> HoldPlan | None:
    """How a set is held that goes these ways; None where nobody wants it held."""
    demanded_by = _demanded_by(wish, queue, routes)
    if demanded_by is None:
        return None
    wish = wish or HoldWish()
    on_deadline = max(
        queue.on_deadline, wish.on_deadline or queue.on_deadline, key=_BY_STRICTNESS.index
    )
    deadline: float = min(queue.hold_deadline_seconds, limits.hold_seconds_max)
    if wish.deadline_seconds is not None:
        # Sent earlier would be less time to look at it.
        at_least = deadline if on_deadline == "send" else 0.0
        deadline = max(wish.deadline_seconds, at_least)
    return HoldPlan(demanded_by, deadline, on_deadline, queue.hold_keeps_lane, wish.note)


def _demanded_by(
    wish: HoldWish | None, queue: Queue, routes: Iterable[Route | None]
) -> DemandedBy | None:
    if queue.hold == "always":
        return "queue"
    if any(route is not None and route.settings.hold == "always" for route in routes):
        return "destination"
    return None if wish is None else "seal"


def _deadline(fields: Fields, seconds_max: float) -> float | None:
    value = fields.values.get("deadline_seconds")
    if value is None:
        return None
    if value == 0 and not isinstance(value, bool):
        fields.refuse("deadline_seconds", "out_of_range", f"more than 0, up to {seconds_max:g}")
        return None
    return duration(fields, "deadline_seconds", value, seconds_max=seconds_max)


def _on_deadline(fields: Fields) -> OnDeadline | None:
    value = fields.string("on_deadline")
    match value:
        case None | "escalate" | "cancel" | "send":
            return value
        case _:
            fields.refuse("on_deadline", "on_deadline_unknown")
            return None
