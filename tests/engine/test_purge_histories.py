"""Whatever happened, and whenever: exactly what ended long enough ago goes, and all of it."""

import random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tests.engine.invariants import broken
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    LATER,
    UNKNOWN,
    Sink,
    arrival,
    draft,
    returning,
    sealing,
    short,
)
from tests.engine.walks import DAY, expire_all, purge_turns

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

SEEDS = range(6)
STEPS = 60
VERDICTS = (DELIVERED, DELIVERED, DELIVERED, DEAD, UNKNOWN, LATER)
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

    async def _give_back(self) -> None:
        for held in await self._sink.claim(2):
            if self._dice.random() < 0.7:
                changes = {self._dice.choice(("failed", "final")): True}
                await self._sink.release(returning(held, **changes))

    async def _deliver(self) -> None:
        for taken in await self._sink.take(3, destination=self._dice.choice(("crm", "chat"))):
            verdict = self._dice.choice(VERDICTS)
            if verdict is DEAD and taken.may_have_arrived:
                verdict = UNKNOWN
            if self._dice.random() < 0.9:
                await self._sink.settle((taken, verdict))

    async def _people(self) -> None:
        turns = await self._some("turn", "state in ('failed', 'undelivered', 'queued', 'waiting')")
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
