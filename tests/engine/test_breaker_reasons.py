"""A destination says itself that nothing is to be sent: its key is refused, it is gone, or it asks to be left alone."""

from dataclasses import replace
from typing import TYPE_CHECKING

from app.domain.breaker import BreakerMove, BreakerPolicy
from app.domain.model import Slots
from app.domain.outcome import Delivered
from app.engine import take
from app.engine.breaker import reset_breaker
from app.engine.transaction import transact
from tests.database import Clock
from tests.engine.breaker_stories import (
    ASKED,
    FAILS,
    GONE,
    POLICY,
    UNAUTHORIZED,
    breaker_of,
    end,
    seal_messages,
    try_one,
)
from tests.engine.stories import CRM, Sink, draft

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_a_revoked_credential_opens_it_at_once_and_costs_nothing(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    await seal_messages(sink, 3)
    (settled,) = await try_one(sink, UNAUTHORIZED, policy=replace(POLICY, attempts_max=1))
    assert settled.breaker == BreakerMove(CRM, "closed", "open", "unauthorized", 5.0)
    assert await admin.fetchval("select max(attempts_used) from sink.outbox") == 0
    await travel(6)
    await try_one(sink, UNAUTHORIZED)
    assert await breaker_of(sink) == ("open", "unauthorized")
    await travel(11)
    await try_one(sink, Delivered())
    assert await breaker_of(sink) == ("closed", None)


async def test_who_is_gone_is_sent_nothing_until_a_person_resumes_it(
    sink: Sink, travel: "Travel", admin: "Admin"
) -> None:
    turn, _ = await sink.sealed("a", draft("1"), draft("2", "c"))
    first, second = await sink.take()
    (settled,) = await end(sink, (first, GONE))
    assert settled.breaker == BreakerMove(CRM, "closed", "disabled", "gone", None)
    await end(sink, (second, FAILS))
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
    await end(sink, *((one, Delivered()) for one in taken))
    assert await sink.state(turn) == "replied"


async def test_a_delivery_from_before_does_not_bring_back_who_is_gone(sink: Sink) -> None:
    await seal_messages(sink, 2)
    first, second = await sink.take(2)
    await end(sink, (first, GONE))
    await end(sink, (second, Delivered()))
    assert await breaker_of(sink) == ("disabled", "gone")


async def test_who_asks_to_be_left_alone_is_sent_nothing_meanwhile_and_age_goes_on(
    sink: Sink, clock: Clock, admin: "Admin"
) -> None:
    await clock.freeze()
    await seal_messages(sink, 3)
    await try_one(sink, ASKED, policy=replace(POLICY, breaker=BreakerPolicy(3, 5.0, 60.0)))
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
    assert await breaker_of(sink) == ("closed", None)
