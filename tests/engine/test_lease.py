"""Until it is swept the holder holds; a token that no longer holds is told why; a release is free, a failure counts."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.domain.model import Claimed, HandedBack, LeaseLost, NoSuchTurn, Renewed
from tests.engine.stories import (
    QUEUE,
    TURN_POLICY,
    Sink,
    arrival,
    draft,
    only,
    returning,
    sealing,
)

if TYPE_CHECKING:
    from tests.conftest import Freeze, Travel
    from tests.database import Admin

Asking = Callable[[Sink, Claimed], Awaitable[object]]


async def _renew(sink: Sink, held: Claimed) -> object:
    return only(await sink.renew(held))


async def _release(sink: Sink, held: Claimed) -> object:
    return only(await sink.release(returning(held)))


async def _fail(sink: Sink, held: Claimed) -> object:
    return only(await sink.release(returning(held, failed=True)))


async def _seal(sink: Sink, held: Claimed) -> object:
    return only(await sink.seal(sealing(held, draft("another"))))


FENCED = pytest.mark.parametrize("ask", [_renew, _release, _fail, _seal])


async def _waits_seconds(admin: "Admin", held: Claimed) -> float:
    return float(
        await admin.fetchval(
            "select extract(epoch from due_at - sink.now()) from sink.turn where id = $1", held.turn
        )
    )


async def test_a_renewal_restores_the_claimed_lease(
    sink: Sink, admin: "Admin", freeze: "Freeze", travel: "Travel"
) -> None:
    held = await sink.hold("a", lease_seconds=90)
    await travel(80)
    await freeze()
    assert await sink.renew(held) == [Renewed(90.0, 0)]
    left = "select extract(epoch from lease_expires_at - sink.now())::int from sink.turn"
    assert await admin.fetchval(left) == 90


async def test_until_swept_the_holder_holds(sink: Sink, travel: "Travel") -> None:
    one, other = await sink.hold("a"), await sink.hold("b")
    await travel(10_000)
    assert await sink.renew(one) == [Renewed(60.0, 0)]
    assert await sink.hand_back(other) == "queued"
    await travel(10_000)
    assert (await sink.seal_one(one, draft())).state == "sealed"


async def test_a_list_has_one_outcome_each(sink: Sink) -> None:
    one, two = await sink.hold("a"), await sink.hold("b")
    lost = replace(one, token=uuid4())
    missing = replace(one, turn=uuid4())
    assert await sink.renew(lost, one, missing, two, one) == [
        LeaseLost("swept", "processing"),
        Renewed(60.0, 0),
        NoSuchTurn(),
        Renewed(60.0, 0),
        Renewed(60.0, 0),
    ]
    assert await sink.release(returning(two), returning(lost), returning(missing)) == [
        HandedBack("queued"),
        LeaseLost("swept", "processing"),
        NoSuchTurn(),
    ]


@FENCED
async def test_a_swept_token_is_told_so(sink: Sink, travel: "Travel", ask: Asking) -> None:
    held = await sink.hold("a", "c")
    await travel(61)
    await sink.sweep_turns()
    assert await ask(sink, held) == LeaseLost("swept", "queued")
    await travel(100)
    holder = await sink.claim_one()
    assert await ask(sink, held) == LeaseLost("swept", "processing")
    assert await sink.renew(holder) == [Renewed(60.0, 0)]


@FENCED
async def test_a_released_token_is_told_so(sink: Sink, ask: Asking) -> None:
    held = await sink.hold("a", "c")
    await sink.hand_back(held)
    outcome = await ask(sink, held)
    # A hand-back that is repeated is answered again, whatever it says.
    repeated = ask in (_release, _fail)
    assert outcome == (HandedBack("queued") if repeated else LeaseLost("released", "queued"))


async def test_each_token_is_told_how_its_own_attempt_ended(sink: Sink, travel: "Travel") -> None:
    released = await sink.hold("a")
    await sink.hand_back(released)
    swept = await sink.claim_one()
    await travel(61)
    await sink.sweep_turns()
    await travel(2)
    sealed = await sink.claim_one()
    await sink.seal_one(sealed)
    assert await sink.renew(released, swept, sealed) == [
        LeaseLost("released", "replied"),
        LeaseLost("swept", "replied"),
        LeaseLost("sealed", "replied"),
    ]


@FENCED
async def test_a_token_that_was_sealed_is_told_so(sink: Sink, ask: Asking) -> None:
    held = await sink.hold("a", "c")
    sealed = await sink.seal_one(held, draft("first"))
    outcome = await ask(sink, held)
    if ask is _seal:
        assert getattr(outcome, "payload_hash", None) == sealed.payload_hash
        assert type(outcome).__name__ == "AlreadySealed"
    else:
        assert outcome == LeaseLost("sealed", "sealed")


@FENCED
async def test_a_turn_that_does_not_exist_is_told_so(sink: Sink, ask: Asking) -> None:
    held = await sink.hold("a")
    assert await ask(sink, replace(held, turn=uuid4())) == NoSuchTurn()


@FENCED
async def test_a_token_of_another_turn_moves_neither(sink: Sink, ask: Asking) -> None:
    one, other = await sink.hold("a"), await sink.hold("b")
    assert isinstance(await ask(sink, replace(one, token=other.token)), LeaseLost)
    assert await sink.renew(one, other) == [Renewed(60.0, 0), Renewed(60.0, 0)]


async def test_a_token_that_does_not_hold_prolongs_nothing(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    held = await sink.hold("a")
    until = "select lease_expires_at from sink.turn"
    before = await admin.fetchval(until)
    await travel(10)
    await sink.renew(replace(held, token=uuid4()))
    assert await admin.fetchval(until) == before


async def test_a_release_is_free_and_gives_the_turn_to_the_next_at_once(sink: Sink) -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=1)}
    held = await sink.hold("a", "c")
    for attempt in range(2, 6):
        assert await sink.hand_back(held) == "queued"
        held = await sink.claim_one()
        assert held.attempt == attempt
    assert await sink.hand_back(held, failed=True) == "failed"


async def test_a_release_may_ask_for_a_pause(sink: Sink, travel: "Travel") -> None:
    await sink.hand_back(await sink.hold("a"), delay_seconds=30.0)
    assert await sink.claim(1) == []
    await travel(31)
    assert len(await sink.claim(1)) == 1


async def test_releases_have_a_cap_of_their_own(sink: Sink) -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, releases_max=2)}
    held = await sink.hold("a", "c")
    for _ in range(2):
        assert await sink.hand_back(held) == "queued"
        held = await sink.claim_one()
    assert await sink.hand_back(held) == "failed"
    assert (await sink.look(held.turn)).reason == "releases_exhausted"


async def test_a_repeated_hand_back_counts_once(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a")
    await sink.hand_back(held)
    assert await sink.release(returning(held), returning(held)) == [HandedBack("queued")] * 2
    assert await admin.fetchval("select releases from sink.turn") == 1


async def test_the_same_hand_back_twice_in_one_list_counts_once(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a")
    assert await sink.release(returning(held), returning(held)) == [HandedBack("queued")] * 2
    assert await admin.fetchval("select releases from sink.turn") == 1


async def test_failing_backs_off_doubling_up_to_a_minute(
    sink: Sink, admin: "Admin", freeze: "Freeze", travel: "Travel"
) -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=100)}
    await sink.accept_one("a", "c")
    for wanted in (1, 2, 4, 8, 16, 32, 60, 60):
        held = await sink.claim_one()
        await freeze()
        assert await sink.hand_back(held, failed=True) == "queued"
        assert wanted <= await _waits_seconds(admin, held) <= wanted * 1.2
        assert await sink.claim(1) == []
        await travel(wanted * 1.2)


async def test_a_failure_may_ask_for_a_longer_pause_and_for_no_shorter(
    sink: Sink, admin: "Admin", freeze: "Freeze"
) -> None:
    one, two = await sink.hold("a"), await sink.hold("b")
    await freeze()
    await sink.hand_back(one, failed=True, delay_seconds=300.0)
    await sink.hand_back(two, failed=True, delay_seconds=0.1)
    assert await _waits_seconds(admin, one) == 300.0
    assert await _waits_seconds(admin, two) >= 1.0


async def test_a_turn_that_backs_off_keeps_its_lane(sink: Sink, travel: "Travel") -> None:
    first = await sink.hold("a", "c")
    await sink.accept_one("b", "c")
    await sink.hand_back(first, failed=True)
    assert await sink.claim(5) == []
    await travel(2)
    assert [one.turn for one in await sink.claim(5)] == [first.turn]


async def test_the_last_failure_fails_the_turn_and_frees_its_lane(
    sink: Sink, travel: "Travel"
) -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=2)}
    first = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    assert await sink.hand_back(first, failed=True) == "queued"
    await travel(2)
    assert await sink.hand_back(await sink.claim_one(), failed=True) == "failed"
    assert (await sink.look(first.turn)).reason == "attempts_exhausted"
    assert [one.turn for one in await sink.claim(5)] == [behind.turn]


async def test_a_final_failure_fails_the_turn_at_once_and_frees_its_lane(sink: Sink) -> None:
    first = await sink.hold("a", "c")
    behind = await sink.accept_one("b", "c")
    assert await sink.hand_back(first, final=True, reason="no such customer") == "failed"
    assert (await sink.look(first.turn)).reason == "no such customer"
    assert await sink.story(behind.turn) == [
        ("accept", None, "waiting"),
        ("promote", "waiting", "queued"),
    ]
    assert await sink.release(returning(first, final=True)) == [HandedBack("failed")]


async def test_an_unconfigured_queue_waits_and_never_fails(sink: Sink, travel: "Travel") -> None:
    sink.turn_policies = {}
    held = await sink.hold("a")
    for _ in range(30):
        assert await sink.hand_back(held, failed=True) == "queued"
        await travel(100)
        held = await sink.claim_one()
        assert await sink.hand_back(held) == "queued"
        held = await sink.claim_one()


async def test_many_are_handed_back_at_once(sink: Sink) -> None:
    await sink.accept(*(arrival(f"k{n}", f"c{n % 10}") for n in range(30)))
    held = await sink.claim(50)
    assert len(held) == 10
    outcomes = await sink.release(*(returning(one, final=True) for one in held))
    assert outcomes == [HandedBack("failed")] * 10
    assert len(await sink.claim(50)) == 10
