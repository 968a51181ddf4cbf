"""Providers, the clock and agents, zombies among them."""

from collections.abc import Sequence
from typing import Literal

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from app.domain.model import (
    AlreadySealed,
    Claimed,
    DraftFollowUp,
    HandBack,
    HandedBack,
    HoldPlan,
    LeaseLost,
    Renewed,
    Sealed,
)
from tests.engine.held_stories import holding
from tests.engine.stories import Sink, arrival, draft, only, wish
from tests.model import turn_rules as rules
from tests.model.hold_rules import as_kept
from tests.model.policies import JOINING
from tests.model.stage import Crash
from tests.model.story import (
    CONVERSATION,
    CRASH,
    DRAFTS,
    FOLLOW_UPS,
    LONG_SECONDS,
    NTH,
    ORDER,
    PLAN,
    Story,
    chosen,
    few_open,
    some_due,
    some_lapsed,
)


class Agents(Story):
    """What comes in, and what becomes of it until it is sealed."""

    @precondition(few_open)
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

    @precondition(lambda self: some_due(self, "scheduled"))
    @rule(crash=CRASH)
    def due(self, crash: Crash) -> None:
        self.play(rules.due, Sink.due, crash=crash)

    @precondition(lambda self: any(turn.held for turn in rules.scheduled(self.world)))
    @rule()
    def due_after_pause(self) -> None:
        self.play(rules.due_after_pause, Sink.due_after_pause)

    @precondition(lambda self: self.world.requests or some_due(self, "queued"))
    @rule(
        turns_max=st.integers(1, 3),
        request=st.sampled_from((None, None, "request-number-1", "request-number-2")),
        crash=CRASH,
        age=st.sampled_from((None, None, None, 2.0, 30.0)),
    )
    def claim(
        self, turns_max: int, request: str | None, crash: Crash, age: float | None = None
    ) -> None:
        wanted = wish(turns_max, request_id=request, principal="key", input_age_seconds_max=age)
        said, answer = self.play(
            lambda world: rules.claim(world, turns_max, request=request, age=age),
            lambda sink: sink.claim_for(wanted),
            # What is too old ends in a transaction of its own, so that a crash leaves more than all or nothing.
            crash="" if age else crash,
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
        return chosen(nth, now, self.held)

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
    @rule(nth=NTH, drafts=DRAFTS, crash=CRASH, order=ORDER, plan=PLAN, follow_ups=FOLLOW_UPS)
    def seal(
        self,
        nth: int,
        drafts: list[tuple[str, str | None, float]],
        crash: Crash,
        order: Literal["strict"] | None = None,
        plan: HoldPlan | None = None,
        follow_ups: Sequence[DraftFollowUp] = (),
    ) -> None:
        held = self.nth_held(nth)
        messages = [
            draft(str(n), conversation, destination=destination, delay_seconds=delay)
            for n, (destination, conversation, delay) in enumerate(drafts)
        ]
        request = holding(held, *messages, follow_ups=follow_ups, plan=plan, order=order)
        ahead = self.stage.ids.ahead
        minted = [(ahead(n), one) for n, one in enumerate(messages, 1)]
        # The inbound of each has the id before.
        children = [ahead(len(messages) + 2 * n) for n in range(1, len(follow_ups) + 1)]
        said, answer = self.play(
            lambda world: rules.seal(
                world,
                held.turn,
                held.attempt,
                request=request.request_hash,
                drafts=minted,
                strict=order == "strict",
                follow_ups=as_kept(follow_ups, children),
                plan=plan,
            ),
            lambda sink: sink.seal(request),
            crash=crash,
        )
        if answer is None:
            return
        match only(answer):
            case Sealed() as sealed:
                assert said == ("repeated" if sealed.repeated else "sealed")
                number = self.world.turns[held.turn].seals[held.attempt]
                mine = self.world.set_of(held.turn, number)
                assert [(m.id, m.state) for m in sealed.messages] == [(m.id, m.state) for m in mine]
                assert len(sealed.follow_ups) == len(follow_ups)
                assert sealed.state == self.world.turns[held.turn].state
            case AlreadySealed():
                assert said == "already_sealed"
            case LeaseLost():
                assert said == "lease_lost"
            case other:
                raise AssertionError(other)

    @precondition(lambda self: some_due(self, "queued"))
    @rule(drafts=DRAFTS, order=ORDER)
    def reply(
        self,
        drafts: list[tuple[str, str | None, float]],
        order: Literal["strict"] | None = None,
    ) -> None:
        """What an agent does, without a crash in the middle."""
        before = len(self.held)
        self.claim(1, None, "")
        if len(self.held) > before:
            self.seal(1, drafts, "", order, None, ())

    @precondition(lambda self: some_lapsed(self.turns(), self.world.now))
    @rule(crash=CRASH)
    def sweep_turns(self, crash: Crash) -> None:
        self.play(rules.sweep_turns, Sink.sweep_turns, crash=crash)
