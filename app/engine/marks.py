"""Where claims begin, while an old snapshot somewhere keeps what was claimed long ago in the index of what is queued.

Usually a claim reads its queue from the front. Every few seconds it is measured over how much that leads: where it is
over many entries that are dead and cannot be removed, the next claims begin shortly before the last turn that was
claimed of each priority. What came to lie before that, put back, promoted or committed late, is looked for once a
second, or as rarely as keeps looking a twentieth of the time: so long, and no longer than ten seconds, a claim may pass
over an older turn.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

# How many entries a claim may go over in vain and still read from the front.
STEPPED_MAX: Final = 500
MEASURE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 1.0
LOOK_SECONDS_MAX: Final = 10.0
# A look takes at most this part of the time.
LOOK_SHARE: Final = 0.05
# How long what an accept has written may take to be seen, and be found behind a mark.
SLACK: Final = timedelta(seconds=0.5)
_USUAL_PRIORITY: Final = 0

# A queue, a priority, and from when on its turns are read.
Mark = tuple[str, int, datetime]
# The queue of a turn, its priority, and when it was due.
Stood = tuple[str, int, datetime]


@dataclass(frozen=True, slots=True)
class Look:
    """How a claim reads its queues: from these marks, or from the front where a queue has none."""

    marks: Sequence[Mark]
    # From the front, to learn over how much that leads.
    measured: bool
    began: float


FROM_THE_FRONT: Final = Look((), measured=False, began=0.0)


@dataclass(frozen=True, slots=True)
class Stepped:
    """How many entries of the index were read, and what time it is in the database."""

    entries: int
    at: datetime

    def since(self, before: "Stepped") -> "Stepped":
        """What was read since then, and the time of then."""
        return Stepped(self.entries - before.entries, before.at)


@dataclass(slots=True)
class _Front:
    """What is known of the front of one queue."""

    due_from: dict[int, datetime] = field(default_factory=dict)
    is_dead: bool = False
    look_at: float = 0.0

    def rise(self, priority: int, at: datetime) -> None:
        self.due_from[priority] = max(at - SLACK, self.due_from.get(priority, at - SLACK))

    def fall(self, at: datetime) -> None:
        """No mark is ahead of the clock, which may have gone back."""
        self.due_from = {
            priority: min(mark, at - SLACK) for priority, mark in self.due_from.items()
        }


class Marks:
    """The marks of one process, for each queue that it claims of. Times are those of `time.monotonic`, in seconds."""

    def __init__(self) -> None:
        self._fronts: dict[str, _Front] = {}
        self._empty: set[str] = set()

    def is_empty(self, queue: str) -> bool:
        """Whether the last claim of this queue gave out all that was due and free."""
        return queue in self._empty

    def doubt(self, queue: str) -> None:
        """Something may have come since."""
        self._empty.discard(queue)

    def look(self, queues: Collection[str], *, now: float) -> Look:
        """How to read these queues now."""
        fronts = {queue: self._fronts.setdefault(queue, _Front()) for queue in queues}
        if any(front.look_at <= now for front in fronts.values()):
            for front in fronts.values():
                if front.is_dead:
                    # Others go on at the marks meanwhile, and also where this look takes longer than it may.
                    front.look_at = max(front.look_at, now + LOOK_SECONDS_MAX)
            return Look((), measured=True, began=now)
        marks = [
            (queue, priority, at)
            for queue, front in fronts.items()
            if front.is_dead
            for priority, at in front.due_from.items()
        ]
        return Look(marks, measured=False, began=now)

    def note(
        self,
        look: Look,
        queues: Collection[str],
        claimed: Sequence[Stood],
        stepped: Stepped | None,
        *,
        is_empty: bool,
        now: float,
    ) -> None:
        """Learn from a claim that was committed: what it gave out and went over, and whether it left nothing."""
        self._empty.difference_update(queues)
        if is_empty:
            self._empty.update(queues)
        for queue, priority, due_at in claimed:
            self._fronts[queue].rise(priority, due_at)
        if stepped is None:
            return
        rests = min(max(LOOK_SECONDS, (now - look.began) / LOOK_SHARE), LOOK_SECONDS_MAX)
        for queue in queues:
            front = self._fronts[queue]
            front.fall(stepped.at)
            front.is_dead = stepped.entries - len(claimed) > STEPPED_MAX
            front.look_at = now + (rests if front.is_dead else MEASURE_SECONDS)
            if not claimed:
                # What is not there now, nor held by somebody, was given out by others.
                for priority in {_USUAL_PRIORITY, *front.due_from}:
                    front.rise(priority, stepped.at)
