"""One run: its logs and its rows, put together by what belongs together, with two clocks read as one."""

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tests.history.log import (
    Answered,
    Asked,
    Given,
    Healed,
    Moment,
    PostAnswered,
    Posted,
    Received,
    Record,
    Terms,
    Told,
    Vital,
)
from tests.history.rows import Event, KeptMessage, Rows
from tests.history.waiting_rows import KeptHold, KeptWait

# How far readings of the two clocks may be apart, and how long a record takes to be written.
CLOCK_SECONDS_MAX = 0.05

T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Post:
    """One request of a provider; `answer` None when none was written down."""

    asked: Posted
    answer: PostAnswered | None

    @property
    def status(self) -> int | None:
        return None if self.answer is None else self.answer.status

    @property
    def accepted(self) -> PostAnswered | None:
        """The answer, if it was a 2xx."""
        return self.answer if self.status is not None and self.status // 100 == 2 else None


@dataclass(frozen=True, slots=True)
class Call:
    """One request of an agent or an operator."""

    asked: Asked
    told: Told | None

    @property
    def granted(self) -> Told | None:
        """The answer, if it was a 2xx."""
        told = self.told
        return told if told and told.status is not None and told.status // 100 == 2 else None


@dataclass(frozen=True, slots=True)
class Receipt:
    """One request at a receiver, and what it answered."""

    got: Received
    answered: Answered | None

    @property
    def confirmed_at(self) -> float | None:
        """When the receiver began to answer 2xx: its word stands, however little it has read."""
        done = self.answered
        return done.at if done and done.status is not None and done.status // 100 == 2 else None


class History:
    """A run as the checker reads it. The logs may come in any order."""

    def __init__(self, records: Iterable[Record], rows: Rows) -> None:
        self.records = list(records)
        self.rows = rows

    def _all(self, kind: type[T]) -> list[T]:
        return [record for record in self.records if isinstance(record, kind)]

    @cached_property
    def terms(self) -> Terms:
        return next(iter(self._all(Terms)), Terms())

    @cached_property
    def healed(self) -> Healed | None:
        return next(iter(self._all(Healed)), None)

    @cached_property
    def vitals(self) -> list[Vital]:
        return self._all(Vital)

    @cached_property
    def posts(self) -> list[Post]:
        answers = {one.post: one for one in self._all(PostAnswered)}
        posts = [Post(one, answers.get(one.post)) for one in self._all(Posted)]
        return sorted(posts, key=lambda post: post.asked.at)

    @cached_property
    def posts_by_key(self) -> dict[tuple[str, str], list[Post]]:
        return _by(lambda post: (post.asked.scope, post.asked.key), self.posts)

    @cached_property
    def calls(self) -> list[Call]:
        answers = {one.call: one for one in self._all(Told)}
        calls = [Call(one, answers.get(one.call)) for one in self._all(Asked)]
        return sorted(calls, key=lambda call: call.asked.at)

    @cached_property
    def given(self) -> list[tuple[Call, Given]]:
        """Every turn that a claim gave."""
        return [(call, turn) for call in self.calls if call.granted for turn in call.granted.turns]

    @cached_property
    def receipts(self) -> list[Receipt]:
        answers = {one.request: one for one in self._all(Answered)}
        receipts = [Receipt(one, answers.get(one.request)) for one in self._all(Received)]
        return sorted(receipts, key=lambda receipt: receipt.got.at)

    @cached_property
    def receipts_by_key(self) -> dict[str, list[Receipt]]:
        return _by(lambda receipt: receipt.got.key, self.receipts)

    @cached_property
    def message_by_key(self) -> dict[str, KeptMessage]:
        """By each key its message: of a set that was edited the one that took its place."""
        return {
            message.key: message for message in sorted(self.rows.messages, key=lambda m: m.seal)
        }

    @cached_property
    def turn_events(self) -> dict[str, list[Event]]:
        """The moves of each turn itself, in order."""
        events = [event for event in self.rows.events if event.message is None]
        return _by(lambda event: event.turn, events)

    @cached_property
    def message_events(self) -> dict[str, list[Event]]:
        events = [event for event in self.rows.events if event.message is not None]
        return _by(lambda event: event.message or "", events)

    @cached_property
    def sets(self) -> dict[tuple[str, int], list[KeptMessage]]:
        """The messages of each set, void ones too, by its turn and number."""
        return _by(lambda message: (message.turn, message.seal), self.rows.messages)

    @cached_property
    def messages_of(self) -> dict[str, list[KeptMessage]]:
        """The messages of each turn's last set, in its order."""
        return {turn.id: self.sets.get((turn.id, turn.seal), []) for turn in self.rows.turns}

    def seal_numbers(self, turn: str) -> dict[int, int]:
        """The number of the set that each attempt sealed: an edit makes another."""
        numbers: dict[int, int] = {}
        made = 0
        for event in self.turn_events.get(turn, ()):
            made += event.verb in ("seal", "edit", "escalate")
            if event.verb == "seal" and event.attempt is not None:
                numbers[event.attempt] = made
        return numbers

    @cached_property
    def holds_of(self) -> dict[str, list[KeptHold]]:
        return _by(lambda hold: hold.turn, self.rows.holds)

    @cached_property
    def waits_of(self) -> dict[str, list[KeptWait]]:
        return _by(lambda wait: wait.turn, self.rows.waits)

    @cached_property
    def told_of(self) -> dict[str, list[KeptMessage]]:
        """What was said to people about each turn."""
        about = {turn.id: turn.about for turn in self.rows.turns if turn.about is not None}
        told = [message for message in self.rows.messages if message.turn in about]
        return _by(lambda message: about[message.turn], told)

    def first_move(self, message: str) -> Event | None:
        """How a message came to be: sealed, put there by an edit, or to tell somebody."""
        return next(iter(self.message_events.get(message, ())), None)

    @cached_property
    def attempt_of(self) -> dict[tuple[str, str], int]:
        """Which attempt of its turn a token was given for, by (turn, token)."""
        return {(one.turn, one.token): one.number for one in self.rows.attempts}

    @cached_property
    def _moments(self) -> list[Moment]:
        moments = {*self._all(Moment), self.rows.moment}
        return sorted(moments, key=lambda moment: moment.at)

    def database_time(self, at: float) -> float:
        """What the database's clock said at a time of the logs."""
        moments = self._moments
        n = max(bisect.bisect_right(moments, at, key=lambda moment: moment.at) - 1, 0)
        return moments[n].database_at + at - moments[n].at

    def log_time(self, event: Event) -> float:
        """When a move was made, on the clock of the logs: its statement began then, and its commit came later."""
        moments = self._moments
        n = bisect.bisect_right(moments, event.at, key=lambda moment: moment.database_at) - 1
        n = max(n, 0)
        return moments[n].at + event.at - moments[n].database_at

    def claim_of(self, turn: str, attempt: int) -> Event | None:
        """The move that began an attempt."""
        return next(
            (
                e
                for e in self.turn_events.get(turn, ())
                if (e.verb, e.attempt) == ("claim", attempt)
            ),
            None,
        )

    def end_of(self, turn: str, attempt: int) -> Event | None:
        """The move by which a turn left processing in this attempt."""
        begun = False
        for event in self.turn_events.get(turn, ()):
            if (event.verb, event.attempt) == ("claim", attempt):
                begun = True
            elif begun and event.from_state == "processing":
                return event
        return None

    def attempts_at(self, message: str) -> list[Event]:
        """The moves that recorded an attempt before its first byte: takes, and beginnings of resends."""
        events = self.message_events.get(message, ())
        return [
            e for e in events if (e.verb == "take" and e.to_state == "sending") or e.step == "begun"
        ]

    def events_of(self, message: str, verb: str) -> list[Event]:
        return [e for e in self.message_events.get(message, ()) if e.verb == verb]


def _by(name: Callable[[T], K], things: Iterable[T]) -> dict[K, list[T]]:
    """Things by what each is named, in their order."""
    found: dict[K, list[T]] = defaultdict(list)
    for thing in things:
        found[name(thing)].append(thing)
    return dict(found)
