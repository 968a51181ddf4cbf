"""Attempts at one destination and how they end, for tests of what stops a destination."""

from typing import Any

from app.domain.breaker import BreakerMove, BreakerPolicy
from app.domain.model import DeliveryPolicy, Settled, Taken
from app.domain.outcome import Answer, Outcome, Rejected, RetryLater, Shut, Unknown
from app.engine.breaker import find_destinations
from app.engine.settle import settle
from tests.engine.delivering_stories import ending
from tests.engine.stories import CRM, Sink, draft

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


async def seal_messages(sink: Sink, count: int) -> None:
    await sink.sealed("many", *(draft(str(n), f"c{n}") for n in range(count)))


async def end(
    sink: Sink, *ended: tuple[Taken, Outcome], policy: DeliveryPolicy = POLICY
) -> list[Settled]:
    """What a worker does with outcomes."""
    settlements = [ending(one, outcome, policy) for one, outcome in ended]
    return await settle(sink.pool, settlements, policies={CRM: policy})


async def try_one(sink: Sink, outcome: Outcome, **changes: Any) -> list[Settled]:
    return await end(sink, (await sink.take_one(), outcome), **changes)


async def breaker_of(sink: Sink) -> tuple[str, str | None]:
    view = (await find_destinations(sink.pool, [CRM]))[CRM]
    return view.breaker, view.reason


async def open_breaker(sink: Sink, *, messages: int = 5) -> None:
    """Three in vain, one after the other."""
    await seal_messages(sink, messages)
    for _ in range(2):
        await try_one(sink, REFUSED)
    (settled,) = await try_one(sink, REFUSED)
    assert settled.breaker == BreakerMove(CRM, "closed", "open", "failing", 5.0)
