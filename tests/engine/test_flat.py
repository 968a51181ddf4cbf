"""What a row costs each hot verb stays what it is: behind a long past, and beside a conversation that waits.

`PAGES_MAX` is the whole agreement: pages a row, in batches of twenty, counted as often as they are looked at. It goes
down with the statements, and never up unseen.
"""

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from tests.database import Clock, Server
from tests.engine.crowds import crowd_lanes
from tests.engine.history import load_past
from tests.engine.plans import explained, seen
from tests.engine.stories import DELIVERED, Sink, arrival, draft, sealing
from tests.engine.suspense import OneSession

if TYPE_CHECKING:
    from tests.database import Admin

# A turn for the first three, a message for the others.
PAGES_MAX: Final = {"accept": 43, "claim": 30, "renew": 22, "seal": 115, "take": 33, "settle": 64}
# Ten times the past is another level of some indexes, and nothing else.
FLAT: Final = 1.3

RECENT_TURNS: Final = 5_000
PAST_TURNS: Final = 50_000
WAITING: Final = 2_000
BATCH: Final = 20
MESSAGES: Final = 3
ROUNDS: Final = 3

Pages = dict[str, float]


async def _nothing(_admin: "Admin") -> None:
    pass


async def _recent(admin: "Admin") -> None:
    await load_past(admin, turns=RECENT_TURNS)


async def _past(admin: "Admin") -> None:
    await load_past(admin, turns=PAST_TURNS)


async def _waiting(admin: "Admin") -> None:
    await _recent(admin)
    await crowd_lanes(admin, conversations=1, depth=WAITING)


PLACES: Final = {"empty": _nothing, "recent": _recent, "past": _past, "waiting": _waiting}


async def _pages(server: Server, place: str) -> Pages:
    """Pages of each verb for a row, the mean of some rounds."""
    pages: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    verb = ""

    def hear(_connection: object, message: Any) -> None:
        if "plan:" in message.message:
            pages[verb] += seen(json.loads(message.message.partition("plan:")[2])["Plan"]).buffers

    async def story(sink: Sink, _clock: Clock) -> None:
        nonlocal verb
        cast("OneSession", sink.pool).connection.add_log_listener(hear)
        for n in range(ROUNDS):
            # One conversation has what waits for it, where anything does.
            names = ["w0", *(f"c{n}-{m}" for m in range(1, BATCH))]
            verb = "accept"
            await sink.accept(*(arrival(f"k{n}-{m}", name) for m, name in enumerate(names)))
            verb = "claim"
            held = await sink.claim(BATCH)
            assert len(held) == BATCH
            verb = "renew"
            await sink.renew(*held)
            drafts = [[draft(str(m), one.conversation) for m in range(MESSAGES)] for one in held]
            verb = "seal"
            await sink.seal(*(sealing(one, *said) for one, said in zip(held, drafts, strict=True)))
            rows.update(dict.fromkeys(("accept", "claim", "renew", "seal"), BATCH))
            for _ in range(MESSAGES):
                verb = "take"
                taken = await sink.take(BATCH)
                assert len(taken) == BATCH
                verb = "settle"
                await sink.settle(*((one, DELIVERED) for one in taken))
                rows.update(dict.fromkeys(("take", "settle"), BATCH))

    await explained(server, PLACES[place], story)
    return {verb: pages[verb] / rows[verb] for verb in PAGES_MAX}


@pytest.fixture(scope="module")
async def pages(postgres: Server) -> dict[str, Pages]:
    return {place: await _pages(postgres, place) for place in PLACES}


@pytest.mark.parametrize("verb", PAGES_MAX)
def test_a_row_costs_no_more_than_agreed_wherever_it_is(pages: dict[str, Pages], verb: str) -> None:
    found = {place: round(some[verb], 1) for place, some in pages.items()}
    assert max(found.values()) <= PAGES_MAX[verb], found


@pytest.mark.parametrize("verb", PAGES_MAX)
@pytest.mark.parametrize("place", ["past", "waiting"])
def test_neither_a_past_nor_a_backlog_makes_a_row_dearer(
    pages: dict[str, Pages], verb: str, place: str
) -> None:
    assert pages[place][verb] <= pages["recent"][verb] * FLAT + 2, pages
