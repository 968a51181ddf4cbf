"""The lifecycle as a state machine: agents, workers, sweeps, people, crashes, zombies and the clock in any order.

Each step is played by the real engine and by the model, whose answers and rows must be the same. In the end everything
that can move by itself must come to rest.
"""

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from app.domain.lifecycle import TURN_ENDED
from app.domain.model import HoldPlan
from app.domain.outcome import Delivered
from tests.model.policies import CRM, DELIVERY_POLICIES
from tests.model.story import DRAFTS, HELD_PLAN, LONG_SECONDS
from tests.model.waiting import Waiting
from tests.model.workers import Workers

ROUNDS_MAX = 60


class Machine(Waiting, Workers):
    """Everybody, in one queue."""

    @initialize(
        keys=st.integers(0, 3),
        drafts=DRAFTS,
        how=st.sampled_from(("draft", "wait", "reply")),
        plan=HELD_PLAN,
        early=st.booleans(),
    )
    def begin(
        self,
        keys: int,
        drafts: list[tuple[str, str | None, float]],
        how: str,
        plan: HoldPlan,
        early: bool,
    ) -> None:
        """Not every story is told from its first word."""
        if keys:
            self.accept(keys, "a", 0, "now", None, "")
            match how:
                case "draft":
                    self.draft_for_a_person(drafts, None, plan, ())
                case "wait":
                    self.wait_for_an_event("paid", 30.0, None, early)
                case _:
                    self.reply(drafts)

    def teardown(self) -> None:
        """Agents and workers do their work, sweeps sweep, time goes on: nothing may stay behind."""
        if not self.sound:
            return
        self.resume("queue", "")
        self.resume("source", "")
        for _ in range(ROUNDS_MAX):
            if all(turn.state in TURN_ENDED for turn in self.turns()):
                return
            self.due("")
            self.due_after_pause()
            self.sweep_turns("")
            self.sweep_messages("")
            self.wake_parked("")
            self.expire("")
            for turn in self.turns():
                if turn.state in ("held", "escalated"):
                    self.approve(turn.id)
            before = len(self.held), len(self.taken)
            self.claim(3, None, "")
            for _ in range(len(self.held) - before[0]):
                self.seal(1, [(CRM, "a", 0.0)], "")
            for destination in DELIVERY_POLICIES:
                self.take(destination, 50, "")
            for _ in range(len(self.taken) - before[1]):
                self.settle(1, Delivered("r"), "")
            if before == (len(self.held), len(self.taken)):
                self.move(LONG_SECONDS)
        message = f"these turns do not come to rest: {self.turns()}"
        raise AssertionError(message)
