"""A breaker pauses and probes over all replicas, and never drops: what waits loses neither attempts nor age."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.breaker import BreakerMove, BreakerPolicy
from app.domain.model import DeliveryPolicy, Settled, Settlement, Slots, Taken
from app.domain.outcome import Answer, Delivered, Outcome, Rejected, RetryLater, Shut, Unknown
from app.domain.retry import after_attempt
from app.engine import take
from app.engine.breaker import find_destinations, recount, reset_breaker
from app.engine.settle import settle
from app.engine.transaction import transact
from tests.database import Clock
from tests.engine.stories import CRM, Sink, draft
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

POLICY = DeliveryPolicy(
    attempts_max=4,
    age_seconds_max=1_000.0,
    backoff_seconds=0.0,
    backoff_seconds_max=0.0,
    breaker=BreakerPolicy(failures=3, seconds=5.0, seconds_max=30.0),
)
FAILS = Unknown("timeout")
REFUSED = RetryLater("connection_refused")
UNAUTHORIZED = RetryLater("http_401", counted=False, answer=Answer(401), shut=Shut.UNAUTHORIZED)
GONE = RetryLater("http_410", counted=False, answer=Answer(410), shut=Shut.GONE)
REJECTED = Rejected("http_422", answer=Answer(422))
ASKED = RetryLater("http_429", 120.0, counted=False, answer=Answer(429))


async def _messages(sink: Sink, count: int) -> None:
    await sink.sealed("many", *(draft(str(n), f"c{n}") for n in range(count)))


async def _end(
    sink: Sink, *ended: tuple[Taken, Outcome], policy: DeliveryPolicy = POLICY
) -> list[Settled]:
    """What a worker does with outcomes."""
    settlements = [
        Settlement(
            one.message,
            one.attempt_id,
            after_attempt(
                outcome,
                attempts_used=one.attempts_used,
                may_have_arrived=one.may_have_arrived,
                age_seconds=one.age_seconds,
                policy=policy,
                jitter=0.0,
            ),
        )
        for one, outcome in ended
    ]
    return await settle(sink.pool, settlements, policies={CRM: policy})


async def _try(sink: Sink, outcome: Outcome, **changes: Any) -> list[Settled]:
    return await _end(sink, (await sink.take_one(), outcome), **changes)


async def _breaker(sink: Sink) -> tuple[str, str | None]:
    view = (await find_destinations(sink.pool, [CRM]))[CRM]
    return view.breaker, view.reason


async def _open(sink: Sink, *, messages: int = 5) -> None:
    """Three in vain, one after the other."""
    await _messages(sink, messages)
    for _ in range(2):
        await _try(sink, REFUSED)
    (settled,) = await _try(sink, REFUSED)
    assert settled.breaker == BreakerMove(CRM, "closed", "open", "failing", 5.0)


async def test_it_opens_after_so_many_in_vain_and_stops_every_replica(sink: Sink) -> None:
    await _messages(sink, 5)
    for _ in range(2):
        await _try(sink, REFUSED)
    assert await _breaker(sink) == ("closed", None)
    await _try(sink, FAILS)
    assert await _breaker(sink) == ("open", "failing")
    takes = await take.take(sink.pool, [Slots(CRM, 10, 30.0)])
    assert takes.messages == []
    assert takes.limits == {CRM: "breaker"}
    assert takes.rest_seconds is not None
    assert 4 < takes.rest_seconds <= 5


@pytest.mark.parametrize("answered", [Delivered(), REJECTED], ids=["delivered", "rejected"])
async def test_an_answer_in_between_begins_the_count_anew(sink: Sink, answered: Outcome) -> None:
    await _messages(sink, 9)
    for outcome in (REFUSED, REFUSED, answered, REFUSED, REFUSED):
        await _try(sink, outcome)
    assert await _breaker(sink) == ("closed", None)
    await _try(sink, REFUSED)
    assert await _breaker(sink) == ("open", "failing")


async def test_a_batch_counts_in_the_order_in_which_its_attempts_ended(sink: Sink) -> None:
    await _messages(sink, 12)
    one, two, three, four = await sink.take(4)
    await _end(sink, (one, REFUSED), (two, REFUSED), (three, Delivered()), (four, REFUSED))
    assert await _breaker(sink) == ("closed", None)
    one, two, three, four = await sink.take(4)
    await _end(sink, (one, Delivered()), (two, REFUSED), (three, REFUSED), (four, REFUSED))
    assert await _breaker(sink) == ("open", "failing")


async def test_one_probe_comes_when_its_time_has_come_and_no_other_beside_it(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    await _open(sink)
    await travel(4)
    assert await sink.take() == []
    await travel(2)
    async with suspend() as first:
        probe = await first.sink.take()
        second = await first.blocks(sink.take())
    assert (len(probe), second.result()) == (1, [])
    assert await sink.take() == []
    assert await _breaker(sink) == ("probing", "failing")


async def test_a_probe_that_succeeds_lets_everybody_go_on(sink: Sink, travel: "Travel") -> None:
    await _open(sink)
    await travel(6)
    (settled,) = await _try(sink, Delivered())
    assert settled.breaker == BreakerMove(CRM, "probing", "closed", None, None)
    assert len(await sink.take()) == 4


async def test_a_probe_that_is_rejected_shows_that_it_works(sink: Sink, travel: "Travel") -> None:
    await _open(sink)
    await travel(6)
    await _try(sink, REJECTED)
    assert await _breaker(sink) == ("closed", None)


async def test_each_probe_in_vain_doubles_the_rest_up_to_its_maximum(
    sink: Sink, clock: Clock
) -> None:
    await clock.freeze()
    await _open(sink)
    rests = [5.0]
    for _ in range(4):
        await clock.step(rests[-1] - 0.1)
        assert await sink.take() == []
        await clock.step(0.1)
        (settled,) = await _try(sink, FAILS)
        assert settled.breaker is not None
        assert settled.breaker.seconds is not None
        rests.append(settled.breaker.seconds)
    assert rests == [5, 10, 20, 30, 30]
    await clock.step(30)
    await _try(sink, Delivered())
    for _ in range(2):
        await _try(sink, FAILS)
    (settled,) = await _try(sink, FAILS)
    assert settled.breaker is not None
    assert settled.breaker.seconds == 5


async def test_a_probe_waits_for_those_that_began_before(sink: Sink, travel: "Travel") -> None:
    await _messages(sink, 6)
    *quick, slow = await sink.take(4)
    await _end(sink, *((one, REFUSED) for one in quick))
    await travel(6)
    assert await sink.take() == []
    await _end(sink, (slow, FAILS))
    assert len(await sink.take()) == 1


async def test_one_that_began_before_and_arrives_closes_it(sink: Sink) -> None:
    await _messages(sink, 6)
    *quick, slow = await sink.take(4)
    await _end(sink, *((one, REFUSED) for one in quick))
    await _end(sink, (slow, Delivered()))
    assert await _breaker(sink) == ("closed", None)


async def test_those_that_began_before_and_fail_change_nothing_and_lose_nothing(
    sink: Sink, admin: "Admin"
) -> None:
    await _messages(sink, 6)
    *quick, slow = await sink.take(4)
    await _end(sink, *((one, REFUSED) for one in quick))
    (settled,) = await _end(sink, (slow, FAILS))
    assert settled.breaker is None
    row = await admin.fetchrow("select * from sink.outbox where id = $1", slow.message)
    assert row is not None
    assert (row["attempts"], row["attempts_used"]) == (1, 0)
    assert row["may_have_arrived"]


async def test_a_long_outage_costs_a_message_neither_attempts_nor_age(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    turn, (message,) = await sink.sealed("a", draft("1"))
    for _ in range(3):
        await _try(sink, REFUSED)
    for _ in range(100):
        await travel(31)
        await _try(sink, FAILS)
    row = await admin.fetchrow("select * from sink.outbox where id = $1", message)
    assert row is not None
    assert (row["state"], row["reason"]) == ("pending", "timeout")
    assert (row["attempts"], row["attempts_used"]) == (103, 3)
    await travel(31)
    taken = await sink.take_one()
    assert taken.age_seconds < 60
    await _end(sink, (taken, Delivered()))
    assert await sink.state(turn) == "replied"


async def test_the_last_attempt_is_spared_while_it_is_not_closed(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    await _messages(sink, 1)
    last = replace(POLICY, attempts_max=3)
    await _try(sink, REFUSED)
    await _try(sink, REFUSED)
    await admin.execute(
        "update sink.destination set breaker = 'open', opened_at = sink.now(), probe_at = sink.now()"
    )
    await admin.execute("insert into sink.standstill values ('crm', 'breaker', sink.now())")
    await travel(1)
    await _try(sink, REFUSED, policy=last)
    row = await admin.fetchrow("select * from sink.outbox")
    assert row is not None
    assert (row["state"], row["reason"], row["attempts_used"]) == (
        "pending",
        "connection_refused",
        2,
    )


async def test_a_rejected_probe_is_dead_as_ever(sink: Sink, travel: "Travel") -> None:
    turn, _ = await sink.sealed("a", draft("1"))
    for _ in range(3):
        await _try(sink, REFUSED)
    await travel(6)
    await _try(sink, REJECTED)
    assert await sink.states(turn) == ["dead"]


async def test_a_revoked_credential_opens_it_at_once_and_costs_nothing(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    await _messages(sink, 3)
    (settled,) = await _try(sink, UNAUTHORIZED, policy=replace(POLICY, attempts_max=1))
    assert settled.breaker == BreakerMove(CRM, "closed", "open", "unauthorized", 5.0)
    assert await admin.fetchval("select max(attempts_used) from sink.outbox") == 0
    await travel(6)
    await _try(sink, UNAUTHORIZED)
    assert await _breaker(sink) == ("open", "unauthorized")
    await travel(11)
    await _try(sink, Delivered())
    assert await _breaker(sink) == ("closed", None)


async def test_who_is_gone_is_sent_nothing_until_a_person_resumes_it(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    turn, _ = await sink.sealed("a", draft("1"), draft("2", "c"))
    first, second = await sink.take()
    (settled,) = await _end(sink, (first, GONE))
    assert settled.breaker == BreakerMove(CRM, "closed", "disabled", "gone", None)
    await _end(sink, (second, FAILS))
    assert await sink.states(turn) == ["pending", "pending"]
    assert await admin.fetchval("select max(attempts_used) from sink.outbox") == 0
    await travel(100_000)
    takes = await take.take(sink.pool, [Slots(CRM, 10, 30.0)])
    assert (takes.messages, takes.limits, takes.rest_seconds) == ([], {CRM: "breaker"}, None)
    assert await transact(sink.pool, lambda link: reset_breaker(link, CRM)) is True
    assert await transact(sink.pool, lambda link: reset_breaker(link, CRM)) is False
    taken = await sink.take()
    assert len(taken) == 2
    assert max(one.age_seconds for one in taken) < 60
    await _end(sink, *((one, Delivered()) for one in taken))
    assert await sink.state(turn) == "replied"


async def test_a_delivery_from_before_does_not_bring_back_who_is_gone(sink: Sink) -> None:
    await _messages(sink, 2)
    first, second = await sink.take(2)
    await _end(sink, (first, GONE))
    await _end(sink, (second, Delivered()))
    assert await _breaker(sink) == ("disabled", "gone")


async def test_who_asks_to_be_left_alone_is_sent_nothing_meanwhile_and_age_goes_on(
    sink: Sink, clock: Clock, admin: "Admin"
) -> None:
    await clock.freeze()
    await _messages(sink, 3)
    await _try(sink, ASKED, policy=replace(POLICY, breaker=BreakerPolicy(3, 5.0, 60.0)))
    takes = await take.take(sink.pool, [Slots(CRM, 10, 30.0)])
    # The message waits for as long as was asked, the others for a minute at the most.
    assert (takes.messages, takes.limits, takes.rest_seconds) == ([], {CRM: "asked"}, 60.0)
    await clock.step(60)
    others = await sink.take()
    assert (len(others), others[0].age_seconds) == (2, 60)
    await clock.step(59)
    assert await sink.take() == []
    await clock.step(1)
    assert (await sink.take_one()).age_seconds == 120
    assert await admin.fetchval("select count(*) from sink.standstill") == 0
    assert await _breaker(sink) == ("closed", None)


@pytest.mark.parametrize("ours", [Unknown("worker_stopped", ours=True), ASKED])
async def test_a_probe_that_tells_nothing_is_made_again(
    sink: Sink, travel: "Travel", ours: Outcome, admin: "Admin"
) -> None:
    await _open(sink)
    await travel(6)
    await _try(sink, ours)
    assert await _breaker(sink) == ("open", "failing")
    await admin.execute("update sink.destination set tokens_at = null")
    assert len(await sink.take()) == 1


async def test_workers_that_die_do_not_open_it_and_a_probe_that_dies_is_made_again(
    sink: Sink, travel: "Travel"
) -> None:
    await _messages(sink, 5)
    await sink.take()
    await travel(31)
    await sink.sweep_messages()
    assert await _breaker(sink) == ("closed", None)
    await travel(5)
    for _ in range(3):
        await _try(sink, REFUSED)
    await travel(6)
    assert len(await sink.take()) == 1
    await travel(31)
    await sink.sweep_messages()
    assert await _breaker(sink) == ("open", "failing")
    assert len(await sink.take()) == 1


async def test_a_settlement_that_dies_before_its_commit_neither_counts_nor_opens(
    sink: Sink, suspend: Suspend, travel: "Travel"
) -> None:
    await _messages(sink, 5)
    taken = await sink.take(3)
    async with suspend() as first:
        await _end(first.sink, *((one, REFUSED) for one in taken))
        first.roll_back()
    assert await _breaker(sink) == ("closed", None)
    assert await recount(sink.pool) == []
    await travel(31)
    assert await sink.sweep_messages() == 3


async def test_standstills_that_overlap_are_taken_off_once(sink: Sink, clock: Clock) -> None:
    await clock.freeze()
    await _open(sink)  # from 0
    await clock.step(100)
    await sink.pause("destination", CRM)  # 100
    await clock.step(50)
    await sink.pause("all")  # 150
    await clock.step(50)
    await sink.resume("destination", CRM)  # 200, which closes the breaker too
    await clock.step(100)
    await sink.resume("all")  # 300
    await clock.step(17)
    assert {one.age_seconds for one in await sink.take()} == {17}


async def test_the_sweep_takes_standstills_off_as_well(sink: Sink, clock: Clock) -> None:
    await clock.freeze()
    turn, _ = await sink.sealed("a", draft("1"))
    await sink.pause("destination", CRM)
    await clock.step(90_000)
    await sink.resume("destination", CRM)
    await sink.take_one()
    await clock.step(31)
    await sink.sweep_messages()
    assert await sink.states(turn) == ["pending"]


async def test_a_message_whose_key_may_be_forgotten_is_not_sent_again(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    turn, (message, behind) = await sink.sealed("a", draft("1"), draft("2"))
    remembers = [Slots(CRM, 10, 30.0, key_ttl_seconds=100.0)]
    (taken,) = (await take.take(sink.pool, remembers)).messages
    await _end(sink, (taken, FAILS))
    await travel(99)
    (taken,) = (await take.take(sink.pool, remembers)).messages
    await _end(sink, (taken, FAILS))
    await travel(2)
    assert (await take.take(sink.pool, remembers)).messages == []
    row = await admin.fetchrow("select * from sink.outbox where id = $1", message)
    assert row is not None
    assert (row["state"], row["reason"], row["attempts"]) == ("unknown", "key_expired", 2)
    assert await sink.state(turn) == "undelivered"
    # A person wants it in spite of that: then it is sent, and what its set waits for is sent behind it.
    await sink.redrive_messages(message)
    (taken,) = (await take.take(sink.pool, remembers)).messages
    assert taken.message == message
    await _end(sink, (taken, Delivered()))
    (taken,) = (await take.take(sink.pool, remembers)).messages
    assert taken.message == behind


async def test_a_message_that_certainly_did_not_arrive_is_sent_however_old_its_key(
    sink: Sink, travel: "Travel"
) -> None:
    await sink.sealed("a", draft("1"))
    remembers = [Slots(CRM, 10, 30.0, key_ttl_seconds=100.0)]
    (taken,) = (await take.take(sink.pool, remembers)).messages
    await _end(sink, (taken, REFUSED))
    await travel(500)
    assert len((await take.take(sink.pool, remembers)).messages) == 1
