"""What is looked at is what there is, and looking costs little."""

from typing import TYPE_CHECKING

import pytest

from app.engine.inspect import oldest_queued_seconds
from tests.engine.stories import Sink, arrival

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_the_oldest_turn_shows_although_others_always_come_before_it(
    sink: Sink, travel: "Travel"
) -> None:
    await sink.accept_one("low", priority=-50)
    await travel(600)
    await sink.accept(*(arrival(f"high {n}", priority=n) for n in range(5)))
    ages = await oldest_queued_seconds(sink.pool, ["default", "empty"])
    assert ages == {"default": pytest.approx(600, abs=30)}


async def test_turns_that_back_off_are_not_read_to_find_the_oldest(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await sink.accept(*(arrival(f"{n}", delay_seconds=0.0) for n in range(3)))
    await admin.execute("""
        insert into sink.turn (id, queue, priority, state, created_at, due_at, input_bytes)
        select gen_random_uuid(), 'default', 5, 'queued', sink.now(), sink.now() + interval '1 day', 1
        from generate_series(1, 5000)
    """)
    await travel(60)
    ages = await oldest_queued_seconds(sink.pool, ["default"])
    assert ages == {"default": pytest.approx(60, abs=30)}
    await admin.execute("delete from sink.turn where priority = 5")
