"""While somebody holds a snapshot, a take and a settle read no more after many messages than after few."""

from typing import TYPE_CHECKING

import asyncpg

from app.domain.model import Slots
from app.engine.take import take
from app.workers.watermarks import SLACK
from tests.database import Clock, Server
from tests.engine.history import load_past
from tests.engine.plans import Runs, explained
from tests.engine.stories import CRM, DELIVERED, Sink, draft

if TYPE_CHECKING:
    from tests.database import Admin

BATCH = 50
SET = 100
MESSAGES = 20_000
# As many runs are compared, from the beginning and from the end.
RUNS = 5
STATEMENTS = ("take_messages", "lock_for_messages", "confirm_messages")


async def _deliver(sink: Sink, clock: Clock) -> None:
    """All of them, as a worker does: each take begins where the last one ended."""
    since = None
    for n in range(MESSAGES // SET):
        await sink.sealed(f"k{n}", *(draft(str(one), f"c{n}-{one}") for one in range(SET)))
        await clock.travel(2 * SLACK.total_seconds())
        for _ in range(SET // BATCH):
            takes = await take(sink.pool, [Slots(CRM, BATCH, 30.0, since=since)])
            if CRM in takes.latest:
                since = takes.latest[CRM] - SLACK
            await sink.settle(*((one, DELIVERED) for one in takes.messages))


async def test_a_take_and_a_settle_stay_as_cheap(postgres: Server) -> None:
    holding: list[Admin] = []

    async def hold(admin: "Admin") -> None:
        await load_past(admin, turns=2000)
        database = str(await admin.fetchval("select current_database()"))
        holder = await asyncpg.connect(postgres.url_of(database))
        await holder.execute(
            "begin isolation level repeatable read; select count(*) from sink.outbox"
        )
        holding.append(holder)

    runs: Runs = await explained(postgres, hold, _deliver)
    for holder in holding:
        # Its database is gone.
        holder.terminate()
    for name in STATEMENTS:
        # The first take makes the row of its destination, and is done again.
        assert len(runs[name]) in (MESSAGES // BATCH, MESSAGES // BATCH + 1)
        first = sum(run.buffers for run in runs[name][RUNS : 2 * RUNS])
        last = sum(run.buffers for run in runs[name][-RUNS:])
        assert last <= 1.5 * first, (name, first, last)
