"""Whatever happened, and whenever: exactly what ended long enough ago goes, and all of it."""

import random
from typing import TYPE_CHECKING, Literal
from uuid import UUID

import pytest

from app.domain.model import HoldPlan, OnDeadline
from app.domain.seal import spell
from tests.engine.held_stories import decide, deciding, expire, later, seal_held
from tests.engine.invariants import broken
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    LATER,
    ONCALL,
    UNKNOWN,
    Sink,
    arrival,
    draft,
    returning,
    sealing,
    short,
)
from tests.engine.waiting_stories import parking, telling
from tests.engine.walks import DAY, expire_all, purge_turns

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

SEEDS = range(6)
STEPS = 60
VERDICTS = (DELIVERED, DELIVERED, DELIVERED, DEAD, UNKNOWN, LATER)
DECISIONS: tuple[Literal["approve", "reject", "revise"], ...] = ("approve", "reject", "revise")
JUMPS = (2.0, 61.0, 3_600.0, 2 * DAY, 12 * DAY, 35 * DAY)

# Said once more, and as simply as it can be: what retention has promised to remove.
OVER = """
    select t.id from sink.turn as t
    where
        (t.state in ('replied', 'cancelled', 'failed') or t.state = 'undelivered' and not exists (
            select from sink.outbox as o where o.turn = t.id and o.state in ('dead', 'unknown')
        ))
        and not exists (
            select from sink.event as e
            where e.turn = t.id
                and e.at > sink.now() - case t.state when 'failed' then interval '90 days' else interval '30 days' end
        )
"""


class History:
    """Verbs at random, over a few conversations."""

    def __init__(self, sink: Sink, travel: "Travel", seed: int) -> None:
        self._sink = sink
        self._travel = travel
        self._dice = random.Random(seed)
        self._made = 0

    async def step(self) -> None:
        """One verb, or some time."""
        verbs = (
            self._accept,
            self._accept,
            self._seal,
            self._seal,
            self._seal,
            self._seal_held,
            self._seal_held,
            self._decide,
            self._park,
            self._signal,
            self._give_back,
            self._deliver,
            self._deliver,
            self._people,
            self._sweep,
            self._time,
        )
        await self._dice.choice(verbs)()

    async def _accept(self) -> None:
        self._made += 1
        conversation = self._dice.choice((None, "a", "b", "c"))
        key = f"k{self._dice.randrange(self._made + 1)}"
        delay = self._dice.choice((0.0, 0.0, 20 * DAY))
        if conversation is not None and self._dice.random() < 0.3:
            await self._sink.accept(short(key, conversation))
        else:
            await self._sink.accept(arrival(key, conversation, delay_seconds=delay))

    async def _seal(self) -> None:
        for held in await self._sink.claim(2):
            drafts = [
                draft(str(n), held.conversation, destination=self._dice.choice(("crm", "chat")))
                for n in range(self._dice.randrange(4))
            ]
            await self._sink.seal(sealing(held, *drafts))

    async def _seal_held(self) -> None:
        for held in await self._sink.claim(2):
            drafts = [draft(str(n), held.conversation) for n in range(self._dice.randrange(3))]
            delay = self._dice.choice((0.0, 3_600.0, 40 * DAY))
            asked = [later(delay_seconds=delay)] * self._dice.randrange(1 if drafts else 2, 3)
            on_deadline: OnDeadline = self._dice.choice(("escalate", "escalate", "cancel", "send"))
            plan = HoldPlan("queue", 3_600.0, on_deadline, keeps_lane=self._dice.random() < 0.5)
            await seal_held(self._sink, held, *drafts, follow_ups=asked, plan=plan)

    async def _decide(self) -> None:
        for turn in await self._some("turn", "state in ('held', 'escalated')"):
            seen = spell((await self._sink.look(turn)).payload_hash or b"")
            edited = [draft("better")] if self._dice.random() < 0.25 else None
            decision = "approve" if edited else self._dice.choice(DECISIONS)
            await decide(self._sink, deciding(turn, seen, decision, edited=edited))

    async def _park(self) -> None:
        for held in await self._sink.claim(1):
            seconds = self._dice.choice((60.0, 35 * DAY))
            await self._sink.park(
                parking(held, seconds=seconds, payload_hash=self._dice.choice((None, "h")))
            )

    async def _signal(self) -> None:
        for turn in await self._some("turn", "state in ('queued', 'processing', 'parked')"):
            await self._sink.signal(telling(turn, may_decide=True, payload_hash="h"))

    async def _give_back(self) -> None:
        for held in await self._sink.claim(2):
            if self._dice.random() < 0.7:
                changes = {self._dice.choice(("failed", "final")): True}
                await self._sink.release(returning(held, **changes))

    async def _deliver(self) -> None:
        destination = self._dice.choice(("crm", "chat", ONCALL))
        for taken in await self._sink.take(3, destination=destination):
            verdict = self._dice.choice(VERDICTS)
            if verdict is DEAD and taken.may_have_arrived:
                verdict = UNKNOWN
            if self._dice.random() < 0.9:
                await self._sink.settle((taken, verdict))

    async def _people(self) -> None:
        states = "'failed', 'undelivered', 'queued', 'waiting', 'parked', 'held', 'escalated'"
        turns = await self._some("turn", f"state in ({states})")
        messages = await self._some("outbox", "state in ('dead', 'unknown')")
        verb = self._dice.choice(("cancel", "redrive", "cancel_messages", "redrive_messages"))
        await getattr(self._sink, verb)(*(messages if "messages" in verb else turns))

    async def _some(self, table: str, condition: str) -> list[UUID]:
        rows = await self._sink.pool.fetch(
            f"select id from sink.{table} where {condition} order by id"
        )
        ids = [row["id"] for row in rows]
        return self._dice.sample(ids, min(2, len(ids)))

    async def _sweep(self) -> None:
        await self._sink.due()
        await self._sink.sweep_turns()
        await self._sink.sweep_messages()
        await self._sink.wake_parked()
        await expire(self._sink)
        await self._sink.escalate()

    async def _time(self) -> None:
        await self._travel(self._dice.choice(JUMPS))


async def _ids(admin: "Admin", query: str = "select id from sink.turn") -> set[UUID]:
    return {row["id"] for row in await admin.fetch(query)}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", SEEDS)
async def test_exactly_what_is_over_goes_and_nothing_is_orphaned(
    sink: Sink, admin: "Admin", travel: "Travel", seed: int
) -> None:
    history = History(sink, travel, seed)
    gone = 0
    for n in range(STEPS + 1):
        await history.step()
        if n == STEPS:
            # In the end somebody gives up on whatever is left.
            await sink.cancel(*await _ids(admin))
            await travel(100 * DAY)
        if n % 6 == 5 or n == STEPS:
            before, over = await _ids(admin), await _ids(admin, OVER)
            counts = await purge_turns(sink.pool, rows_max=5)
            assert await _ids(admin) == before - over
            assert counts["turn"] == len(over)
            gone += len(over)
            await expire_all(sink.pool)
            assert await broken(admin) == {}
    assert gone > 0
