"""The purger's walks: to the end, in bounded steps, and never more than its share of time."""

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from app.workers.purger import Purger
from tests.database import Clock
from tests.engine.stories import DELIVERED, Sink, draft
from tests.engine.walks import DAY
from tests.workers.conftest import OpenCore

if TYPE_CHECKING:
    from app.core import Core
    from tests.database import Admin

STEPS_MAX = 200


async def _over(sink: Sink, count: int) -> None:
    for n in range(count):
        await sink.sealed(f"k{n}", draft("hello", f"c{n}"), conversation=f"c{n}")
        await sink.settle_next(DELIVERED)


async def _walk(purger: Purger, core: "Core") -> int:
    """One walk to its end; returns its steps."""
    for step in range(1, STEPS_MAX):
        if await purger.tick() == core.settings.retention.interval_seconds:
            return step
    message = "the walk has no end"
    raise AssertionError(message)


def _purged(core: "Core") -> Counter[str]:
    (purged,) = core.metrics.purged.collect()
    return Counter(
        {
            sample.labels["kind"]: int(sample.value)
            for sample in purged.samples
            if sample.name.endswith("_total")
        }
    )


async def test_one_walk_removes_what_is_over_and_counts_it(
    sink: Sink, opening: OpenCore, clock: Clock, admin: "Admin"
) -> None:
    await _over(sink, 7)
    live = await sink.accept_one("live", "c")
    await clock.travel(31 * DAY)
    async with opening({}, retention={"batch_max": 2}) as core:
        await _walk(Purger(core), core)
        counts = _purged(core)
    assert (counts["turn"], counts["inbound"], counts["message"]) == (7, 7, 7)
    assert (counts["lane"], counts["delivery_lane"]) == (7, 7)
    assert counts["idempotency_key"] == counts["tombstone"] == 0
    assert await admin.fetchval("select array_agg(id) from sink.turn") == [live.turn]


async def test_a_later_walk_removes_keys_and_tombstones_whose_time_is_over(
    sink: Sink, opening: OpenCore, clock: Clock, admin: "Admin"
) -> None:
    await _over(sink, 5)
    await clock.travel(31 * DAY)
    async with opening({}, retention={"batch_max": 2}) as core:
        purger = Purger(core)
        await _walk(purger, core)
        await clock.travel(31 * DAY)
        await _walk(purger, core)
        counts = _purged(core)
    assert (counts["idempotency_key"], counts["tombstone"]) == (5, 15)
    assert await admin.fetchval("select count(*) from sink.tombstone") == 0


async def test_a_step_does_no_more_than_its_batch(
    sink: Sink, opening: OpenCore, clock: Clock
) -> None:
    await _over(sink, 7)
    await clock.travel(31 * DAY)
    async with opening({}, retention={"batch_max": 3}) as core:
        purger = Purger(core)
        rest = await purger.tick()
        assert 0 < rest <= 10
        assert _purged(core)["turn"] == 3


async def test_an_idle_walk_is_a_few_steps(sink: Sink, opening: OpenCore) -> None:
    await sink.accept_one("a", "c")
    async with opening({}) as core:
        assert await _walk(Purger(core), core) <= 10


async def test_it_works_for_its_share_of_time_and_rests_for_the_others(
    sink: Sink, opening: OpenCore
) -> None:
    await sink.accept_one("a")
    async with opening({}, retention={"share_max": 0.01}) as core:
        # A hundredth of the time: even the quickest step is followed by a rest that is felt.
        assert await Purger(core).tick() > 0.05


async def test_a_step_that_fails_keeps_no_other_from_running(
    sink: Sink, opening: OpenCore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await _over(sink, 2)
    await clock.travel(31 * DAY)
    # The keys and one kind of lane cannot be removed: what would be written is refused.
    for table in ("idempotency_key", "lane"):
        await clock.admin.execute(f"revoke delete on sink.{table} from sinksweep_app")
    async with opening({}, retention={"batch_max": 2}) as core:
        await _walk(Purger(core), core)
        counts = _purged(core)
    assert (counts["turn"], counts["delivery_lane"], counts["lane"]) == (2, 2, 0)
    assert [record.getMessage() for record in caplog.records].count("a step failed") == 2


async def test_a_turn_that_cannot_go_keeps_no_other(
    sink: Sink, opening: OpenCore, clock: Clock, admin: "Admin", caplog: pytest.LogCaptureFixture
) -> None:
    await _over(sink, 5)
    await clock.travel(31 * DAY)
    stuck = await admin.fetchval("select id from sink.turn order by id offset 2 limit 1")
    await admin.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'not this one'; end $$; "
        "create trigger refuse before delete on sink.turn for each row "
        f"when (old.id = '{stuck}') execute function refuse()"
    )
    async with opening({}, retention={"batch_max": 3}) as core:
        await _walk(Purger(core), core)
    assert await admin.fetchval("select array_agg(id) from sink.turn") == [stuck]
    assert "some could not be purged" in caplog.text


async def test_two_purgers_at_once_remove_everything_once(
    sink: Sink, opening: OpenCore, clock: Clock
) -> None:
    await _over(sink, 7)
    await clock.travel(31 * DAY)
    async with opening({}, retention={"batch_max": 2}) as core:
        first, second = Purger(core), Purger(core)
        await first.tick()
        await second.tick()
        await _walk(first, core)
        await _walk(second, core)
        assert _purged(core)["turn"] == 7
