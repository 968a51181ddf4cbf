"""Every verb with every parameter that makes a difference, played against whatever turn was placed."""

import re
from dataclasses import replace
from uuid import UUID

from app.domain.model import Claimed, DeliveryPolicy, Taken, TurnPolicy
from app.domain.outcome import Delivered, Outcome, Rejected, RetryLater, Unknown
from app.domain.retry import after_attempt
from tests.engine import waiting_plays
from tests.engine.situations import OLD_SECONDS
from tests.engine.stories import (
    CRM,
    DEAD,
    DELIVERY_POLICY,
    JOINING,
    LATER,
    QUEUE,
    TURN_POLICY,
    Sink,
    draft,
    returning,
    sealing,
    still_holds,
)
from tests.engine.waiting_plays import Moved, Play

LAST_TURN_ATTEMPT = replace(TURN_POLICY, attempts_max=1, releases_max=0)
LAST_DELIVERY_ATTEMPT = replace(DELIVERY_POLICY, attempts_max=1)
HOLDING = replace(DELIVERY_POLICY, on_unknown="hold")


def _turns(policy: TurnPolicy, play: Play) -> Play:
    async def played(sink: Sink, held: Claimed, taken: Taken | None) -> set[Moved] | None:
        return await play(replace(sink, turn_policies={QUEUE: policy}), held, taken)

    return played


def _messages(policy: DeliveryPolicy, play: Play) -> Play:
    async def played(sink: Sink, held: Claimed, taken: Taken | None) -> set[Moved] | None:
        return await play(replace(sink, delivery_policies={CRM: policy}), held, taken)

    return played


async def _accept(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.accept_one("new")
    await sink.accept_one("new in the lane", "c")
    await sink.accept_one("new and later", "c", delay_seconds=60)
    await sink.accept_one("a", "c")


async def _join(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.accept_one("joins", "c", joining=JOINING)
    await sink.accept_one("comes later", "c", joining=JOINING, delay_seconds=60)
    await sink.accept_one("joins too", "c", joining=JOINING)


async def _due(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.due()
    await sink.due_after_pause()


async def _claim(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.claim(10)


async def _claim_what_is_young(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.claim(10, input_age_seconds_max=OLD_SECONDS)


async def _renew(sink: Sink, held: Claimed, _taken: Taken | None) -> set[Moved]:
    (outcome,) = await sink.renew(held)
    return {("renew", "processing", "processing")} if still_holds(outcome) else set()


async def _release(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.release(returning(held))


async def _fail(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.release(returning(held, failed=True))


async def _fail_for_good(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.release(returning(held, final=True))


async def _seal(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.seal(sealing(held, draft("new", "c"), draft("new")))


async def _seal_nothing(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.seal(sealing(held))


async def _turns_of(sink: Sink) -> list[UUID]:
    async with sink.pool.acquire() as connection:
        return [row["id"] for row in await connection.fetch("select id from sink.turn")]


async def _messages_of(sink: Sink) -> list[UUID]:
    async with sink.pool.acquire() as connection:
        return [row["id"] for row in await connection.fetch("select id from sink.outbox")]


async def _cancel(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for _ in range(2):
        await sink.cancel(*await _turns_of(sink))


async def _cancel_one(sink: Sink, held: Claimed, _taken: Taken | None) -> None:
    await sink.cancel(held.turn)


async def _cancel_messages(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for _ in range(2):
        await sink.cancel_messages(*await _messages_of(sink))


async def _redrive(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for _ in range(2):
        await sink.redrive(*await _turns_of(sink))


async def _redrive_messages(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for _ in range(2):
        await sink.redrive_messages(*await _messages_of(sink))


async def _resolve_as_delivered(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for _ in range(2):
        await sink.resolve(*await _messages_of(sink), state="delivered")


async def _resolve_as_cancelled(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for _ in range(2):
        await sink.resolve(*await _messages_of(sink), state="cancelled")


async def _resend(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    for _ in range(2):
        await sink.ask_resend(*await _messages_of(sink))
    taken = await sink.take_resends()
    await sink.settle_resends(*((one, LATER) for one in taken[:1]))
    await sink.settle_resends(*((one, DEAD) for one in taken[1:]))


async def _sweep_turns(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.sweep_turns()


async def _sweep_messages(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.sweep_messages()


async def _take(sink: Sink, _held: Claimed, _taken: Taken | None) -> None:
    await sink.take()


async def _tell(sink: Sink, _held: Claimed, taken: Taken | None) -> None:
    if taken is not None:
        await sink.tell(taken)


def _settle(outcome: Outcome) -> Play:
    async def play(sink: Sink, _held: Claimed, taken: Taken | None) -> None:
        if taken is None:
            return
        verdict = after_attempt(
            outcome,
            attempts_used=taken.attempts_used,
            may_have_arrived=taken.may_have_arrived,
            age_seconds=taken.age_seconds,
            policy=sink.delivery_policies[CRM],
            jitter=0.0,
        )
        await sink.settle((taken, verdict))

    return play


VERBS: dict[str, Play] = {
    "accept": _accept,
    "join": _join,
    "due": _due,
    "claim": _claim,
    "claim what is young": _claim_what_is_young,
    "renew": _renew,
    "release": _release,
    "release, none left": _turns(LAST_TURN_ATTEMPT, _release),
    "fail": _fail,
    "fail, none left": _turns(LAST_TURN_ATTEMPT, _fail),
    "fail for good": _fail_for_good,
    "seal": _seal,
    "seal nothing": _seal_nothing,
    "sweep turns": _sweep_turns,
    "sweep turns, none left": _turns(LAST_TURN_ATTEMPT, _sweep_turns),
    "take": _take,
    "settle delivered": _settle(Delivered("r")),
    "settle later": _settle(RetryLater("busy")),
    "settle later, none left": _messages(LAST_DELIVERY_ATTEMPT, _settle(RetryLater("busy"))),
    "settle rejected": _settle(Rejected("no")),
    "settle unknown": _settle(Unknown("timeout")),
    "settle unknown, held": _messages(HOLDING, _settle(Unknown("timeout"))),
    "settle unknown, none left": _messages(LAST_DELIVERY_ATTEMPT, _settle(Unknown("timeout"))),
    "sweep messages": _sweep_messages,
    "sweep messages, held": _messages(HOLDING, _sweep_messages),
    "sweep messages, none left": _messages(LAST_DELIVERY_ATTEMPT, _sweep_messages),
    "fact": _tell,
    "cancel": _cancel,
    "cancel one": _cancel_one,
    "cancel messages": _cancel_messages,
    "redrive": _redrive,
    "redrive messages": _redrive_messages,
    "resend": _resend,
    "resolve as delivered": _resolve_as_delivered,
    "resolve as cancelled": _resolve_as_cancelled,
    **waiting_plays.VERBS,
}
# The verbs that show what they may do: each is also tried with what was never given to anybody.
FENCED = [name for name in VERBS if re.match("renew|release|fail|park|seal|settle|fact", name)]
