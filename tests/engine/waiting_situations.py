"""A turn that waits, placed in every state of it, by the verbs themselves."""

from dataclasses import replace
from typing import Literal

from app.domain.model import Decided, DraftMessage, HoldPlan
from app.domain.seal import spell
from tests.engine.held_stories import (
    HOLD_SECONDS,
    PLAN,
    decide,
    deciding,
    expire,
    later,
    seal_held,
)
from tests.engine.situations import Placed, Situation, Stage
from tests.engine.stories import draft
from tests.engine.waiting_stories import telling

_SET = (draft("1", "c"), draft("2", "c"), draft("3"))


def _held(
    *drafts: DraftMessage, plan: HoldPlan = PLAN, next_: bool = True, seconds: float = 0.0
) -> Situation:
    async def situation(stage: Stage) -> Placed:
        held = await stage.sink.hold("a", "c")
        if next_:
            await stage.sink.accept_one("next", "c")
        later_ = (later("soon"), later("same", key="k"), later("again", key="k"))
        await seal_held(stage.sink, held, *drafts, follow_ups=later_, plan=plan)
        if seconds:
            await stage.clock.travel(seconds)
        return Placed(held)

    return situation


held = _held(*_SET)
held_alone = _held(*_SET, next_=False)
held_without_its_lane = _held(*_SET, plan=replace(PLAN, keeps_lane=False))
held_to_follow = _held()
held_past_its_deadline = _held(*_SET, seconds=HOLD_SECONDS + 1)
held_past_its_deadline_to_cancel = _held(
    *_SET, plan=replace(PLAN, on_deadline="cancel"), seconds=HOLD_SECONDS + 1
)
held_past_its_deadline_to_send = _held(
    *_SET, plan=replace(PLAN, on_deadline="send"), seconds=HOLD_SECONDS + 1
)
held_to_follow_past_its_deadline_to_send = _held(
    plan=replace(PLAN, on_deadline="send"), seconds=HOLD_SECONDS + 1
)


async def held_and_spoiled(stage: Stage) -> Placed:
    placed = await held(stage)
    await stage.admin.execute("update sink.outbox_payload set body = 'forged' where body = '2'")
    return placed


async def escalated(stage: Stage) -> Placed:
    placed = await held_past_its_deadline(stage)
    assert await expire(stage.sink) == {"escalated": 1}
    return placed


async def escalated_without_its_lane(stage: Stage) -> Placed:
    placed = await held_without_its_lane(stage)
    await stage.clock.travel(HOLD_SECONDS + 1)
    await expire(stage.sink)
    return placed


async def escalated_past_its_reminder(stage: Stage) -> Placed:
    placed = await escalated(stage)
    await stage.clock.travel(stage.sink.turn_policies["default"].reminder_seconds_max + 1)
    return placed


async def _decided(stage: Stage, decision: Literal["approve", "reject", "revise"]) -> Placed:
    placed = await held(stage)
    assert placed.held is not None
    view = await stage.sink.look(placed.held.turn)
    assert view.payload_hash is not None
    shown = spell(view.payload_hash)
    (outcome,) = await decide(stage.sink, deciding(placed.held.turn, shown, decision))
    assert isinstance(outcome, Decided)
    return placed


async def approved(stage: Stage) -> Placed:
    return await _decided(stage, "approve")


async def rejected(stage: Stage) -> Placed:
    return await _decided(stage, "reject")


async def sent_back(stage: Stage) -> Placed:
    return await _decided(stage, "revise")


async def sent_back_and_held_again(stage: Stage) -> Placed:
    await sent_back(stage)
    again = await stage.sink.claim_one()
    await seal_held(stage.sink, again, draft("better", "c"))
    return Placed(again)


async def parked(stage: Stage) -> Placed:
    placed = Placed(await stage.sink.parked("a", "c"))
    await stage.sink.accept_one("next", "c")
    return placed


async def parked_without_a_lane(stage: Stage) -> Placed:
    return Placed(await stage.sink.parked("a"))


async def parked_past_its_deadline(stage: Stage) -> Placed:
    placed = Placed(await stage.sink.parked("a", "c", seconds=10.0))
    await stage.clock.travel(11)
    return placed


async def parked_to_ask_a_person(stage: Stage) -> Placed:
    return Placed(await stage.sink.parked("a", "c", payload_hash="sha256:question"))


async def woken(stage: Stage) -> Placed:
    placed = await parked(stage)
    assert placed.held is not None
    await stage.sink.signal_one(placed.held.turn)
    return placed


async def processing_and_told(stage: Stage) -> Placed:
    held = await stage.sink.hold("a", "c")
    await stage.sink.signal(telling(held.turn))
    return Placed(held)


async def followed_up(stage: Stage) -> Placed:
    held = await stage.sink.hold("a", "c")
    follow_ups = (later("now", "c"), later("soon", delay_seconds=60.0), later("own"))
    await seal_held(stage.sink, held, draft("1", "c"), follow_ups=follow_ups, plan=None)
    return Placed(held)


async def a_follow_up_in_a_taken_lane(stage: Stage) -> Placed:
    await followed_up(stage)
    await stage.sink.due()
    return Placed(await stage.sink.claim_one())


async def told_of(stage: Stage) -> Placed:
    placed = await escalated(stage)
    await stage.sink.escalate()
    return placed


SITUATIONS: dict[str, Situation] = {
    "held": held,
    "held alone": held_alone,
    "held without its lane": held_without_its_lane,
    "held with nothing but what is to follow": held_to_follow,
    "held past its deadline": held_past_its_deadline,
    "held past its deadline, to cancel": held_past_its_deadline_to_cancel,
    "held past its deadline, to send": held_past_its_deadline_to_send,
    "held past its deadline, to send what is to follow": held_to_follow_past_its_deadline_to_send,
    "held and spoiled": held_and_spoiled,
    "escalated": escalated,
    "escalated without its lane": escalated_without_its_lane,
    "escalated past its reminder": escalated_past_its_reminder,
    "approved": approved,
    "rejected": rejected,
    "sent back": sent_back,
    "sent back and held again": sent_back_and_held_again,
    "parked": parked,
    "parked without a lane": parked_without_a_lane,
    "parked past its deadline": parked_past_its_deadline,
    "parked to ask a person": parked_to_ask_a_person,
    "woken": woken,
    "processing and told": processing_and_told,
    "followed up": followed_up,
    "a follow-up in a taken lane": a_follow_up_in_a_taken_lane,
    "told of": told_of,
}
