"""What a crash stranded is put back: counted, later each time, and given up at the cap; what is alive is left alone."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from app.domain.model import HandedBack, LeaseLost
from app.engine import sweep
from tests.engine.stories import (
    CRM,
    DELIVERY_POLICY,
    QUEUE,
    TURN_POLICY,
    Sink,
    arrival,
    draft,
    returning,
)

if TYPE_CHECKING:
    from tests.conftest import Freeze, Travel
    from tests.database import Admin


async def test_a_live_lease_is_left_alone(sink: Sink, travel: "Travel") -> None:
    held = await sink.hold("a")
    await travel(59)
    assert await sink.sweep_turns() == {}
    await sink.renew(held)
    await travel(59)
    assert await sink.sweep_turns() == {}
    await travel(2)
    assert await sink.sweep_turns() == {"queued": 1}


async def test_a_stranded_turn_runs_again_from_its_input(sink: Sink, travel: "Travel") -> None:
    first = await sink.hold("a", "c")
    await travel(61)
    assert await sink.sweep_turns() == {"queued": 1}
    assert await sink.sweep_turns() == {}
    await travel(2)
    again = await sink.claim_one()
    assert (again.turn, again.attempt, again.inbound) == (first.turn, 2, first.inbound)
    assert again.token != first.token


async def test_each_crash_backs_off_longer(
    sink: Sink, admin: "Admin", freeze: "Freeze", travel: "Travel"
) -> None:
    await sink.accept_one("a")
    for wanted in (1, 2, 4, 8):
        await sink.claim_one()
        await travel(61)
        await freeze()
        await sink.sweep_turns()
        left = await admin.fetchval("select extract(epoch from due_at - sink.now()) from sink.turn")
        assert wanted <= left <= wanted * 1.2
        await travel(wanted * 1.2)


async def test_a_turn_fails_at_the_cap_and_frees_its_lane(sink: Sink, travel: "Travel") -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=2)}
    accepted = await sink.accept_one("a", "c")
    behind = await sink.accept_one("b", "c")
    for swept in ({"queued": 1}, {"failed": 1}):
        await sink.claim_one()
        await travel(61)
        assert await sink.sweep_turns() == swept
        await travel(2)
    assert (await sink.look(accepted.turn)).reason == "attempts_exhausted"
    assert (await sink.claim_one()).turn == behind.turn


async def test_releases_do_not_count_against_the_cap_of_crashes(
    sink: Sink, travel: "Travel"
) -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=1)}
    held = await sink.hold("a")
    for _ in range(3):
        await sink.release(returning(held))
        held = await sink.claim_one()
    await travel(61)
    assert await sink.sweep_turns() == {"failed": 1}


async def test_an_unconfigured_queue_is_swept_and_never_fails(sink: Sink, travel: "Travel") -> None:
    sink.turn_policies = {}
    await sink.accept_one("a")
    for _ in range(10):
        await sink.claim_one()
        await travel(61)
        assert await sink.sweep_turns() == {"queued": 1}
        await travel(100)


async def test_a_sweep_is_bounded_and_takes_the_longest_lapsed_first(
    sink: Sink, travel: "Travel"
) -> None:
    await sink.accept(*(arrival(f"k{n}") for n in range(5)))
    held = [await sink.claim_one(lease_seconds=60 - n) for n in range(5)]
    await travel(61)
    assert await sink.sweep_turns(2) == {"queued": 2}
    assert [await sink.state(one.turn) for one in held] == [*["processing"] * 3, *["queued"] * 2]
    assert await sink.sweep_turns(2) == {"queued": 2}
    assert await sink.sweep_turns(2) == {"queued": 1}


async def test_many_are_swept_at_once_to_where_each_belongs(sink: Sink, travel: "Travel") -> None:
    sink.turn_policies = {QUEUE: TURN_POLICY, "strict": replace(TURN_POLICY, attempts_max=1)}
    await sink.accept(*(arrival(f"k{n}", f"c{n}") for n in range(3)))
    await sink.accept(*(arrival(f"s{n}", f"c{n}", queue="strict") for n in range(2)))
    await sink.claim(5)
    await sink.claim(5, queue="strict")
    await travel(61)
    assert await sink.sweep_turns() == {"queued": 3, "failed": 2}


async def test_a_turn_that_is_put_back_still_knows_its_lost_holder(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a")
    await travel(61)
    await sink.sweep_turns()
    assert await sink.renew(held) == [LeaseLost("swept", "queued")]
    assert await sink.release(returning(held)) != [HandedBack("queued")]


async def test_a_message_whose_worker_is_gone_is_tried_again_and_may_have_arrived(
    sink: Sink, travel: "Travel"
) -> None:
    turn, _ = await sink.sealed("a", draft())
    first = await sink.take_one()
    await travel(29)
    assert await sink.sweep_messages() == 0
    await travel(2)
    assert await sink.sweep_messages() == 1
    assert await sink.sweep_messages() == 0
    assert await sink.states(turn) == ["pending"]
    await travel(2)
    again = await sink.take_one()
    assert (again.key, again.attempt, again.may_have_arrived) == (first.key, 2, True)


@pytest.mark.parametrize(
    "policy",
    [
        replace(DELIVERY_POLICY, attempts_max=1),
        replace(DELIVERY_POLICY, age_seconds_max=10.0),
    ],
    ids=["attempts", "age"],
)
async def test_a_lapse_at_the_cap_is_unknown_and_never_dead(
    sink: Sink, travel: "Travel", policy: object
) -> None:
    sink.delivery_policies = {CRM: policy}  # type: ignore[dict-item]
    turn, _ = await sink.sealed("a", draft())
    await sink.take_one()
    await travel(31)
    assert await sink.sweep_messages() == 1
    assert await sink.states(turn) == ["unknown"]
    assert await sink.state(turn) == "undelivered"
    assert (await sink.look(turn)).messages[0].reason == "gave_up: lease_lapsed"


async def test_a_sweep_of_messages_is_bounded(sink: Sink, travel: "Travel") -> None:
    await sink.sealed("a", *(draft(str(n), f"c{n}") for n in range(5)))
    assert len(await sink.take()) == 5
    await travel(31)
    assert [await sink.sweep_messages(2) for _ in range(4)] == [2, 2, 1, 0]


async def test_one_turn_that_cannot_be_put_back_keeps_no_other_from_it(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turns = [(await sink.hold(f"{n}")).turn for n in range(3)]
    await travel(61)
    await admin.execute(f"""
        create function sink.refuse() returns trigger language plpgsql
        as $$ begin raise exception 'refused'; end $$;
        create trigger refuse before update on sink.turn for each row
        when (old.id = '{turns[1]}') execute function sink.refuse();
    """)
    swept = await sweep.sweep_turns(
        sink.pool, policies=sink.turn_policies, turns_max=10, jitter=sink.jitter
    )
    assert (swept.found, swept.states, len(swept.failed)) == (3, {"queued": 2}, 1)
    assert [await sink.state(turn) for turn in turns] == ["queued", "processing", "queued"]
    await admin.execute("drop trigger refuse on sink.turn")
    assert await sink.sweep_turns() == {"queued": 1}
