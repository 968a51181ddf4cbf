"""What the rules of the machine share: what they draw from, when they are worth it, and how a step is played."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from app.domain.lifecycle import TURN_ENDED
from app.domain.model import Claimed, DraftFollowUp, HoldPlan, Taken
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Unknown
from tests.engine.held_stories import later
from tests.engine.stories import Sink
from tests.model.policies import CRM, HELD, MAIL
from tests.model.stage import Crash, Stage, differences, foreseen
from tests.model.world import Message, Turn, World

T = TypeVar("T")
P = TypeVar("P")

OPEN_MAX = 5
LONG_SECONDS = 61

CRASH: st.SearchStrategy[Crash] = st.sampled_from((*("",) * 8, "before", "after"))
NTH = st.integers(0, 15)
CONVERSATION = st.sampled_from(("a", "a", "a", "b", None))
DESTINATION = st.sampled_from((CRM, CRM, MAIL, HELD))
ORDER: st.SearchStrategy[Literal["strict"] | None] = st.sampled_from((None, "strict"))
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
    st.lists(st.just((CRM, "a", 0.0)), min_size=2, max_size=4),
    st.lists(
        st.sampled_from(((CRM, "a", 0.0), (MAIL, "a", 0.0), (HELD, "a", 0.0))),
        min_size=3,
        max_size=4,
    ),
)
# Deadlines of a few seconds, so that they come between other things.
HELD_PLAN = st.builds(
    HoldPlan,
    st.just("queue"),
    st.sampled_from((5.0, 30.0)),
    st.sampled_from(("escalate", "escalate", "cancel", "send")),
    st.sampled_from((True, True, False)),
)
PLAN: st.SearchStrategy[HoldPlan | None] = st.none() | HELD_PLAN
FOLLOW_UPS: st.SearchStrategy[Sequence[DraftFollowUp]] = st.one_of(
    st.just(()),
    st.just(()),
    st.lists(
        st.builds(
            lambda conversation, delay, key: later(
                "later", conversation, delay_seconds=delay, key=key
            ),
            st.sampled_from(("a", "b", None)),
            st.sampled_from((0.0, 3.0)),
            st.sampled_from((None, None, "k1", "k2")),
        ),
        max_size=2,
    ),
)


def chosen(nth: int, wanted: Sequence[T], every: Sequence[T]) -> T:
    """The n-th last, twice as often a wanted one as any."""
    among = wanted if wanted and nth % 3 else every
    return among[-1 - nth // 3 % len(among)]


def few_open(self: "Story") -> bool:
    return sum(turn.state not in TURN_ENDED for turn in self.turns()) < OPEN_MAX


def some_due(self: "Story", *states: str) -> bool:
    return any(t.state in states and t.due <= self.world.now for t in self.turns())


def some_to_send(self: "Story") -> bool:
    return any(
        m.state == "pending" and m.by is None and m.due <= self.world.now
        for m in self.world.messages.values()
    )


def some_lapsed(things: Iterable[Turn] | Iterable[Message], now: float) -> bool:
    return any(one.lease_until is not None and one.lease_until <= now for one in things)


class Story(RuleBasedStateMachine):
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

    def any_message(self, *states: str) -> bool:
        return any(message.state in states for message in self.world.messages.values())

    def turns(self) -> list[Turn]:
        return list(self.world.turns.values())
