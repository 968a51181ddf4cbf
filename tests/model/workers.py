"""Delivery workers, those that come late among them."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from app.domain.model import Slots, Taken
from app.domain.outcome import Outcome
from app.domain.retry import after_attempt
from app.engine import take
from tests.engine.stories import Sink
from tests.model import message_rules as rules
from tests.model.policies import DELIVERY_POLICIES, DELIVERY_SECONDS, HELD
from tests.model.stage import Crash
from tests.model.story import (
    CRASH,
    DESTINATION,
    NTH,
    OUTCOME,
    Story,
    chosen,
    some_lapsed,
    some_to_send,
)


class Workers(Story):
    """What becomes of messages."""

    @precondition(some_to_send)
    @rule(destination=DESTINATION, count=st.integers(1, 3), crash=CRASH)
    def take(self, destination: str, count: int, crash: Crash) -> None:
        holds = destination == HELD
        slots = [Slots(destination, count, DELIVERY_SECONDS, hold_unknown=holds)]
        said, answer = self.play(
            lambda world: rules.take(world, destination, count),
            lambda sink: take.take(sink.pool, slots),
            crash=crash,
        )
        if answer is not None:
            assert sorted(one.message for one in answer.messages) == sorted(said)
            self.taken += answer.messages

    @precondition(some_to_send)
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
        return chosen(nth, now, self.taken)

    @precondition(lambda self: self.taken)
    @rule(nth=NTH, outcome=OUTCOME, crash=CRASH)
    def settle(self, nth: int, outcome: Outcome, crash: Crash) -> None:
        one = self.nth_taken(nth)
        verdict = after_attempt(
            outcome,
            attempts_used=one.attempts_used,
            may_have_arrived=one.may_have_arrived,
            age_seconds=one.age_seconds,
            policy=DELIVERY_POLICIES[one.destination],
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

    @precondition(lambda self: some_lapsed(self.world.messages.values(), self.world.now))
    @rule(crash=CRASH)
    def sweep_messages(self, crash: Crash) -> None:
        self.play(rules.sweep_messages, Sink.sweep_messages, crash=crash)
