"""Whatever ends in vain has, with its own commit, a notice for whoever is to be told; nothing else has."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tests.engine.stories import DEAD, DELIVERED, LATER, QUEUE, TURN_POLICY, UNKNOWN, Sink, draft
from tests.engine.told import TOLD, body_of, escalations, notices

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def _too_often(sink: Sink, travel: "Travel") -> UUID:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=1)}
    held = await sink.hold("a")
    await travel(61)
    await sink.sweep_turns()
    return held.turn


async def _handed_back_too_often(sink: Sink, travel: "Travel") -> UUID:
    del travel
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, releases_max=0)}
    held = await sink.hold("a")
    assert await sink.hand_back(held) == "failed"
    return held.turn


async def _too_old(sink: Sink, travel: "Travel") -> UUID:
    accepted = await sink.accept_one("a")
    await travel(61)
    assert await sink.claim(1, input_age_seconds_max=60.0) == []
    return accepted.turn


async def _dead(sink: Sink, travel: "Travel") -> UUID:
    del travel
    turn, _ = await sink.sealed("a", draft())
    await sink.settle_next(DEAD)
    return turn


async def _unknown(sink: Sink, travel: "Travel") -> UUID:
    del travel
    turn, _ = await sink.sealed("a", draft())
    await sink.settle_next(UNKNOWN)
    return turn


async def _unknown_by_the_sweep(sink: Sink, travel: "Travel") -> UUID:
    turn, _ = await sink.sealed("a", draft())
    assert await sink.take(hold_unknown=True)
    await travel(31)
    await sink.sweep_messages()
    return turn


async def _spoiled(sink: Sink, travel: "Travel") -> UUID:
    del travel
    turn, _ = await sink.sealed("a", draft())
    return turn


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (_too_often, "attempts_exhausted"),
        (_handed_back_too_often, "releases_exhausted"),
        (_too_old, "too_old"),
        (_dead, "rejected"),
        (_unknown, "timeout"),
        (_unknown_by_the_sweep, "lease_lapsed"),
    ],
)
async def test_whatever_ends_a_turn_or_a_message_in_vain_has_told_with_its_commit(
    sink: Sink, admin: "Admin", travel: "Travel", fails: Any, reason: str
) -> None:
    turn = await fails(sink, travel)
    assert [(row["turn"], row["reason"]) for row in await notices(admin)] == [(turn, reason)]
    assert await sink.escalate() == TOLD
    (told,) = await escalations(admin, turn)
    assert (await body_of(admin, told))["reason"] == reason


async def test_bytes_that_are_not_those_that_were_sealed_page_a_human(
    sink: Sink, admin: "Admin"
) -> None:
    turn, _ = await sink.sealed("a", draft())
    await admin.execute("update sink.outbox_payload set body = 'forged'")
    assert await sink.take() == []
    assert await sink.escalate() == TOLD
    (told,) = await escalations(admin, turn)
    assert (await body_of(admin, told))["reason"] == "integrity"


async def test_what_goes_back_and_what_is_delivered_tells_nobody(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await sink.sealed("a", draft("1", "c"), draft("2", "c"))
    await sink.settle_next(LATER)
    await travel(6)
    await sink.settle_next(DELIVERED)
    held = await sink.hold("b")
    await sink.hand_back(held, failed=True)
    held = await sink.hold("c")
    await sink.cancel(held.turn)
    turn, _ = await sink.sealed("d", draft())
    taken = [one for one in await sink.take() if one.turn == turn]
    await sink.cancel_messages(taken[0].message)
    await sink.settle((taken[0], DEAD))
    assert await sink.states(turn) == ["cancelled"]
    assert await notices(admin) == []
