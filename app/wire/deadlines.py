"""One timer for many deadlines: what is over is ended at its time, and what ends before it costs next to nothing.

A timer of the loop for each of some thousand short things a second is more than many of them take themselves.
"""

import asyncio
from typing import Protocol


class Expiring(Protocol):
    """What has a time of its own."""

    def expire(self) -> None:
        """The time is over."""
        ...


class Deadlines:
    """Expires what is not removed before its time, on the loop's clock.

    The timer stands at the earliest of them or before: where that was removed meanwhile it is set anew when it fires.
    """

    __slots__ = ("_at", "_due", "_timer")

    def __init__(self) -> None:
        self._due: dict[Expiring, float] = {}
        self._at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Expiring, deadline: float) -> None:
        """Expire it then, unless it is removed before."""
        self._due[one] = deadline
        if self._timer is None or deadline < self._at:
            self._arm(deadline)

    def remove(self, one: Expiring) -> None:
        """Leave it alone; also what has expired."""
        self._due.pop(one, None)

    def clear(self) -> None:
        """Leave everything alone, and the loop without a timer."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = deadline
        self._timer = asyncio.get_running_loop().call_at(deadline, self._fire)

    def _fire(self) -> None:
        self._timer = None
        # A loop may wake a timer a tick of its clock before its time.
        now = max(asyncio.get_running_loop().time(), self._at)
        over = [one for one, deadline in self._due.items() if deadline <= now]
        for one in over:
            del self._due[one]
        if self._due:
            self._arm(min(self._due.values()))
        for one in over:
            one.expire()
