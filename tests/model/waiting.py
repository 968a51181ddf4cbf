"""Those who wait and those who are waited for: agents that park, events, approvers from any page, and deadlines."""

from typing import Any, Literal
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from app.domain.lifecycle import TURN_ENDED
from app.domain.model import (
    AlreadyDecided,
    AlreadySignalled,
    AskedOtherwise,
    Decided,
    LeaseLost,
    NotHeld,
    Parked,
    PayloadChanged,
    PersonNeeded,
    RevisionsExhausted,
    Signal,
    Signalled,
    TurnEnded,
)
from tests.engine.held_stories import decide, deciding, expire
from tests.engine.stories import Sink, draft, only
from tests.engine.waiting_stories import parking, telling
from tests.model import hold_rules, waiting_rules
from tests.model.agents import Agents
from tests.model.people import People
from tests.model.stage import Crash
from tests.model.story import CRASH, DRAFTS, FOLLOW_UPS, HELD_PLAN, NTH, ORDER, some_due

QUESTION = "sha256:question"
NAME = st.sampled_from(("paid", "paid", "seen"))
SECONDS = st.sampled_from((5.0, 30.0))
ASKS = st.sampled_from((None, None, QUESTION))
DECISION: st.SearchStrategy[Literal["approve", "reject", "revise"]] = st.sampled_from(
    ("approve", "approve", "revise", "reject")
)
SAID: dict[type, str] = {
    AlreadyDecided: "already",
    PayloadChanged: "changed",
    NotHeld: "not_held",
    RevisionsExhausted: "exhausted",
}
HEARD: dict[type, str] = {
    AlreadySignalled: "already",
    PersonNeeded: "person",
    AskedOtherwise: "otherwise",
    TurnEnded: "ended",
}


class Waiting(Agents, People):
    """What waits, and what ends it."""

    def some(self, *states: str) -> bool:
        return any(turn.state in states for turn in self.turns())

    @precondition(lambda self: some_due(self, "queued"))
    @rule(drafts=DRAFTS, order=ORDER, plan=HELD_PLAN, follow_ups=FOLLOW_UPS)
    def draft_for_a_person(self, drafts: Any, order: Any, plan: Any, follow_ups: Any) -> None:
        """What an agent does whose queue holds every set."""
        before = len(self.held)
        self.claim(1, None, "")
        if len(self.held) > before:
            self.seal(1, drafts, "", order, plan, follow_ups)

    @precondition(lambda self: some_due(self, "queued"))
    @rule(name=NAME, seconds=SECONDS, asks=ASKS, early=st.booleans())
    def wait_for_an_event(self, name: str, seconds: float, asks: str | None, early: bool) -> None:
        """What an agent does that needs something from outside, which may have come already."""
        before = len(self.held)
        self.claim(1, None, "")
        if len(self.held) > before:
            if early:
                self.tell_turn(self.held[-1].turn, telling(self.held[-1].turn, name), "")
            self.park(1, name, seconds, asks, "")

    @precondition(lambda self: self.some("held", "escalated"))
    @rule(nth=NTH, decision=DECISION, crash=CRASH)
    def decide_what_waits(self, nth: int, decision: Any, crash: Crash) -> None:
        """Somebody decides from the right page."""
        self.decide(3 * nth + 1, 1, decision, None, crash)

    @precondition(lambda self: self.world.holds)
    @rule(nth=NTH, page=NTH, decision=DECISION, edited=st.none() | st.none() | DRAFTS, crash=CRASH)
    def decide(self, nth: int, page: int, decision: Any, edited: Any, crash: Crash) -> None:
        """Somebody decides from some page: mostly about what waits, and mostly from its page."""
        waiting = sorted(t.id for t in self.turns() if t.state in hold_rules.WAITS)
        among = waiting if waiting and nth % 3 else sorted(self.world.holds)
        among = among if nth else sorted(self.world.turns)
        turn = among[nth % len(among)]
        holds = self.world.holds.get(turn, [])
        hashes = [one.hash for one in holds] + [one.new_hash for one in holds if one.new_hash]
        shown = (
            hashes[-1]
            if hashes and page % 4
            else ([*hashes, "sha256:stale"])[page % (len(hashes) + 1)]
        )
        drafts = None
        if decision == "approve" and edited is not None:
            drafts = [
                draft(str(n), lane, destination=destination, delay_seconds=delay)
                for n, (destination, lane, delay) in enumerate(edited)
            ]
        wanted = deciding(turn, shown, decision, edited=drafts)
        minted = None
        if drafts is not None:
            minted = [(self.stage.ids.ahead(n), one) for n, one in enumerate(drafts, 1)]
        said, answer = self.play(
            lambda world: hold_rules.decide(
                world, turn, shown, decision, request=wanted.request_hash, edited=minted
            ),
            lambda sink: decide(sink, wanted),
            crash=crash,
        )
        if answer is None:
            return
        outcome = only(answer)
        if isinstance(outcome, Decided):
            assert said == outcome.hold.decision
            assert outcome.state == self.world.turns[turn].state
            mine = self.world.set_of(turn, outcome.seal + (said == "edit"))
            assert [(m.id, m.state) for m in outcome.messages] == [(m.id, m.state) for m in mine]
        else:
            assert SAID[type(outcome)] == said

    @precondition(lambda self: self.some("held", "escalated"))
    @rule(seconds=st.sampled_from((8, 31, 61)), crash=CRASH)
    def nobody_decides(self, seconds: int, crash: Crash) -> None:
        """Time goes by, and a sweep looks what is over."""
        self.move(seconds)
        self.expire(crash)

    @precondition(lambda self: self.some("held", "escalated"))
    @rule(crash=CRASH)
    def expire(self, crash: Crash) -> None:
        # What is sent and what is not are transactions of their own, so that a crash may leave one of them done.
        sends = any(
            one.on_deadline == "send" for holds in self.world.holds.values() for one in holds
        )
        self.play(hold_rules.expire, expire, crash="" if sends else crash)

    @precondition(lambda self: self.held)
    @rule(
        nth=NTH,
        name=NAME,
        seconds=SECONDS,
        asks=ASKS,
        crash=CRASH,
    )
    def park(self, nth: int, name: str, seconds: float, asks: str | None, crash: Crash) -> None:
        held = self.nth_held(nth)
        said, answer = self.play(
            lambda world: waiting_rules.park(
                world, held.turn, held.attempt, name=name, seconds=seconds, asks=asks
            ),
            lambda sink: sink.park(parking(held, name, seconds=seconds, payload_hash=asks)),
            crash=crash,
        )
        if answer is None:
            return
        outcome = only(answer)
        if said is None:
            assert isinstance(outcome, LeaseLost)
        else:
            assert isinstance(outcome, Parked)
            assert outcome.state == said

    @precondition(lambda self: self.some("parked", "processing", "held"))
    @rule(
        nth=NTH,
        name=NAME,
        text=st.sampled_from(('"yes"', '"yes"', '"no"')),
        decides=st.booleans(),
        about=st.sampled_from((None, QUESTION)),
        crash=CRASH,
    )
    def signal(
        self, nth: int, name: str, text: str, decides: bool, about: str | None, crash: Crash
    ) -> None:
        open_ = sorted(t.id for t in self.turns() if t.state not in TURN_ENDED)
        among = open_ if open_ and nth % 4 else sorted(self.world.turns)
        turn = among[-1 - nth % len(among)]
        self.tell_turn(
            turn, telling(turn, name, text, may_decide=decides, payload_hash=about), crash
        )

    def tell_turn(self, turn: UUID, one: Signal, crash: Crash) -> None:
        """Tell a turn something."""
        said, answer = self.play(
            lambda world: waiting_rules.signal(world, turn, one),
            lambda sink: sink.signal(one),
            crash=crash,
        )
        if answer is None:
            return
        outcome = only(answer)
        if isinstance(outcome, Signalled):
            assert said == ("duplicate" if outcome.duplicate else "kept")
            assert outcome.state == self.world.turns[turn].state
        else:
            assert HEARD[type(outcome)] == said

    @precondition(lambda self: self.some("parked"))
    @rule(crash=CRASH)
    def wake_parked(self, crash: Crash) -> None:
        self.play(waiting_rules.wake_parked, Sink.wake_parked, crash=crash)

    def approve(self, turn: UUID) -> None:
        """A person lets go what waits, from the right page."""
        wanted = deciding(turn, self.world.holds[turn][-1].hash)
        self.play(
            lambda world: hold_rules.decide(
                world, turn, wanted.payload_hash, "approve", request=wanted.request_hash
            ),
            lambda sink: decide(sink, wanted),
        )
