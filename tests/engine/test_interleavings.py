"""Many verbs at once, drawn by a seed and run as they meet: between two rounds everything holds that must, and when all
are let go everything comes to its end.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.domain.breaker import BreakerPolicy
from app.domain.model import Claimed, Slots, Taken
from app.domain.outcome import Answer, Delivered, Outcome, Rejected, RetryLater, Shut, Unknown
from app.engine import settle, take
from app.engine.breaker import recount
from app.engine.pause import pause
from tests.engine.delivering_stories import ending
from tests.engine.invariants import broken
from tests.engine.stories import (
    CRM,
    DELIVERY_POLICY,
    Sink,
    arrival,
    draft,
    returning,
    sealing,
    short,
)
from tests.engine.waiting_stories import parking, telling

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

ROUNDS, AT_ONCE, ROUNDS_MAX = 25, 10, 60
PATIENT = replace(DELIVERY_POLICY, attempts_max=4, breaker=BreakerPolicy(3, 1.0, 4.0))
POLICIES = {CRM: PATIENT, "chat": replace(PATIENT, on_unknown="hold")}
OUTCOMES: list[Outcome] = [
    *[Delivered()] * 5,
    RetryLater("connection_refused"),
    RetryLater("http_429", 2.0, counted=False, answer=Answer(429)),
    RetryLater("http_401", counted=False, answer=Answer(401), shut=Shut.UNAUTHORIZED),
    RetryLater("http_410", counted=False, answer=Answer(410), shut=Shut.GONE),
    Rejected("http_422", answer=Answer(422)),
    Unknown("timeout"),
    Unknown("worker_stopped", ours=True),
]
STOPPED: list[Any] = [("destination", CRM), ("destination", "chat"), ("all", ""), ("source", "api")]


class Crowd:
    """Everybody who calls verbs, and what each has in hand."""

    def __init__(self, sink: Sink, chance: random.Random) -> None:
        self.sink, self.chance = sink, chance
        self.keys = 0
        self.turns: list[UUID] = []
        self.messages: list[UUID] = []
        self.held: list[Claimed] = []
        self.sending: list[Taken] = []
        self.lost: list[Taken] = []

    def some(self, things: list[Any], most: int = 3) -> list[Any]:
        return self.chance.sample(things, min(len(things), self.chance.randint(1, most)))

    def out_of(self, things: list[Any], most: int = 5) -> list[Any]:
        """Some that nobody else has in hand then."""
        chosen = self.some(things, most)
        things[:] = [one for one in things if one not in chosen]
        return chosen

    async def accept(self) -> None:
        make = self.chance.choice([arrival, arrival, short])
        self.keys += 1
        accepted = await self.sink.accept(
            make(f"k{self.keys}", self.chance.choice("abc")),
            arrival(f"and k{self.keys}", self.chance.choice([None, *"abc"])),
        )
        self.turns += [one.turn for one in accepted]

    async def claim(self) -> None:
        self.held += await self.sink.claim(3, input_age_seconds_max=30.0)

    async def seal(self) -> None:
        requests = [
            sealing(
                held,
                *(
                    draft(str(n), self.chance.choice([None, *"abc"]), destination=destination)
                    for n in range(self.chance.randint(0, 3))
                    for destination in self.some(list(POLICIES))
                ),
                order=self.chance.choice([None, "strict"]),
            )
            for held in self.out_of(self.held)
        ]
        for outcome in await self.sink.seal(*requests):
            self.messages += [one.id for one in getattr(outcome, "messages", ())]

    async def give_up(self) -> None:
        await self.sink.release(*(returning(one, failed=True) for one in self.out_of(self.held, 1)))

    async def park(self) -> None:
        for held in self.out_of(self.held, 2):
            await self.sink.park(
                parking(held, self.chance.choice("xy"), seconds=self.chance.choice([0.5, 20.0]))
            )

    async def signal(self) -> None:
        said = [telling(turn, self.chance.choice("xy")) for turn in self.some(self.turns, 9)]
        await self.sink.signal(*said)

    async def take(self) -> None:
        slots = [
            Slots(name, 3, 10.0, hold_unknown=policy.on_unknown == "hold", concurrency_max=5)
            for name, policy in POLICIES.items()
        ]
        self.sending += (await take.take(self.sink.pool, slots)).messages

    async def settle(self) -> None:
        outcomes = self.chance.choice([OUTCOMES, OUTCOMES[5:]])
        ended = [(one, self.chance.choice(outcomes)) for one in self.out_of(self.sending)]
        async with asyncio.TaskGroup() as group:
            # Together, or each by a worker of its own.
            for batch in self.chance.choice([[ended], [[one] for one in ended]]):
                group.create_task(self.end(batch))

    async def end(self, ended: list[tuple[Taken, Outcome]]) -> None:
        settlements = [ending(one, outcome, POLICIES[one.destination]) for one, outcome in ended]
        settled = await settle.settle(self.sink.pool, settlements, policies=POLICIES)
        self.lost += [one for (one, _), done in zip(ended, settled, strict=True) if not done.held]

    async def die(self) -> None:
        self.lost += self.out_of(self.sending, 1)

    async def tell(self) -> None:
        await self.sink.tell(*self.out_of(self.lost))

    async def sweep(self) -> None:
        await self.sink.sweep_turns()
        await self.sink.sweep_messages()
        await self.sink.due_after_pause(3)
        await self.sink.wake_parked(3)

    async def intervene(self) -> None:
        await self.sink.cancel(*self.some(self.turns))
        await self.sink.cancel_messages(*self.some(self.messages))
        await self.sink.redrive(*self.some(self.turns, 9))
        await self.sink.redrive_messages(*self.some(self.messages, 9))
        await self.sink.resolve(*self.some(self.messages, 9), state="cancelled")

    async def stop(self) -> None:
        # It may be let go at the same moment.
        await pause(self.sink.pool, *self.chance.choice(STOPPED), by="ada")

    async def let_go(self) -> None:
        for kind, name in self.some(STOPPED):
            await self.sink.resume(kind, name)

    async def count(self) -> None:
        assert await recount(self.sink.pool) == []

    def drawn(self) -> Callable[[], Coroutine[Any, Any, None]]:
        often = [self.accept, self.claim, self.seal, self.take, self.settle]
        seldom = [
            self.give_up, self.die, self.tell, self.sweep, self.intervene, self.stop, self.let_go, self.let_go,
            self.count, self.park, self.park, self.signal,
        ]  # fmt: skip
        return self.chance.choice([*often * 5, *seldom])


@pytest.mark.parametrize("seed", range(4))
async def test_verbs_that_meet_break_nothing_and_leave_nothing_behind(
    sink: Sink, admin: "Admin", travel: "Travel", seed: int
) -> None:
    crowd = Crowd(replace(sink, delivery_policies=POLICIES), random.Random(seed))
    for _ in range(ROUNDS):
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(crowd.drawn()())
        assert await broken(admin) == {}
        await travel(crowd.chance.choice([0, 0, 1, 3, 11]))
    for kind, name in STOPPED:
        await sink.resume(kind, name)
    left: list[Any] = []
    for _ in range(ROUNDS_MAX):
        await travel(61)
        await crowd.sweep()
        await crowd.claim()
        await crowd.seal()
        await crowd.take()
        await crowd.end([(one, Delivered()) for one in crowd.out_of(crowd.sending, 99)])
        left = await admin.fetch(
            "select id from sink.turn where state not in ('replied', 'undelivered', 'failed', 'cancelled')"
        )
        if not left:
            break
    assert left == []
    database = "select deadlocks from pg_stat_database where datname = current_database()"
    assert await admin.fetchval(database) == 0
