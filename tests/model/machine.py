"""The lifecycle as a state machine: agents, workers, sweeps, people, crashes, zombies and the clock in any order.

Each step is played by the real engine and by the model, whose answers and rows must be the same. In the end everything
that can move by itself must come to rest.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from app.domain.lifecycle import TURN_ENDED
from app.domain.model import (
    AlreadySealed,
    Claimed,
    HandBack,
    HandedBack,
    Joining,
    LeaseLost,
    Renewed,
    Sealed,
    Slots,
    Taken,
)
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Unknown
from app.domain.retry import after_attempt
from app.engine import cancel, redrive, resolve, take
from tests.engine.stories import Sink, arrival, draft, only, sealing, wish
from tests.model import rules
from tests.model.stage import Crash, Stage, differences, foreseen
from tests.model.world import Message, Turn, World

T = TypeVar("T")
P = TypeVar("P")

ROUNDS_MAX = 60
OPEN_MAX = 5
LONG_SECONDS = 61
JOINING = Joining(
    quiet_seconds=rules.QUIET_SECONDS,
    seconds_max=rules.QUIET_SECONDS_MAX,
    inbound_max=rules.INBOUND_MAX,
    bytes_max=1 << 20,
)
BY = "somebody"

CRASH: st.SearchStrategy[Crash] = st.sampled_from((*("",) * 8, "before", "after"))
NTH = st.integers(0, 15)
CONVERSATION = st.sampled_from(("a", "a", "a", "b", None))
DESTINATION = st.sampled_from((rules.CRM, rules.CRM, rules.MAIL))
OUTCOME: st.SearchStrategy[Outcome] = st.sampled_from(
    (
        Delivered("r"),
        RetryLater("busy"),
        RetryLater("asked", 20.0, counted=False),
        Rejected("no"),
        Unknown("timeout"),
    )
)
DRAFT = st.tuples(DESTINATION, CONVERSATION, st.sampled_from((0.0, 0.0, 0.0, 3.0)))
DRAFTS: st.SearchStrategy[list[tuple[str, str | None, float]]] = st.one_of(
    st.lists(DRAFT, max_size=4),
    st.lists(st.just((rules.CRM, "a", 0.0)), min_size=2, max_size=4),
    st.lists(
        st.sampled_from(((rules.CRM, "a", 0.0), (rules.MAIL, "a", 0.0))), min_size=3, max_size=4
    ),
)


def _chosen(nth: int, wanted: Sequence[T], every: Sequence[T]) -> T:
    """The n-th last, twice as often a wanted one as any."""
    among = wanted if wanted and nth % 3 else every
    return among[-1 - nth // 3 % len(among)]


def _few_open(self: "Machine") -> bool:
    return sum(turn.state not in TURN_ENDED for turn in self.turns()) < OPEN_MAX


def _some_due(self: "Machine", *states: str) -> bool:
    return any(t.state in states and t.due <= self.world.now for t in self.turns())


def _some_to_send(self: "Machine") -> bool:
    return any(
        m.state == "pending" and m.by is None and m.due <= self.world.now
        for m in self.world.messages.values()
    )


def _some_lapsed(things: Iterable[Turn] | Iterable[Message], now: float) -> bool:
    return any(one.lease_until is not None and one.lease_until <= now for one in things)


class Machine(RuleBasedStateMachine):
    """One example: a story of one queue from an empty database to rest."""

    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.stage.clear()
        self.world = World()
        self.keys: list[str] = []
        self.held: list[Claimed] = []
        self.taken: list[Taken] = []
        self.sound = True

    def play(
        self,
        model: Callable[[World], P],
        verb: Callable[[Sink], Awaitable[T]],
        *,
        crash: Crash = "",
    ) -> tuple[P, T | None]:
        """One step of both: what the model says, and what the engine says unless its connection was lost."""
        self.sound = False
        after = self.world.copied()
        said = model(after)
        answer, came = self.stage.call(verb, crash=crash)
        if came or crash == "after":
            self.world = after
        wrong = differences(self.stage.rows(), foreseen(self.world)) + self.stage.broken()
        assert not wrong, "\n".join(wrong)
        self.sound = True
        return said, answer

    @initialize(keys=st.integers(0, 3), drafts=DRAFTS)
    def begin(self, keys: int, drafts: list[tuple[str, str | None, float]]) -> None:
        """Not every story is told from its first word."""
        if keys:
            self.accept(keys, "a", 0, "now", None, "")
            self.reply(drafts)

    # ---- providers and time

    @precondition(_few_open)
    @rule(
        count=st.sampled_from((1, 1, 2, 3)),
        conversation=CONVERSATION,
        priority=st.sampled_from((0, 0, 1)),
        how=st.sampled_from(("now", "now", "joining", "joining", "joining", "later")),
        again=st.none() | NTH,
        crash=CRASH,
    )
    def accept(
        self,
        count: int,
        conversation: str | None,
        priority: int,
        how: str,
        again: int | None,
        crash: Crash,
    ) -> None:
        joins = how == "joining" and conversation is not None
        delay = 5.0 if how == "later" else 0.0
        keys = [f"k{len(self.keys) + n}" for n in range(count)]
        self.keys += keys
        if again is not None:
            keys[0] = self.keys[again % len(self.keys)]
        minted = [self.stage.ids.ahead(2 * n + 2) for n in range(count)]
        arrivals = [
            arrival(
                key,
                conversation,
                priority=priority,
                delay_seconds=delay,
                joining=JOINING if joins else None,
            )
            for key in dict.fromkeys(keys)
        ]
        pairs = list(zip([one.key for one in arrivals], minted, strict=False))
        said, answer = self.play(
            lambda world: rules.accept(
                world,
                pairs,
                conversation=conversation,
                priority=priority,
                delay=delay,
                joins=joins,
            ),
            lambda sink: sink.accept(*arrivals),
            crash=crash,
        )
        if answer is not None:
            assert [one.turn for one in answer] == said
            assert [one.state for one in answer] == [self.world.turns[id_].state for id_ in said]

    @rule(seconds=st.sampled_from((1, 3, 3, 8, 31, LONG_SECONDS)))
    def move(self, seconds: int) -> None:
        self.stage.move(seconds)
        self.world.now += seconds

    @precondition(lambda self: _some_due(self, "scheduled"))
    @rule(crash=CRASH)
    def due(self, crash: Crash) -> None:
        self.play(rules.due, Sink.due, crash=crash)

    # ---- agents

    @precondition(lambda self: self.world.requests or _some_due(self, "queued"))
    @rule(
        turns_max=st.integers(1, 3),
        request=st.sampled_from((None, None, "request-number-1", "request-number-2")),
        crash=CRASH,
    )
    def claim(self, turns_max: int, request: str | None, crash: Crash) -> None:
        wanted = wish(turns_max, request_id=request, principal="key")
        said, answer = self.play(
            lambda world: rules.claim(world, turns_max, request=request),
            lambda sink: sink.claim_for(wanted),
            crash=crash,
        )
        if answer is not None:
            claimed = answer[0] or []
            assert [one.turn for one in claimed] == said
            tokens = self.stage.tokens()
            for one in claimed:
                assert tokens[one.token] == (one.turn, one.attempt)
                assert len(one.inbound) == self.world.turns[one.turn].inbound
                self.held.append(one)

    def nth_held(self, nth: int) -> Claimed:
        """A token that was given to somebody. In one of three cases it is anybody's, who may be a zombie."""
        now = [one for one in self.held if rules.holds(self.world, one.turn, one.attempt)]
        return _chosen(nth, now, self.held)

    @precondition(lambda self: self.held)
    @rule(nth=NTH, crash=CRASH)
    def renew(self, nth: int, crash: Crash) -> None:
        held = self.nth_held(nth)
        said, answer = self.play(
            lambda world: rules.renew(world, held.turn, held.attempt),
            lambda sink: sink.renew(held),
            crash=crash,
        )
        if answer is not None:
            wanted = LeaseLost if said is None else Renewed
            assert isinstance(only(answer), wanted)
            assert said is None or only(answer).newer_inbound == said

    @precondition(lambda self: self.held)
    @rule(
        nth=NTH,
        how=st.sampled_from(("release", "fail", "final")),
        delay=st.sampled_from((0.0, 3.0)),
        crash=CRASH,
    )
    def hand_back(self, nth: int, how: str, delay: float, crash: Crash) -> None:
        held = self.nth_held(nth)
        item = HandBack(held.turn, held.token, "busy", delay, how == "fail", how == "final")
        said, answer = self.play(
            lambda world: rules.hand_back(world, held.turn, held.attempt, how=how, delay=delay),
            lambda sink: sink.release(item),
            crash=crash,
        )
        if answer is not None:
            assert answer == [HandedBack(said)] if said else isinstance(only(answer), LeaseLost)

    @precondition(lambda self: self.held)
    @rule(nth=NTH, drafts=DRAFTS, crash=CRASH)
    def seal(self, nth: int, drafts: list[tuple[str, str | None, float]], crash: Crash) -> None:
        held = self.nth_held(nth)
        request = sealing(
            held,
            *(
                draft(str(n), conversation, destination=destination, delay_seconds=delay)
                for n, (destination, conversation, delay) in enumerate(drafts)
            ),
        )
        minted = [(self.stage.ids.ahead(n), *one) for n, one in enumerate(drafts, 1)]
        said, answer = self.play(
            lambda world: rules.seal(
                world, held.turn, held.attempt, request=request.request_hash, drafts=minted
            ),
            lambda sink: sink.seal(request),
            crash=crash,
        )
        if answer is None:
            return
        match only(answer):
            case Sealed() as sealed:
                assert said == ("repeated" if sealed.repeated else "sealed")
                mine = self.world.set_of(held.turn)
                assert [(m.id, m.state) for m in sealed.messages] == [(m.id, m.state) for m in mine]
                assert sealed.state == self.world.turns[held.turn].state
            case AlreadySealed():
                assert said == "already_sealed"
            case LeaseLost():
                assert said == "lease_lost"
            case other:
                raise AssertionError(other)

    @precondition(lambda self: _some_due(self, "queued"))
    @rule(drafts=DRAFTS)
    def reply(self, drafts: list[tuple[str, str | None, float]]) -> None:
        """What an agent does, without a crash in the middle."""
        before = len(self.held)
        self.claim(1, None, "")
        if len(self.held) > before:
            self.seal(1, drafts, "")

    # ---- workers

    @precondition(_some_to_send)
    @rule(destination=DESTINATION, count=st.integers(1, 3), crash=CRASH)
    def take(self, destination: str, count: int, crash: Crash) -> None:
        slots = [Slots(destination, count, rules.DELIVERY_SECONDS)]
        said, answer = self.play(
            lambda world: rules.take(world, destination, count),
            lambda sink: take.take(sink.pool, slots),
            crash=crash,
        )
        if answer is not None:
            assert sorted(one.message for one in answer) == sorted(said)
            self.taken += answer

    @precondition(_some_to_send)
    @rule(destination=DESTINATION, outcome=OUTCOME)
    def send(self, destination: str, outcome: Outcome) -> None:
        """What a worker does, without a crash in the middle."""
        before = len(self.taken)
        self.take(destination, 1, "")
        if len(self.taken) > before:
            self.settle(1, outcome, "")

    def nth_taken(self, nth: int) -> Taken:
        """An attempt that was given to some worker. In one of three cases it is anybody's, who may be late."""
        now = [one for one in self.taken if rules.sends(self.world, one.message, one.attempt)]
        return _chosen(nth, now, self.taken)

    @precondition(lambda self: self.taken)
    @rule(nth=NTH, outcome=OUTCOME, crash=CRASH)
    def settle(self, nth: int, outcome: Outcome, crash: Crash) -> None:
        one = self.nth_taken(nth)
        verdict = after_attempt(
            outcome,
            attempts_used=one.attempts_used,
            may_have_arrived=one.may_have_arrived,
            age_seconds=one.age_seconds,
            policy=rules.DELIVERY_POLICIES[one.destination],
            jitter=0.0,
        )
        said, answer = self.play(
            lambda world: rules.settle(world, one.message, one.attempt, verdict),
            lambda sink: sink.settle((one, verdict)),
            crash=crash,
        )
        assert answer is None or answer == [said]

    @precondition(lambda self: self.taken)
    @rule(nth=NTH, crash=CRASH)
    def tell(self, nth: int, crash: Crash) -> None:
        one = self.nth_taken(nth)
        said, answer = self.play(
            lambda world: rules.tell(world, one.message),
            lambda sink: sink.tell(one),
            crash=crash,
        )
        assert answer is None or answer == ({one.message} if said else set())

    @precondition(lambda self: _some_lapsed(self.turns(), self.world.now))
    @rule(crash=CRASH)
    def sweep_turns(self, crash: Crash) -> None:
        self.play(rules.sweep_turns, Sink.sweep_turns, crash=crash)

    @precondition(lambda self: _some_lapsed(self.world.messages.values(), self.world.now))
    @rule(crash=CRASH)
    def sweep_messages(self, crash: Crash) -> None:
        self.play(rules.sweep_messages, Sink.sweep_messages, crash=crash)

    # ---- people

    def nth_turn(self, nth: int) -> UUID:
        turns = sorted(self.world.turns)
        return turns[-1 - nth % len(turns)]

    def nth_message(self, nth: int, *states: str) -> UUID:
        every = sorted(self.world.messages)
        wanted = [id_ for id_ in every if self.world.messages[id_].state in states] or every
        return wanted[-1 - nth % len(wanted)]

    @precondition(lambda self: len(self.world.turns) > 2)
    @rule(nth=NTH, crash=CRASH)
    def cancel_turn(self, nth: int, crash: Crash) -> None:
        turn = self.nth_turn(nth)
        said, answer = self.play(
            lambda world: rules.cancel_turn(world, turn),
            lambda sink: cancel.cancel_turns(sink.pool, [turn], by=BY),
            crash=crash,
        )
        assert answer is None or only(answer).state == said

    @precondition(lambda self: any(t.state in ("failed", "undelivered") for t in self.turns()))
    @rule(nth=NTH, crash=CRASH)
    def redrive_turn(self, nth: int, crash: Crash) -> None:
        ended = sorted(t.id for t in self.turns() if t.state in ("failed", "undelivered"))
        turn = ended[nth % len(ended)]
        said, answer = self.play(
            lambda world: rules.redrive_turn(world, turn),
            lambda sink: redrive.redrive_turns(sink.pool, [turn], by=BY),
            crash=crash,
        )
        assert answer is None or only(answer).state == said

    @precondition(lambda self: self.world.messages)
    @rule(nth=NTH, other=NTH, crash=CRASH)
    def cancel_messages(self, nth: int, other: int, crash: Crash) -> None:
        states = ("pending", "sending", "dead", "unknown")
        them = list({self.nth_message(n, *states): n for n in (nth, other)})
        said, answer = self.play(
            lambda world: rules.cancel_messages(world, them),
            lambda sink: cancel.cancel_messages(sink.pool, them, by=BY),
            crash=crash,
        )
        assert answer is None or [getattr(one, "state", None) for one in answer] == said

    @precondition(lambda self: self.any_message("sending"))
    @rule(nth=NTH, crash=CRASH)
    def cancel_while_sending(self, nth: int, crash: Crash) -> None:
        message = self.nth_message(nth, "sending")
        self.play(
            lambda world: rules.cancel_messages(world, [message]),
            lambda sink: cancel.cancel_messages(sink.pool, [message], by=BY),
            crash=crash,
        )

    @precondition(lambda self: self.any_message("dead", "unknown"))
    @rule(nth=NTH, other=NTH, crash=CRASH)
    def redrive_messages(self, nth: int, other: int, crash: Crash) -> None:
        them = list({self.nth_message(n, "dead", "unknown"): n for n in (nth, other)})
        said, answer = self.play(
            lambda world: rules.redrive_messages(world, them),
            lambda sink: redrive.redrive_messages(sink.pool, them, by=BY),
            crash=crash,
        )
        assert answer is None or [getattr(one, "state", None) for one in answer] == said

    @precondition(lambda self: self.any_message("unknown"))
    @rule(nth=NTH, state=st.sampled_from(("delivered", "cancelled")), crash=CRASH)
    def resolve(self, nth: int, state: Any, crash: Crash) -> None:
        message = self.nth_message(nth, "unknown")
        said, answer = self.play(
            lambda world: rules.resolve(world, message, state),
            lambda sink: resolve.resolve_messages(sink.pool, [message], state=state, by=BY),
            crash=crash,
        )
        assert answer is None or only(answer).state == said

    def any_message(self, *states: str) -> bool:
        return any(message.state in states for message in self.world.messages.values())

    def turns(self) -> list[Turn]:
        return list(self.world.turns.values())

    # ---- the end

    def teardown(self) -> None:
        """Agents and workers do their work, sweeps sweep, time goes on: nothing may stay behind."""
        if not self.sound:
            return
        for _ in range(ROUNDS_MAX):
            if all(turn.state in TURN_ENDED for turn in self.turns()):
                return
            self.due("")
            self.sweep_turns("")
            self.sweep_messages("")
            before = len(self.held), len(self.taken)
            self.claim(3, None, "")
            for _ in range(len(self.held) - before[0]):
                self.seal(1, [(rules.CRM, "a", 0.0)], "")
            for destination in (rules.CRM, rules.MAIL):
                self.take(destination, 50, "")
            for _ in range(len(self.taken) - before[1]):
                self.settle(1, Delivered("r"), "")
            if before == (len(self.held), len(self.taken)):
                self.move(LONG_SECONDS)
        message = f"these turns do not come to rest: {self.turns()}"
        raise AssertionError(message)
