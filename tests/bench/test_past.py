"""What the bench loads lies as a service would have left it, or else what comes behind it is measured wrongly."""

import random
from typing import TYPE_CHECKING

from app.domain.ids import IdFactory
from tests.bench.past import load
from tests.engine.stories import Sink, arrival

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.database import Admin

TURNS = 2_000
ACCEPTED = 50
PAGES = """
    select count(distinct (e.ctid::text::point)[0])
    from sink.event as e
    inner join sink.turn as t on t.id = e.turn
    where t.state = 'queued'
"""


async def test_what_is_accepted_behind_finished_turns_is_told_on_few_pages(
    pool: "Pool", admin: "Admin", ids: IdFactory, jitter: random.Random
) -> None:
    await load(admin, turns=TURNS)
    await Sink(pool, ids, jitter).accept(*(arrival(f"k{n}", f"c{n}") for n in range(ACCEPTED)))
    # Not each in a gap of its own, of pages on which only rows of one size were put.
    assert await admin.fetchval(PAGES) <= ACCEPTED // 10
