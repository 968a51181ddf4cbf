"""Whatever sets meet in whatever lanes, and however their deliveries end: the order holds, and everything ends."""

import asyncio
import graphlib
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from app.domain.model import Claimed, SealRequest, Taken
from tests.engine.invariants import broken
from tests.engine.stories import DEAD, DELIVERED, LATER, UNKNOWN, Sink, arrival, draft, sealing
from tests.history.delivery_rules import first_attempts_are_in_order
from tests.history.history import History
from tests.history.rows import KeptMessage, Rows, read_database

if TYPE_CHECKING:
    from asyncpg import Record

    from tests.conftest import Travel
    from tests.database import Admin

PLACES = ("crm", "chat", "mail")
CONVERSATIONS = ("c", "d", None)
SETS = 7
MESSAGES_MAX = 5
STEPS = 50
ROUNDS_MAX = 60


def _set(rng: random.Random, held: Claimed) -> SealRequest:
    drafts = [
        draft(str(n), rng.choice(CONVERSATIONS), destination=rng.choice(PLACES))
        for n in range(rng.randint(1, MESSAGES_MAX))
    ]
    return sealing(held, *drafts, order=rng.choice(("strict", "strict", None)))


async def _seal_at_once(sink: Sink, rng: random.Random, held: Sequence[Claimed]) -> None:
    """Seals that meet: some in one call, the others beside it."""
    requests = [_set(rng, one) for one in held]
    cut = rng.randint(0, len(requests))
    calls = [requests[:cut], *([one] for one in requests[cut:])]
    async with asyncio.TaskGroup() as seals:
        for call in calls:
            if call:
                seals.create_task(sink.seal(*call))


def waits(messages: Sequence[KeptMessage]) -> dict[str, set[str]]:
    """Whom each message may ever have to wait for: those before it in its set, and in its lane of deliveries."""
    before: dict[str, set[str]] = defaultdict(set)
    for message in messages:
        for other in messages:
            same_set = (other.turn, other.seal) == (message.turn, message.seal)
            lane = (message.queue, message.conversation, message.destination)
            same_lane = (other.queue, other.conversation, other.destination) == lane
            in_set = same_set and (message.strict or same_lane)
            if in_set and other.position < message.position:
                before[message.id].add(other.id)
            if same_lane and message.place is not None and (other.place or 0) < message.place:
                before[message.id].add(other.id)
    return before


class Play:
    """Workers that end attempts in any order, and people who decide anything."""

    def __init__(self, sink: Sink, rng: random.Random) -> None:
        self._sink = sink
        self._rng = rng
        self._sending: list[Taken] = []

    async def step(self, rows: Rows) -> None:
        rng, sink = self._rng, self._sink
        match rng.randrange(6):
            case 0 | 1:
                await self.take(rng.choice(PLACES), rng.randint(1, 3))
            case 2 | 3 if self._sending:
                taken = self._sending.pop(rng.randrange(len(self._sending)))
                verdict = rng.choice((DELIVERED, DELIVERED, LATER, DEAD, UNKNOWN))
                if verdict is DEAD and taken.may_have_arrived:
                    verdict = UNKNOWN
                await sink.settle((taken, verdict))
            case 4:
                await self._decide(rows)
            case _:
                await sink.sweep_messages()

    async def _decide(self, rows: Rows) -> None:
        rng, sink = self._rng, self._sink
        message, turn = rng.choice(rows.messages), rng.choice(rows.turns)
        ids = {row["key"]: row["id"] for row in await self.messages()}
        match rng.randrange(6):
            case 0:
                await sink.cancel_messages(ids[message.key])
            case 1 | 2:
                await sink.redrive_messages(ids[message.key])
            case 3:
                await sink.resolve(ids[message.key], state=rng.choice(("delivered", "cancelled")))
            case 4 if turn.state == "undelivered":
                await sink.redrive(*{row["turn"] for row in await self.messages("unknown", "dead")})
            case _:
                pass

    async def messages(self, *states: str) -> "list[Record]":
        async with self._sink.pool.acquire() as connection:
            rows: list[Record] = await connection.fetch(
                "select o.id, o.turn, p.key from sink.outbox as o"
                " inner join sink.outbox_payload as p on p.message = o.id"
                " where cardinality($1::text[]) = 0 or o.state = any($1::text[])",
                list(states),
            )
            return rows

    async def take(self, place: str, count: int) -> None:
        self._sending += await self._sink.take(count, destination=place)

    async def deliver_all(self) -> None:
        for place in PLACES:
            await self.take(place, 100)
        self._rng.shuffle(self._sending)
        await self._sink.settle(*((taken, DELIVERED) for taken in self._sending))
        self._sending.clear()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(12))
async def test_every_set_comes_to_its_end_in_its_order(
    sink: Sink, admin: "Admin", database_url: str, travel: "Travel", seed: int
) -> None:
    rng = random.Random(seed)
    await sink.accept(*(arrival(str(n)) for n in range(SETS)))
    held = await sink.claim(SETS)
    await _seal_at_once(sink, rng, held[: SETS // 2])
    await _seal_at_once(sink, rng, held[SETS // 2 :])
    rows = await read_database(database_url)
    graphlib.TopologicalSorter(waits(rows.messages)).prepare()

    play = Play(sink, rng)
    for n in range(STEPS):
        await play.step(rows)
        if n % 10 == 0:
            rows = await read_database(database_url)
            assert await broken(admin) == {}
            await travel(rng.choice((0, 6, 31)))

    for _ in range(ROUNDS_MAX):
        await travel(61)
        await sink.sweep_messages()
        await play.deliver_all()
        stuck = await play.messages("dead", "unknown")
        await sink.redrive_messages(*(row["id"] for row in stuck))
        if not await play.messages("pending", "sending", "dead", "unknown"):
            break
    rows = await read_database(database_url)
    assert {message.state for message in rows.messages} <= {"delivered", "cancelled"}
    assert {turn.state for turn in rows.turns} <= {"replied", "undelivered"}
    assert list(first_attempts_are_in_order(History([], rows))) == []
