"""Inbound of a conversation share its last turn, if that was never claimed: bounded, in order, and none is lost."""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.domain.ids import IdFactory
from app.domain.model import Accepted, Claimed
from tests.engine.stories import CONVERSATION, JOINING, Sink, draft, only, short

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin, Clock


@pytest.fixture(autouse=True)
async def travel(clock: "Clock") -> "Travel":
    """Time stands still but for its steps: quiet periods are short, and a busy machine is slow."""
    await clock.freeze()
    return clock.step


async def _say(sink: Sink, *keys: str) -> list[Accepted]:
    return [only(await sink.accept(short(key))) for key in keys]


def _said(held: Claimed) -> list[bytes]:
    return [one.body or b"" for one in held.inbound]


async def _due_in_seconds(admin: "Admin", turn: UUID) -> float:
    query = "select extract(epoch from due_at - sink.now()) from sink.turn where id = $1"
    return float(await admin.fetchval(query, turn))


async def test_three_short_messages_are_one_turn_once_it_is_quiet(
    sink: Sink, travel: "Travel"
) -> None:
    accepted = await _say(sink, "a", "b", "d")
    assert len({one.turn for one in accepted}) == 1
    assert len({one.inbound for one in accepted}) == 3
    assert [one.state for one in accepted] == ["queued"] * 3
    assert await sink.claim(5) == []
    await travel(2)
    held = await sink.claim_one()
    assert _said(held) == [b'"a"', b'"b"', b'"d"']
    assert [one.id for one in held.inbound] == [one.inbound for one in accepted]
    assert (await sink.look(held.turn)).inbound == accepted[0].inbound
    assert await sink.story(held.turn) == [
        ("accept", None, "queued"),
        ("join", "queued", "queued"),
        ("join", "queued", "queued"),
        ("claim", "queued", "processing"),
    ]


async def test_each_message_begins_the_quiet_period_anew_up_to_its_bound(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    (first,) = await _say(sink, "a")
    assert await _due_in_seconds(admin, first.turn) == pytest.approx(2.0)
    left = []
    for n in range(1, 8):
        await travel(1.5)
        (joined,) = await _say(sink, f"k{n}")
        left.append(await _due_in_seconds(admin, joined.turn))
    # Ten seconds behind the first it is due, whoever still writes.
    assert left == pytest.approx([*[2.0] * 5, 1.0, -0.5])
    assert len((await sink.claim_one()).inbound) == 8


async def test_several_in_one_call_join_in_their_order(sink: Sink, travel: "Travel") -> None:
    (before,) = await _say(sink, "a")
    accepted = await sink.accept(
        short("b"), short("x", "other"), short("d"), short("alone", None), short("e")
    )
    turns = [one.turn for one in accepted]
    assert [turn == before.turn for turn in turns] == [True, False, True, False, True]
    assert [one.state for one in accepted] == ["queued"] * 5
    await travel(2)
    held = {one.turn: one for one in await sink.claim(5)}
    assert _said(held[before.turn]) == [b'"a"', b'"b"', b'"d"', b'"e"']
    assert _said(held[turns[1]]) == [b'"x"']
    assert _said(held[turns[3]]) == [b'"alone"']


async def test_without_a_conversation_nothing_joins_and_nothing_waits(sink: Sink) -> None:
    await sink.accept(short("a", None), short("b", None))
    assert len(await sink.claim(5)) == 2


async def test_queues_do_not_share_a_conversation(sink: Sink) -> None:
    here, there = await sink.accept(short("a"), short("a", queue="other"))
    assert here.turn != there.turn


async def test_the_highest_priority_of_its_inbound_is_the_turns(
    sink: Sink, travel: "Travel"
) -> None:
    turn = (await _say(sink, "a"))[0].turn
    await sink.accept(short("b", "other", priority=5))
    await sink.accept(short("d", priority=10), short("e", priority=-10))
    await travel(2)
    assert (await sink.claim_one()).turn == turn


async def test_what_comes_while_a_turn_runs_gathers_behind_it(sink: Sink, travel: "Travel") -> None:
    await _say(sink, "a")
    await travel(2)
    held = await sink.claim_one()
    behind = await _say(sink, "b", "d")
    assert {one.state for one in behind} == {"waiting"}
    assert len({one.turn for one in behind} | {held.turn}) == 2
    await sink.seal_one(held)
    (joined,) = await _say(sink, "e")
    assert (joined.turn, joined.state) == (behind[0].turn, "queued")
    await travel(2)
    assert _said(await sink.claim_one()) == [b'"b"', b'"d"', b'"e"']


async def test_a_running_agent_is_told_how_many_have_come(sink: Sink, travel: "Travel") -> None:
    await _say(sink, "a")
    await travel(2)
    held = await sink.claim_one()
    for newer, key in enumerate(("b", "d", "e"), start=1):
        await _say(sink, key)
        assert only(await sink.renew(held)).newer_inbound == newer
    await sink.accept_one("later", CONVERSATION, delay_seconds=60)
    await sink.accept(short("x", "other"))
    assert only(await sink.renew(held)).newer_inbound == 3
    await sink.accept_one("f", CONVERSATION)
    assert only(await sink.renew(held)).newer_inbound == 4


async def test_only_the_last_turn_of_a_lane_is_joined(sink: Sink) -> None:
    (first,) = await _say(sink, "a")
    alone = await sink.accept_one("b", CONVERSATION)
    assert (alone.turn != first.turn, alone.state) == (True, "waiting")
    (joined,) = await _say(sink, "d")
    assert joined.turn == alone.turn


async def test_what_was_cancelled_behind_a_turn_has_ended_its_gathering(sink: Sink) -> None:
    (first,) = await _say(sink, "a")
    alone = await sink.accept_one("b", CONVERSATION)
    await sink.cancel(alone.turn)
    (next_one,) = await _say(sink, "d")
    assert next_one.turn not in (first.turn, alone.turn)


@pytest.mark.parametrize("how", ["released", "failed", "swept"])
async def test_a_turn_once_claimed_never_gains_inbound(
    sink: Sink, travel: "Travel", how: str
) -> None:
    await _say(sink, "a")
    await travel(2)
    held = await sink.claim_one()
    if how == "swept":
        await travel(61)
        await sink.sweep_turns()
    else:
        await sink.hand_back(held, failed=how == "failed")
    (behind,) = await _say(sink, "b")
    assert (behind.turn != held.turn, behind.state) == (True, "waiting")
    await travel(60)
    again = await sink.claim_one()
    assert (again.turn, _said(again)) == (held.turn, [b'"a"'])


async def test_a_cancelled_or_failed_turn_is_not_joined(sink: Sink, travel: "Travel") -> None:
    (first,) = await _say(sink, "a")
    await sink.cancel(first.turn)
    (second,) = await _say(sink, "b")
    assert (second.turn != first.turn, second.state) == (True, "queued")
    await travel(2)
    held = await sink.claim_one()
    await sink.hand_back(held, final=True)
    (third,) = await _say(sink, "d")
    assert (third.turn != held.turn, third.state) == (True, "queued")
    await sink.redrive(held.turn)
    (joined,) = await _say(sink, "e")
    assert joined.turn == third.turn


async def test_what_is_scheduled_neither_joins_nor_is_joined(sink: Sink, travel: "Travel") -> None:
    scheduled = only(await sink.accept(short("a", delay_seconds=60)))
    (first,) = await _say(sink, "b")
    later = only(await sink.accept(short("d", delay_seconds=60)))
    assert len({scheduled.turn, first.turn, later.turn}) == 3
    assert (scheduled.state, first.state, later.state) == ("scheduled", "queued", "scheduled")
    (joined,) = await _say(sink, "e")
    assert joined.turn == first.turn
    await travel(2)
    assert _said(await sink.claim_one()) == [b'"b"', b'"e"']


async def test_so_many_inbound_fill_a_turn_and_the_next_begins_another(sink: Sink) -> None:
    two = replace(JOINING, inbound_max=2)
    accepted = await sink.accept(*(short(f"k{n}", joining=two) for n in range(5)))
    turns = [one.turn for one in accepted]
    assert turns[0] == turns[1]
    assert turns[2] == turns[3]
    assert len(set(turns)) == 3
    assert [one.state for one in accepted] == ["queued"] * 2 + ["waiting"] * 3
    assert only(await sink.accept(short("last", joining=two))).turn == turns[4]


async def test_so_many_bytes_fill_a_turn_and_a_larger_one_has_its_own(sink: Sink) -> None:
    ten = replace(JOINING, bytes_max=10)
    sizes = [6, 4, 1, 11, 9, 2]
    accepted = [
        only(await sink.accept(short(f"k{n}", joining=ten, body=b"x" * size)))
        for n, size in enumerate(sizes)
    ]
    turns = [one.turn for one in accepted]
    assert turns[0] == turns[1]
    assert len(set(turns)) == 5


async def test_a_joined_inbound_sent_again_answers_with_the_turn_it_joined(
    sink: Sink, travel: "Travel"
) -> None:
    first, joined = await _say(sink, "a", "b")
    again, other = await sink.accept(short("b"), short("b", body=b"other"))
    for one in (again, other):
        assert (one.inbound, one.turn, one.duplicate) == (joined.inbound, first.turn, True)
    assert (again.same_body, other.same_body) == (True, False)
    await travel(2)
    held = await sink.claim_one()
    assert _said(held) == [b'"a"', b'"b"']
    await sink.seal_one(held)
    assert only(await sink.accept(short("b"))).state == "replied"


async def test_the_same_key_twice_in_one_call_is_one_inbound(sink: Sink, travel: "Travel") -> None:
    first, twin, second = await sink.accept(short("a"), short("a"), short("b"))
    assert (twin.inbound, twin.turn, twin.duplicate) == (first.inbound, first.turn, True)
    assert second.turn == first.turn
    await travel(2)
    assert _said(await sink.claim_one()) == [b'"a"', b'"b"']


async def test_a_duplicate_does_not_prolong_the_quiet_period(sink: Sink, travel: "Travel") -> None:
    await _say(sink, "a")
    await travel(1.5)
    await _say(sink, "a")
    await travel(0.6)
    assert len(await sink.claim(1)) == 1


async def test_inbound_keep_the_order_of_their_accepts_whatever_the_clocks_of_the_replicas(
    sink: Sink, travel: "Travel"
) -> None:
    clock = IdFactory(milliseconds=lambda: 1 << 47, random_bytes=lambda count: b"1" * count)
    ahead = replace(sink, ids=clock)
    for replica, key in ((ahead, "a"), (sink, "b"), (ahead, "d"), (sink, "e")):
        await replica.accept(short(key))
    await travel(2)
    assert _said(await sink.claim_one()) == [b'"a"', b'"b"', b'"d"', b'"e"']


async def test_a_set_answers_all_that_its_turn_gathered(sink: Sink, travel: "Travel") -> None:
    accepted = await _say(sink, "a", "b")
    await travel(2)
    held = await sink.claim_one()
    await sink.seal_one(held, draft("both", CONVERSATION))
    again = await _say(sink, "a", "b")
    assert [(one.turn, one.state) for one in again] == [(one.turn, "sealed") for one in accepted]
