"""Strict order holds across the destinations of its set, and what is stuck in it stops the rest of the set alone."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.domain.model import DraftMessage, Sealed, Verdict
from app.domain.seal import payload_hash, spell
from tests.engine.stories import (
    CRM,
    DEAD,
    DELIVERED,
    LATER,
    UNKNOWN,
    Sink,
    draft,
    only,
    sealing,
)
from tests.engine.suspense import Suspend

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

CHAT = "chat"
MAIL = "mail"
STUCK = pytest.mark.parametrize("verdict", [DEAD, UNKNOWN], ids=["dead", "unknown"])


def chat(text: str, conversation: str | None = "c", **changes: Any) -> DraftMessage:
    return draft(text, conversation, destination=CHAT, **changes)


async def strict(
    sink: Sink, key: str, *drafts: DraftMessage, lane: str | None = "t"
) -> tuple[UUID, list[UUID]]:
    return await sink.sealed(key, *drafts, conversation=lane, order="strict")


async def takes(sink: Sink) -> dict[str, list[UUID]]:
    """What each destination is given now."""
    found = {place: await sink.take(destination=place) for place in (CRM, CHAT, MAIL)}
    return {place: [one.message for one in taken] for place, taken in found.items() if taken}


async def settle(sink: Sink, place: str, verdict: Verdict = DELIVERED) -> UUID:
    """Take one message there and settle it."""
    taken = only(await sink.take(1, destination=place))
    assert await sink.settle((taken, verdict)) == [True]
    message: UUID = taken.message
    return message


async def blockers(sink: Sink, turn: UUID) -> list[UUID | None]:
    return [message.blocked_by for message in (await sink.look(turn)).messages]


async def test_each_message_waits_for_the_one_before_it_wherever_that_goes(
    sink: Sink, travel: "Travel"
) -> None:
    turn, messages = await strict(sink, "a", draft("1", "c"), chat("2", "d"), draft("3"), chat("4"))
    assert await blockers(sink, turn) == [None, *messages[:3]]
    assert await settle(sink, CRM, LATER) == messages[0]
    assert await takes(sink) == {}
    await travel(6)
    for message, place in zip(messages, (CRM, CHAT, CRM, CHAT), strict=True):
        assert await settle(sink, place) == message
    assert await sink.state(turn) == "replied"


async def test_the_order_is_part_of_the_hash_of_the_set(sink: Sink) -> None:
    held, drafts = await sink.hold("a"), (draft("1"), chat("2"))
    sealed = only(await sink.seal(sealing(held, *drafts, order="strict")))
    assert isinstance(sealed, Sealed)
    strict_hash, loose_hash = (
        payload_hash(turn=held.turn, attempt=1, order=order, messages=[one.hash for one in drafts])
        for order in ("strict", None)
    )
    assert sealed.payload_hash == spell(strict_hash) != spell(loose_hash)


async def test_after_its_set_a_message_waits_for_its_conversation(sink: Sink) -> None:
    """One blocker at a time: the open one of the set, then the open one of the lane, then nobody."""
    _, (before,) = await sink.sealed("a", chat("0"))
    turn, (first, second) = await strict(sink, "b", draft("1", "c"), chat("2"))
    assert await blockers(sink, turn) == [None, first]
    await settle(sink, CRM)
    assert await blockers(sink, turn) == [None, before]
    assert await settle(sink, CHAT) == before
    assert await settle(sink, CHAT) == second


async def test_after_its_conversation_a_message_waits_for_its_set(sink: Sink) -> None:
    await sink.sealed("a", chat("0"))
    _, (_, second) = await strict(sink, "b", draft("1", "c"), chat("2"))
    await settle(sink, CHAT)
    assert await sink.take(destination=CHAT) == []
    await settle(sink, CRM)
    assert await takes(sink) == {CHAT: [second]}


async def test_a_pause_counts_from_when_the_last_of_both_has_ended(
    sink: Sink, travel: "Travel"
) -> None:
    await sink.sealed("a", chat("0"))
    _, (_, second) = await strict(sink, "b", draft("1", "c"), chat("2", delay_seconds=3.0))
    await settle(sink, CRM)
    await travel(100)
    await settle(sink, CHAT)
    assert await takes(sink) == {}
    await travel(3.1)
    assert await takes(sink) == {CHAT: [second]}


@STUCK
async def test_a_stuck_message_stops_all_later_ones_of_its_set(
    sink: Sink, verdict: Verdict, travel: "Travel"
) -> None:
    turn, _ = await strict(
        sink, "a", draft("1", "c"), chat("2", "c"), chat("3", None), draft("4", "d")
    )
    await settle(sink, CRM, verdict)
    await travel(100_000)
    assert await takes(sink) == {}
    assert await sink.state(turn) == "undelivered"


@STUCK
async def test_a_stuck_message_stops_no_other_set(sink: Sink, verdict: Verdict) -> None:
    await strict(sink, "a", draft("1", "c"), chat("2"))
    _, (behind,) = await sink.sealed("b", chat("3"))
    other, (fourth, fifth) = await strict(sink, "d", chat("4"), draft("5", "c"))
    await settle(sink, CRM, verdict)
    # The second of the first set left its lane with the first, although it had never been sent.
    assert await settle(sink, CHAT) == behind
    assert await settle(sink, CHAT) == fourth
    assert await settle(sink, CRM) == fifth
    assert await sink.state(other) == "replied"
    new, _ = await sink.sealed("e", chat("6"))
    assert await blockers(sink, new) == [None]


async def test_a_cancelled_message_in_the_middle_lets_the_next_wait_for_the_one_before(
    sink: Sink,
) -> None:
    turn, (first, second, third) = await strict(
        sink, "a", draft("1", "c"), chat("2"), draft("3", "d")
    )
    await sink.cancel_messages(second)
    assert await blockers(sink, turn) == [None, None, first]
    await settle(sink, CRM)
    assert await takes(sink) == {CRM: [third]}


@pytest.mark.parametrize("how", ["cancel", "resolve", "fact"])
async def test_whoever_ends_a_stuck_message_lets_the_set_go_on(sink: Sink, how: str) -> None:
    turn, (first, second) = await strict(sink, "a", draft("1", "c"), chat("2"))
    taken = await sink.take_one()
    await sink.settle((taken, UNKNOWN))
    match how:
        case "cancel":
            await sink.cancel_messages(first)
        case "resolve":
            await sink.resolve(first, state="cancelled")
        case _:
            await sink.tell(taken)
    assert await sink.state(turn) == "sealed"
    assert await takes(sink) == {CHAT: [second]}


@STUCK
@pytest.mark.parametrize("whole", [True, False])
async def test_a_redrive_keeps_the_order(sink: Sink, verdict: Verdict, whole: bool) -> None:
    turn, (first, second, third) = await strict(
        sink, "a", draft("1", "c"), chat("2"), draft("3", "c")
    )
    await settle(sink, CRM)
    await settle(sink, CHAT, verdict)
    await (sink.redrive(turn) if whole else sink.redrive_messages(second))
    assert await blockers(sink, turn) == [None, None, second]
    assert await settle(sink, CHAT) == second
    assert await settle(sink, CRM) == third
    assert first != third
    assert await sink.state(turn) == "replied"


async def test_spoiled_bytes_stop_a_strict_set(sink: Sink, admin: "Admin") -> None:
    turn, _ = await strict(sink, "a", draft("1"), chat("2"))
    await admin.execute("update sink.outbox_payload set body = 'forged' where body = '1'")
    assert await takes(sink) == {}
    assert await sink.states(turn) == ["dead", "pending"]
    assert await sink.state(turn) == "undelivered"


async def test_two_sets_in_one_call_stand_behind_each_other(sink: Sink) -> None:
    one, other = await sink.hold("a"), await sink.hold("b")
    turns = await sink.seal(
        sealing(one, draft("1", "c"), chat("2"), order="strict"),
        sealing(other, chat("3"), draft("4", "c"), order="strict"),
    )
    first, second, third, fourth = (m.id for sealed in turns for m in sealed.messages)  # type: ignore[union-attr]
    assert await blockers(sink, one.turn) == [None, first]
    assert await blockers(sink, other.turn) == [second, third]
    for place, message in ((CRM, first), (CHAT, second), (CHAT, third), (CRM, fourth)):
        assert await settle(sink, place) == message


@pytest.mark.parametrize("set_first", [True, False])
async def test_the_ends_of_both_blockers_at_once_do_not_miss_each_other(
    sink: Sink, suspend: Suspend, set_first: bool
) -> None:
    """The set's message ends under another lane: it locks the one that the next stands in as well."""
    await sink.sealed("a", chat("0"))
    _, (_, second) = await strict(sink, "b", draft("1", "c"), chat("2"))
    of_set, of_lane = await sink.take_one(), only(await sink.take(destination=CHAT))
    mine, yours = (of_set, of_lane) if set_first else (of_lane, of_set)
    async with suspend() as first:
        await first.sink.settle((mine, DELIVERED))
        task = await first.blocks(sink.settle((yours, DELIVERED)))
    assert task.result() == [True]
    assert await takes(sink) == {CHAT: [second]}


@STUCK
async def test_a_seal_behind_what_a_strict_set_gives_up_is_not_blocked(
    sink: Sink, suspend: Suspend, verdict: Verdict
) -> None:
    await strict(sink, "a", draft("1", "c"), chat("2"))
    taken, held = await sink.take_one(), await sink.hold("b")
    async with suspend() as first:
        await first.sink.settle((taken, verdict))
        second = await first.blocks(sink.seal_one(held, chat("3")))
    assert await takes(sink) == {CHAT: [second.result().messages[0].id]}


async def test_seals_that_meet_in_two_lanes_stand_in_the_same_order_in_both(
    sink: Sink, suspend: Suspend
) -> None:
    """Else each set would wait for the other one, for ever."""
    one, other = await sink.hold("a"), await sink.hold("b")
    async with suspend() as first:
        await first.sink.seal(sealing(one, draft("1", "c"), chat("2"), order="strict"))
        second = await first.blocks(
            sink.seal(sealing(other, chat("3"), draft("4", "c"), order="strict"))
        )
    second.result()
    for place in (CRM, CHAT, CHAT, CRM):
        await settle(sink, place)
    assert [await sink.state(held.turn) for held in (one, other)] == ["replied", "replied"]
