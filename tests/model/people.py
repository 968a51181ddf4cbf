"""People who cancel, redrive and resolve whatever there is."""

from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from app.engine import cancel, pause, redrive, resolve
from app.engine.pause import Kind
from tests.engine.stories import only
from tests.model import people_rules as rules
from tests.model.stage import Crash
from tests.model.story import CRASH, NTH, Story

BY = "somebody"
# What is paused of each kind: all that there is.
PAUSED: dict[Kind, str] = {"queue": "default", "source": "api"}


class People(Story):
    """What somebody decides."""

    def nth_turn(self, nth: int) -> UUID:
        turns = sorted(self.world.turns)
        return turns[-1 - nth % len(turns)]

    def nth_message(self, nth: int, *states: str) -> UUID:
        every = sorted(self.world.messages)
        wanted = [id_ for id_ in every if self.world.messages[id_].state in states] or every
        return wanted[-1 - nth % len(wanted)]

    @rule(kind=st.sampled_from(("queue", "source")), crash=CRASH)
    def pause(self, kind: Kind, crash: Crash) -> None:
        self.play(
            lambda world: world.paused.add(kind),
            lambda sink: pause.pause(sink.pool, kind, PAUSED[kind], by=BY),
            crash=crash,
        )

    @precondition(lambda self: self.world.paused)
    @rule(kind=st.sampled_from(("queue", "queue", "source")), crash=CRASH)
    def resume(self, kind: Kind, crash: Crash) -> None:
        self.play(
            lambda world: world.paused.discard(kind),
            lambda sink: pause.resume(sink.pool, kind, PAUSED[kind]),
            crash=crash,
        )

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
