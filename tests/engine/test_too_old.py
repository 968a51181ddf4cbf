"""Input that nobody is waiting for any more fails at its claim, and the next one is given."""

from typing import TYPE_CHECKING, Any

from tests.engine.stories import JOINING, Sink, arrival, only, wish

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin
    from tests.engine.suspense import Suspend

AGE: dict[str, Any] = {"input_age_seconds_max": 100.0}


async def test_input_that_is_too_old_fails_and_the_next_of_its_lane_is_given(
    sink: Sink, travel: "Travel"
) -> None:
    old = await sink.accept_one("a", "c")
    await travel(60)
    young = await sink.accept_one("b", "c")
    await travel(41)
    assert (await sink.claim_one(**AGE)).turn == young.turn
    view = await sink.look(old.turn)
    assert (view.state, view.reason, view.attempt) == ("failed", "too_old", 0)
    assert await sink.story(old.turn) == [("accept", None, "queued"), ("claim", "queued", "failed")]


async def test_exactly_old_enough_is_given_and_so_is_anything_without_a_bound(
    sink: Sink, travel: "Travel"
) -> None:
    await sink.accept_one("a")
    await travel(99)
    held = await sink.claim_one(**AGE)
    await sink.hand_back(held)
    await travel(10_000)
    assert (await sink.claim_one()).turn == held.turn


async def test_a_lane_of_old_input_is_worked_off_at_one_claim(sink: Sink, travel: "Travel") -> None:
    await sink.accept(*(arrival(f"k{n}", "c") for n in range(30)))
    await sink.accept(*(arrival(f"n{n}") for n in range(30)))
    await travel(101)
    young = await sink.accept_one("young", "c")
    assert [one.turn for one in await sink.claim(10, **AGE)] == [young.turn]
    assert await sink.claim(10) == []


async def test_what_is_given_beside_it_is_given(sink: Sink, travel: "Travel") -> None:
    old = await sink.accept_one("a")
    await travel(101)
    young = await sink.accept(*(arrival(f"k{n}") for n in range(3)))
    assert {one.turn for one in await sink.claim(10, **AGE)} == {one.turn for one in young}
    assert await sink.state(old.turn) == "failed"


async def test_one_queue_is_bounded_and_another_one_is_not(sink: Sink, travel: "Travel") -> None:
    await sink.accept(arrival("a"), arrival("b", queue="other"))
    await travel(101)
    answers = await sink.claim_for(wish(**AGE), wish(queue="other"))
    assert [len(answer) for answer in answers] == [0, 1]


async def test_scheduled_time_does_not_count(sink: Sink, travel: "Travel") -> None:
    scheduled = await sink.accept_one("a", delay_seconds=1_000)
    await travel(1_001)
    await sink.due()
    await travel(98)
    assert (await sink.claim_one(**AGE)).turn == scheduled.turn


async def test_time_behind_a_paused_source_does_not_count_and_in_a_paused_queue_it_does(
    sink: Sink, travel: "Travel"
) -> None:
    await sink.pause("source", "api")
    held = await sink.accept_one("a")
    await travel(1_000)
    await sink.resume("source", "api")
    await sink.due_after_pause()
    await sink.pause("queue", "default")
    await travel(50)
    assert await sink.claim(1, **AGE) == []
    assert await sink.state(held.turn) == "queued"
    await travel(51)
    # Nothing ends while it is paused.
    assert await sink.claim(1, **AGE) == []
    assert await sink.state(held.turn) == "queued"
    await sink.resume("queue", "default")
    assert await sink.claim(1, **AGE) == []
    assert await sink.state(held.turn) == "failed"


async def test_a_redrive_counts_its_age_anew(sink: Sink, travel: "Travel") -> None:
    old = await sink.accept_one("a", "c")
    await travel(101)
    assert await sink.claim(1, **AGE) == []
    assert only(await sink.redrive(old.turn)).state == "queued"
    await travel(98)
    assert (await sink.claim_one(**AGE)).turn == old.turn


async def test_an_attempt_that_was_put_back_may_be_too_old_for_the_next(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a", "c", **AGE)
    await travel(61)
    await sink.sweep_turns()
    await travel(60)
    assert await sink.claim(1, **AGE) == []
    view = await sink.look(held.turn)
    assert (view.state, view.reason, view.attempt) == ("failed", "too_old", 1)


async def test_what_joined_ages_with_the_first(sink: Sink, travel: "Travel") -> None:
    gathering = await sink.accept_one("a", "c", joining=JOINING)
    await travel(101)
    joined = await sink.accept_one("b", "c", joining=JOINING)
    assert joined.turn == gathering.turn
    await travel(3)
    assert await sink.claim(1, **AGE) == []


async def test_what_failed_unseen_and_was_redriven_gathers_again(
    sink: Sink, travel: "Travel"
) -> None:
    old = await sink.accept_one("a", "c", joining=JOINING)
    await travel(101)
    assert await sink.claim(1, **AGE) == []
    await sink.redrive(old.turn)
    # Nobody was ever given it.
    assert (await sink.accept_one("b", "c", joining=JOINING)).turn == old.turn
    await travel(3)
    assert len((await sink.claim_one(**AGE)).inbound) == 2


async def test_old_input_that_another_claim_looks_at_is_ended_once(
    sink: Sink, suspend: "Suspend", travel: "Travel", admin: "Admin"
) -> None:
    old = await sink.accept_one("a", "c")
    await travel(101)
    young = await sink.accept_one("b", "c")
    async with suspend() as first:
        (held,) = await first.sink.claim(1, **AGE)
        assert held.turn == young.turn
        # The lane is being moved: whoever comes meanwhile finds nothing to take, and waits for nothing.
        assert await sink.claim(1, **AGE) == []
    assert await sink.claim(1, **AGE) == []
    ended = "select count(*) from sink.event where turn = $1 and to_state = 'failed'"
    assert await admin.fetchval(ended, old.turn) == 1
