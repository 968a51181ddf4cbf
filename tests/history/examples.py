"""A small run in which every promise is kept, in lists that a test may spoil. Both clocks say the same."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tests.history.history import History
from tests.history.log import (
    Answered,
    Asked,
    Given,
    Healed,
    Input,
    Moment,
    PostAnswered,
    Posted,
    Promise,
    Received,
    Record,
    Terms,
    Told,
    Vital,
)
from tests.history.rows import (
    Event,
    KeptAttempt,
    KeptInbound,
    KeptKey,
    KeptMessage,
    KeptTurn,
    Rows,
)
from tests.history.waiting_rows import KeptFollowUp, KeptHold, KeptSignal, KeptWait

T = TypeVar("T")
SCOPE, LANE, CRM = "queue/q", "c", "crm"


@dataclass(slots=True)
class Run:
    """The parts of a history."""

    records: list[Record] = field(default_factory=list)
    keys: list[KeptKey] = field(default_factory=list)
    inbound: list[KeptInbound] = field(default_factory=list)
    turns: list[KeptTurn] = field(default_factory=list)
    attempts: list[KeptAttempt] = field(default_factory=list)
    messages: list[KeptMessage] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    holds: list[KeptHold] = field(default_factory=list)
    waits: list[KeptWait] = field(default_factory=list)
    signals: list[KeptSignal] = field(default_factory=list)
    follow_ups: list[KeptFollowUp] = field(default_factory=list)
    stuck_sessions: int = 0

    def history(self) -> History:
        rows = Rows(
            Moment(20.0, 20.0),
            tuple(self.keys),
            tuple(self.inbound),
            tuple(self.turns),
            tuple(self.attempts),
            tuple(self.messages),
            tuple(self.events),
            tuple(self.holds),
            tuple(self.waits),
            tuple(self.signals),
            tuple(self.follow_ups),
            self.stuck_sessions,
        )
        return History(self.records, rows)

    def post(
        self, at: float, key: str, *, status: int | None = 202, name: str = "", **more: Any
    ) -> None:
        """A provider posts; what an answer of `status` says of it, if anything."""
        post = f"post {at}"
        self.records.append(Posted(post, at, "api", SCOPE, key, f"body {key}", conversation=LANE))
        if name:
            more |= {"inbound": f"in_{name}", "turn": f"turn_{name}"}
        self.records.append(PostAnswered(post, at + 0.2, status, **more))

    def call(self, at: float, verb: str, told: Told, **asked: Any) -> None:
        """An agent or an operator asks and is told."""
        self.records.append(Asked(f"call {at}", at, "agent", verb, **asked))
        self.records.append(replace(told, call=f"call {at}", at=at + 0.2))

    def claim(self, at: float, name: str, attempt: int) -> None:
        given = Given(
            f"turn_{name}",
            f"token {name}{attempt}",
            attempt,
            (Input(f"in_{name}", f"body {name}"),),
            60.0,
            LANE,
        )
        self.call(at, "claim", Told("", 0, 200, turns=(given,)))
        self.attempts.append(KeptAttempt(given.turn, attempt, given.token, "sealed"))
        self.move(at + 0.1, "claim", "queued", "processing", turn=given.turn, attempt=attempt)

    def move(self, at: float, verb: str, before: str | None, after: str, **more: Any) -> None:
        """A committed move."""
        self.events.append(
            Event(
                len(self.events) + 1,
                at,
                more["turn"],
                more.get("message"),
                verb,
                before,
                after,
                more.get("attempt"),
            )
        )

    def send(self, at: float, message: str, status: int, after: str) -> None:
        """An attempt at a message: taken, received, answered, settled."""
        of = {"turn": "turn_a", "message": message}
        request = f"request {at}"
        self.move(at, "take", "pending", "sending", **of)
        self.records.append(
            Received(
                request, at + 0.1, CRM, message, f"body {message}", True, message, "text/plain"
            )
        )
        self.records.append(Answered(request, at + 0.2, status))
        self.move(at + 0.3, "settle", "sending", after, **of)


def change(things: list[T], n: int, **fields: Any) -> None:
    """Another n-th thing of a list."""
    things[n] = replace(things[n], **fields)  # type: ignore[type-var]


def drop(things: list[Any], which: Callable[[Any], bool]) -> None:
    """All but those."""
    things[:] = [thing for thing in things if not which(thing)]


def find(things: list[Any], kind: type[T], n: int = 0, **fields: Any) -> int:
    """Where the n-th of a kind with these fields is."""
    found = [
        place
        for place, thing in enumerate(things)
        if isinstance(thing, kind)
        and all(getattr(thing, name) == value for name, value in fields.items())
    ]
    return found[n]


def good_run() -> Run:
    """Two turns of a conversation, one of them cancelled, and a third after the last fault."""
    run = Run()
    run.records.append(
        Terms(turn_attempts_max=2, releases_max=2, message_attempts_max=2, wire_is_whole=True)
    )
    _arrive(run)
    run.claim(3.0, "a", 1)
    renewed = {"turn": "turn_a", "token": "token a1"}
    run.call(4.0, "renew", Told("", 0, 200), **renewed)
    run.call(5.0, "release", Told("", 0, 200, "queued"), **renewed)
    run.move(5.1, "release", "processing", "queued", turn="turn_a", attempt=1)
    run.claim(6.0, "a", 2)
    _seal(run)
    run.send(8.0, "msg_1", 503, "pending")
    run.send(9.0, "msg_1", 204, "delivered")
    run.send(10.0, "msg_2", 204, "delivered")
    run.move(10.3, "settle", "sealed", "replied", turn="turn_a")
    run.call(11.0, "cancel", Told("", 0, 200, "cancelled"), turn="turn_b")
    run.move(11.1, "cancel", "queued", "cancelled", turn="turn_b")
    run.records += [
        Healed(12.0, ("api",), ("api",)),
        Vital(13.0, "api", ready=True, pool_in_use=0),
    ]
    _after_the_faults(run)
    return run


def _arrive(run: Run) -> None:
    run.post(1.0, "a", name="a", state="queued", duplicate=False)
    run.post(2.0, "a", name="a", status=200, state="queued", duplicate=True)
    run.post(2.5, "b", name="b", state="waiting", duplicate=False)
    run.post(2.8, "refused", status=422)
    for at, name, lane_seq, state, after, attempt in (
        (1.1, "a", 1, "queued", "replied", 2),
        (2.6, "b", 2, "waiting", "cancelled", 0),
        (13.1, "c", 3, "queued", "replied", 1),
    ):
        turn = f"turn_{name}"
        run.keys.append(KeptKey(SCOPE, name, f"in_{name}", turn))
        run.inbound.append(
            KeptInbound(f"in_{name}", turn, LANE, "application/json", f"body {name}", at)
        )
        used = min(attempt, 1)
        run.turns.append(KeptTurn(turn, "q", LANE, lane_seq, after, attempt, used, at, None, None))
        if name != "c":
            run.move(at, "accept", None, state, turn=turn)


def _seal(run: Run) -> None:
    messages = ("msg_1", "msg_2")
    asked = {
        "turn": "turn_a",
        "token": "token a2",
        "request": "set",
        "bodies_base64": tuple(f"body {message}" for message in messages),
    }
    promises = tuple(Promise(message, message, "pending") for message in messages)
    told = Told("", 0, 200, "sealed", payload_hash="sha256:1", messages=promises)
    run.call(7.0, "seal", told, **asked)
    run.call(7.5, "seal", told, **asked)
    run.move(7.1, "seal", "processing", "sealed", turn="turn_a", attempt=2)
    run.move(7.1, "promote", "waiting", "queued", turn="turn_b")
    for position, message in enumerate(messages):
        run.move(7.1, "seal", None, "pending", turn="turn_a", message=message)
        attempts = 2 - position
        run.messages.append(
            KeptMessage(
                message,
                "turn_a",
                1,
                position,
                "q",
                LANE,
                CRM,
                position + 1,
                False,
                "delivered",
                message,
                f"body {message}",
                "text/plain",
                attempts,
                attempts,
                7.1,
                None,
                None,
            )
        )


def _after_the_faults(run: Run) -> None:
    run.post(13.0, "c", name="c", state="queued", duplicate=False)
    run.move(13.1, "accept", None, "queued", turn="turn_c")
    run.claim(14.0, "c", 1)
    asked = {"turn": "turn_c", "token": "token c1", "request": "empty", "bodies_base64": ()}
    run.call(15.0, "seal", Told("", 0, 200, "replied", payload_hash="sha256:2"), **asked)
    run.move(15.1, "seal", "processing", "replied", turn="turn_c", attempt=1)
