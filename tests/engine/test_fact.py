"""A delivery that was seen is true, whoever has the lease by now; a lost lease says nothing else."""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.domain.model import Fact, Verdict
from app.engine import fact
from tests.engine.stories import (
    DEAD,
    DELIVERED,
    UNKNOWN,
    Sink,
    draft,
)

if TYPE_CHECKING:
    from tests.conftest import Travel

STUCK = pytest.mark.parametrize("verdict", [DEAD, UNKNOWN], ids=["dead", "unknown"])


async def test_a_lost_lease_settles_nothing(sink: Sink, travel: "Travel") -> None:
    turn, _ = await sink.sealed("a", draft())
    lost = await sink.take_one()
    await travel(31)
    await sink.sweep_messages()
    await travel(10)
    holder = await sink.take_one()
    assert await sink.settle((lost, DEAD), (holder, DELIVERED)) == [False, True]
    assert await sink.settle((holder, DEAD)) == [False]
    assert await sink.state(turn) == "replied"


async def test_a_late_delivery_is_recorded_whoever_has_the_lease(
    sink: Sink, travel: "Travel"
) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    lost = await sink.take_one()
    await travel(31)
    await sink.sweep_messages()
    await travel(10)
    holder = await sink.take_one()
    assert await sink.tell(lost) == {message}
    assert await sink.state(turn) == "replied"
    assert await sink.settle((holder, DEAD)) == [False]
    assert (await sink.look(turn)).messages[0].receipt == "r-late"


async def test_a_fact_needs_an_attempt_that_was_recorded(sink: Sink) -> None:
    turn, _ = await sink.sealed("a", draft())
    taken = await sink.take_one()
    assert await sink.tell(replace(taken, attempt_id=uuid4())) == set()
    assert await sink.states(turn) == ["sending"]


async def test_a_fact_about_what_is_delivered_changes_nothing(sink: Sink) -> None:
    turn, (message,) = await sink.sealed("a", draft())
    taken = await sink.take_one()
    await sink.settle((taken, DELIVERED))
    assert await sink.tell(taken) == set()
    assert (
        await fact.record_facts(sink.pool, [Fact(message, taken.attempt_id, None, None)]) == set()
    )
    assert (await sink.look(turn)).messages[0].receipt == "r-1"


@STUCK
async def test_a_late_delivery_frees_the_rest_of_its_set(sink: Sink, verdict: Verdict) -> None:
    turn, (_, second) = await sink.sealed("a", draft("1", "c"), draft("2", "c"))
    taken = await sink.take_one()
    await sink.settle((taken, verdict))
    assert await sink.state(turn) == "undelivered"
    await sink.tell(taken)
    assert await sink.state(turn) == "sealed"
    assert await sink.settle_next(DELIVERED) == second
    assert await sink.state(turn) == "replied"
