"""A turn and its messages, placed in every state, by the verbs themselves wherever a verb leads there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.domain.model import Claimed, Taken, Verdict
from tests.engine.stories import DEAD, DELIVERED, JOINING, LATER, UNKNOWN, Sink, draft

if TYPE_CHECKING:
    from tests.database import Admin, Clock

# How old input gets where that is bounded.
OLD_SECONDS = 100.0
LATER_PERHAPS_ARRIVED = replace(LATER, delay_seconds=0.0, may_have_arrived=True)


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a situation is played."""

    sink: Sink
    admin: "Admin"
    clock: "Clock"


@dataclass(frozen=True, slots=True)
class Placed:
    """The last lease on the turn that was placed, and its last delivery attempt, as far as there were any."""

    held: Claimed | None = None
    taken: Taken | None = None


Situation = Callable[[Stage], Awaitable[Placed]]


async def scheduled(stage: Stage) -> Placed:
    await stage.sink.accept_one("a", "c", delay_seconds=3_600)
    return Placed()


async def scheduled_and_due(stage: Stage) -> Placed:
    await stage.sink.accept_one("a", "c", delay_seconds=10)
    await stage.clock.travel(11)
    return Placed()


async def scheduled_and_due_in_a_taken_lane(stage: Stage) -> Placed:
    await stage.sink.accept_one("first", "c")
    return await scheduled_and_due(stage)


async def queued(stage: Stage) -> Placed:
    await stage.sink.accept_one("a", "c")
    return Placed()


async def waiting(stage: Stage) -> Placed:
    await stage.sink.accept_one("first", "c")
    return await queued(stage)


async def queued_and_backing_off(stage: Stage) -> Placed:
    held = await stage.sink.hold("a", "c")
    await stage.sink.hand_back(held, failed=True)
    return Placed(held)


async def processing(stage: Stage) -> Placed:
    return Placed(await stage.sink.hold("a", "c"))


async def processing_before_another(stage: Stage) -> Placed:
    placed = await processing(stage)
    await stage.sink.accept_one("next", "c")
    return placed


async def processing_without_a_lane(stage: Stage) -> Placed:
    return Placed(await stage.sink.hold("a"))


async def processing_with_a_lapsed_lease(stage: Stage) -> Placed:
    placed = await processing_before_another(stage)
    await stage.clock.travel(61)
    return placed


async def _sealed(stage: Stage, *texts: str) -> Claimed:
    held = await stage.sink.hold("a", "c")
    await stage.sink.seal_one(held, *(draft(text, "c") for text in texts))
    return held


async def replied_without_messages(stage: Stage) -> Placed:
    return Placed(await _sealed(stage))


async def pending(stage: Stage) -> Placed:
    return Placed(await _sealed(stage, "1", "2"))


async def strict_before_others(stage: Stage) -> Placed:
    held = await stage.sink.hold("a", "c")
    drafts = (draft("1", "c"), draft("2", "c", destination="chat"), draft("3", "c"))
    await stage.sink.seal_one(held, *drafts, order="strict")
    await stage.sink.sealed("b", draft("4", "c", destination="chat"), draft("5", "c"))
    return Placed(held, await stage.sink.take_one())


async def undelivered_in_strict_order(stage: Stage) -> Placed:
    placed = await strict_before_others(stage)
    assert placed.taken is not None
    await stage.sink.settle((placed.taken, UNKNOWN))
    return placed


async def _spoil(stage: Stage) -> None:
    await stage.admin.execute("update sink.outbox_payload set body = 'forged'")


async def pending_and_spoiled(stage: Stage) -> Placed:
    placed = await pending(stage)
    await _spoil(stage)
    return placed


async def sending(stage: Stage) -> Placed:
    return Placed(await _sealed(stage, "1", "2"), await stage.sink.take_one())


async def sending_the_last(stage: Stage) -> Placed:
    held = await _sealed(stage, "1", "2")
    await stage.sink.settle_next(DELIVERED)
    return Placed(held, await stage.sink.take_one())


async def sending_with_a_lapsed_lease(stage: Stage) -> Placed:
    placed = await sending_the_last(stage)
    await stage.clock.travel(31)
    return placed


def _settled(verdict: Verdict, *texts: str) -> Situation:
    async def situation(stage: Stage) -> Placed:
        held = await _sealed(stage, *texts)
        taken = await stage.sink.take_one()
        await stage.sink.settle((taken, verdict))
        return Placed(held, taken)

    return situation


pending_perhaps_arrived = _settled(LATER_PERHAPS_ARRIVED, "1")
replied = _settled(DELIVERED, "1")
undelivered_by_a_dead_message = _settled(DEAD, "1", "2")
undelivered_by_an_unknown_message = _settled(UNKNOWN, "1")
undelivered_before_another = _settled(UNKNOWN, "1", "2")


async def pending_perhaps_arrived_and_spoiled(stage: Stage) -> Placed:
    placed = await pending_perhaps_arrived(stage)
    await _spoil(stage)
    return placed


async def failed(stage: Stage) -> Placed:
    held = await stage.sink.hold("a", "c")
    await stage.sink.hand_back(held, final=True, reason="impossible")
    return Placed(held)


async def failed_in_a_taken_lane(stage: Stage) -> Placed:
    placed = await failed(stage)
    await stage.sink.accept_one("next", "c")
    return placed


async def gathering(stage: Stage) -> Placed:
    await stage.sink.accept_one("a", "c", joining=JOINING)
    return Placed()


async def gathering_behind_another(stage: Stage) -> Placed:
    held = await stage.sink.hold("first", "c")
    await stage.sink.accept_one("a", "c", joining=JOINING)
    return Placed(held)


async def cancelled(stage: Stage) -> Placed:
    placed = await processing_before_another(stage)
    assert placed.held is not None
    await stage.sink.cancel(placed.held.turn)
    return placed


async def cancelled_before_it_was_due(stage: Stage) -> Placed:
    scheduled = await stage.sink.accept_one("a", "c", delay_seconds=10)
    await stage.sink.cancel(scheduled.turn)
    await stage.clock.travel(11)
    return Placed()


async def held_up_by_its_source(stage: Stage) -> Placed:
    await stage.sink.pause("source", "api")
    await stage.sink.accept_one("a", "c")
    await stage.sink.accept_one("b", "c", delay_seconds=3_600)
    return Placed()


async def held_up_no_more(stage: Stage) -> Placed:
    await stage.sink.accept_one("first", "c")
    placed = await held_up_by_its_source(stage)
    await stage.sink.resume("source", "api")
    return placed


async def queued_in_a_paused_queue(stage: Stage) -> Placed:
    await stage.sink.pause("queue", "default")
    return await queued(stage)


async def too_old_before_another(stage: Stage) -> Placed:
    await stage.sink.accept_one("a", "c")
    await stage.sink.accept_one("next", "c")
    await stage.clock.travel(OLD_SECONDS + 1)
    return Placed()


async def sending_and_wanted_no_more(stage: Stage) -> Placed:
    placed = await sending(stage)
    assert placed.taken is not None
    await stage.sink.cancel_messages(placed.taken.message)
    return placed


async def sending_and_wanted_no_more_with_a_lapsed_lease(stage: Stage) -> Placed:
    placed = await sending_and_wanted_no_more(stage)
    await stage.clock.travel(31)
    return placed


async def undelivered_by_a_cancelled_message(stage: Stage) -> Placed:
    placed = await sending_the_last(stage)
    assert placed.held is not None
    assert placed.taken is not None
    await stage.sink.settle((placed.taken, DEAD))
    await stage.sink.cancel(placed.held.turn)
    return placed


async def pending_and_redriven(stage: Stage) -> Placed:
    placed = await undelivered_before_another(stage)
    assert placed.held is not None
    await stage.sink.redrive(placed.held.turn)
    return placed


SITUATIONS: dict[str, Situation] = {
    "scheduled": scheduled,
    "scheduled and due": scheduled_and_due,
    "scheduled and due in a taken lane": scheduled_and_due_in_a_taken_lane,
    "waiting": waiting,
    "queued": queued,
    "queued and backing off": queued_and_backing_off,
    "processing": processing,
    "processing before another": processing_before_another,
    "processing without a lane": processing_without_a_lane,
    "processing with a lapsed lease": processing_with_a_lapsed_lease,
    "replied without messages": replied_without_messages,
    "pending": pending,
    "pending and spoiled": pending_and_spoiled,
    "pending, perhaps arrived": pending_perhaps_arrived,
    "pending, perhaps arrived, and spoiled": pending_perhaps_arrived_and_spoiled,
    "strict, before others": strict_before_others,
    "undelivered, in strict order": undelivered_in_strict_order,
    "sending": sending,
    "sending the last": sending_the_last,
    "sending with a lapsed lease": sending_with_a_lapsed_lease,
    "replied": replied,
    "undelivered by a dead message": undelivered_by_a_dead_message,
    "undelivered by an unknown message": undelivered_by_an_unknown_message,
    "undelivered before another": undelivered_before_another,
    "failed": failed,
    "failed in a taken lane": failed_in_a_taken_lane,
    "gathering": gathering,
    "gathering behind another": gathering_behind_another,
    "cancelled": cancelled,
    "cancelled before it was due": cancelled_before_it_was_due,
    "held up by its source": held_up_by_its_source,
    "held up no more": held_up_no_more,
    "queued in a paused queue": queued_in_a_paused_queue,
    "too old before another": too_old_before_another,
    "sending and wanted no more": sending_and_wanted_no_more,
    "sending and wanted no more, with a lapsed lease": sending_and_wanted_no_more_with_a_lapsed_lease,
    "undelivered by a cancelled message": undelivered_by_a_cancelled_message,
    "pending and redriven": pending_and_redriven,
}
