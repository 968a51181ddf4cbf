"""What a hot verb sends to the database and writes to its log: round trips and WAL bytes, for one row and for fifty.

`COSTS` is the whole agreement. It goes down with the statements, and never up unseen. Full pages are not written by the
server of the tests, so that what is counted is what the rows themselves cost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from tests.engine.stories import DELIVERED, Sink, arrival, draft, returning, sealing
from tests.engine.suspense import OneSession

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

MANY: Final = 50
MESSAGES: Final = 3
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Round trips, whatever the number of rows; WAL bytes of one row alone, and of one among fifty."""

    round_trips: int
    wal_alone: int
    wal_among: int


# Of a turn with a body of a few bytes, in a conversation of its own; take and settle of one message.
COSTS: Final = {
    "accept": Cost(1, 1750, 1730),
    "claim": Cost(3, 1030, 1080),
    "renew": Cost(1, 450, 520),
    "release": Cost(5, 960, 1010),
    "seal": Cost(4, 4660, 4890),
    "take": Cost(3, 1080, 970),
    "settle": Cost(4, 1500, 1450),
}
WAL: Final = "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


@pytest.fixture
async def one(sink: Sink) -> Any:
    """The verbs over one session that can be listened to, warm: types are looked up, a destination has its row."""
    async with sink.pool.acquire() as connection:
        alone = replace(sink, pool=cast("Pool", OneSession(connection)))
        await alone.sealed("first", draft())
        await alone.settle_next(DELIVERED)
        yield alone


async def _round(one: Sink, name: str, rows: int, measure: Any) -> None:
    """A turn's whole way, each verb measured on so many rows."""
    names = [f"{name}-{n}" for n in range(rows)]
    arrivals = [arrival(key, key) for key in names]
    await measure("accept", lambda: one.accept(*arrivals))
    held = await measure("claim", lambda: one.claim(rows))
    assert len(held) == rows
    await measure("renew", lambda: one.renew(*held))
    await measure("release", lambda: one.release(*(returning(lease) for lease in held)))
    held = await one.claim(rows)
    sets = [
        sealing(lease, *(draft(str(m), lease.conversation) for m in range(MESSAGES)))
        for lease in held
    ]
    await measure("seal", lambda: one.seal(*sets))
    taken = await measure("take", lambda: one.take(rows))
    assert len(taken) == rows
    await measure("settle", lambda: one.settle(*((each, DELIVERED) for each in taken)))
    for _ in range(MESSAGES - 1):
        await one.settle(*((each, DELIVERED) for each in await one.take(rows)))


@pytest.mark.parametrize("rows", [1, MANY])
async def test_a_hot_verb_costs_no_more_than_agreed(one: Sink, admin: "Admin", rows: int) -> None:
    connection = cast("OneSession", one.pool).connection
    trips: dict[str, int] = {}
    written: dict[str, list[int]] = {verb: [] for verb in COSTS}

    async def measure(verb: str, call: Callable[[], Awaitable[Any]]) -> Any:
        sent: list[object] = []
        before = await admin.fetchval(WAL)
        with connection.query_logger(sent.append):
            result = await call()
            # The session tells its listeners in the next step of the loop.
            await asyncio.sleep(0)
        written[verb].append(int(await admin.fetchval(WAL) - before))
        trips[verb] = len(sent)
        return result

    for n in range(TRIES):
        await _round(one, f"{rows}-{n}", rows, measure)
    # The least: a vacuum or a page that splits is nobody's price.
    found = {verb: (trips[verb], min(written[verb]) // rows) for verb in COSTS}
    agreed = {
        verb: (cost.round_trips, cost.wal_alone if rows == 1 else cost.wal_among)
        for verb, cost in COSTS.items()
    }
    dearer = {
        verb: {"found": found[verb], "agreed": agreed[verb]}
        for verb in COSTS
        if found[verb][0] > agreed[verb][0] or found[verb][1] > agreed[verb][1]
    }
    assert dearer == {}
