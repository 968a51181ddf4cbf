"""A turn waits in the middle under its own handle, costs nothing meanwhile, and runs again when it is told or its time
is up.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast
from uuid import uuid4

import asyncpg
import pytest

from app.domain.model import LeaseLost, NoSuchTurn, Parked, ParksExhausted, Woken
from app.engine.database import session_settings
from tests.database import options_for
from tests.engine.stories import QUEUE, TURN_POLICY, Sink, draft, only, returning, sealing
from tests.engine.suspense import OneSession
from tests.engine.waiting_stories import parking

if TYPE_CHECKING:
    from app.engine.database import Pool
    from tests.conftest import Travel
    from tests.database import Admin, Clock

DAY = 86_400.0


async def test_a_parked_turn_has_no_lease_and_gives_its_attempt_back(
    sink: Sink, admin: "Admin"
) -> None:
    held = await sink.parked("a", "c", note="may I?")
    row = await admin.fetchrow("select * from sink.turn")
    assert row is not None
    assert (row["state"], row["attempt"], row["attempts_used"], row["parks"]) == ("parked", 1, 0, 1)
    assert row["token"] is row["lease_expires_at"] is row["lease_seconds"] is None
    wait = await admin.fetchrow("select * from sink.wait")
    assert wait is not None
    assert (wait["turn"], wait["attempt"], wait["name"]) == (held.turn, 1, "answer")
    assert (wait["note"], wait["deadline_at"] - wait["asked_at"]) == ("may I?", timedelta(days=1))
    assert await sink.story(held.turn) == [
        ("accept", None, "queued"),
        ("claim", "queued", "processing"),
        ("park", "processing", "parked"),
    ]


async def test_nothing_but_its_deadline_moves_it(sink: Sink, travel: "Travel") -> None:
    held = await sink.parked("a", "c")
    await travel(DAY - 1)
    assert await sink.sweep_turns() == await sink.wake_parked() == {}
    assert await sink.claim(10) == []
    await travel(2)
    assert await sink.wake_parked() == {"queued": 1}
    assert await sink.wake_parked() == {}
    again = await sink.claim_one()
    assert (again.turn, again.attempt) == (held.turn, 2)
    (entry,) = again.history
    assert (entry.ended, entry.reason) == ("parked", "deadline")
    assert isinstance(entry.said, Woken)
    assert (entry.said.name, entry.said.by, entry.said.body) == ("answer", None, None)


async def test_the_same_park_again_tells_the_state_of_now(sink: Sink, travel: "Travel") -> None:
    held = await sink.hold("a")
    first = only(await sink.park(parking(held)))
    assert isinstance(first, Parked)
    assert await sink.park(parking(held)) == [Parked("parked", first.deadline_at, repeated=True)]
    await travel(DAY + 1)
    await sink.wake_parked()
    assert await sink.park(parking(held)) == [Parked("queued", None, repeated=True)]
    await sink.park_one(await sink.claim_one())
    # It waits again, and not for the one who asks.
    assert await sink.park(parking(held)) == [Parked("parked", None, repeated=True)]


async def test_a_token_is_good_for_no_other_call_after_its_park(sink: Sink) -> None:
    held = await sink.parked("a", "c")
    lost = LeaseLost("released", "parked")
    assert await sink.park(parking(held, "other")) == [lost]
    assert await sink.park(parking(held, payload_hash="sha256:ab")) == [lost]
    assert await sink.renew(held) == [lost]
    assert await sink.seal(sealing(held, draft("late"))) == [lost]
    assert await sink.release(returning(held)) == [lost]
    assert await sink.state(held.turn) == "parked"


async def test_who_has_lost_a_turn_does_not_park_it(sink: Sink, travel: "Travel") -> None:
    swept = await sink.hold("a")
    await travel(61)
    await sink.sweep_turns()
    assert await sink.park(parking(swept)) == [LeaseLost("swept", "queued")]
    await travel(2)
    held = await sink.claim_one()
    # The old token beside the one that holds, in one list.
    lost, parked = await sink.park(parking(swept), parking(held))
    assert (lost, await sink.state(held.turn)) == (LeaseLost("swept", "parked"), "parked")
    assert isinstance(parked, Parked)
    nobody = replace(held, turn=uuid4())
    assert await sink.park(parking(nobody)) == [NoSuchTurn()]


async def test_a_list_parks_each_of_its_turns_once(sink: Sink) -> None:
    held = [await sink.hold(f"k{n}") for n in range(3)]
    outcomes = await sink.park(*(parking(one) for one in [*held, held[0]]))
    assert [outcome.repeated for outcome in cast("list[Parked]", outcomes)] == [0, 0, 0, 1]
    assert {await sink.state(one.turn) for one in held} == {"parked"}


async def test_who_has_parked_as_often_as_he_may_keeps_his_lease(sink: Sink) -> None:
    held = await sink.hold("a")
    for _ in range(3):
        await sink.signal_one(held.turn)
        assert await sink.park_one(held, parks_max=3) == "queued"
        held = await sink.claim_one()
    assert await sink.park(parking(held, parks_max=3)) == [ParksExhausted()]
    assert await sink.state(held.turn) == "processing"
    await sink.seal_one(held)


async def test_any_number_of_parks_leaves_the_caps_where_they_were(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    sink.turn_policies = {QUEUE: replace(TURN_POLICY, attempts_max=2, releases_max=1)}
    held = await sink.hold("a")
    for n in range(12):
        await sink.park_one(held, f"step-{n}")
        await sink.signal_one(held.turn, f"step-{n}")
        held = await sink.claim_one()
    assert await sink.hand_back(held) == "queued"
    held = await sink.claim_one()
    assert await sink.hand_back(held, failed=True) == "queued"
    await travel(10)
    held = await sink.claim_one()
    assert await admin.fetchval(
        "select (attempt, attempts_used, releases, parks) from sink.turn"
    ) == (
        15,
        2,
        1,
        12,
    )
    assert await sink.hand_back(held, failed=True) == "failed"


async def test_its_conversation_waits_for_it_and_goes_on_when_it_leaves_for_good(
    sink: Sink,
) -> None:
    held = await sink.parked("a", "c")
    behind = await sink.accept_one("b", "c")
    assert behind.state == "waiting"
    await sink.signal_one(held.turn)
    # What was woken runs before what came meanwhile.
    assert [one.turn for one in await sink.claim(10)] == [held.turn]
    assert await sink.state(behind.turn) == "waiting"


async def test_a_parked_turn_can_be_cancelled(sink: Sink, admin: "Admin") -> None:
    held = await sink.parked("a", "c")
    behind = await sink.accept_one("b", "c")
    (changed,) = await sink.cancel(held.turn)
    assert changed is not None
    assert (changed.state, changed.changed) == ("cancelled", True)
    assert await sink.state(behind.turn) == "queued"
    assert await admin.fetchval("select ended from sink.wait") == "cancelled"
    assert await admin.fetchval("select ended from sink.attempt where turn = $1", held.turn) == (
        "parked"
    )
    assert (await sink.story(held.turn))[-1] == ("cancel", "parked", "cancelled")
    (again,) = await sink.cancel(held.turn)
    assert again is not None
    assert not again.changed
    assert await sink.park(parking(held)) == [Parked("cancelled", None, repeated=True)]


async def test_a_turn_does_not_age_while_it_waits(sink: Sink, travel: "Travel") -> None:
    await sink.parked("a", seconds=10 * DAY)
    await travel(10 * DAY + 1)
    await sink.wake_parked()
    young = {"input_age_seconds_max": DAY}
    (again,) = await sink.claim(1, **young)
    await sink.park_one(again)
    await travel(100)
    await sink.signal_one(again.turn)
    await travel(DAY)
    # In the queue it does.
    assert await sink.claim(1, **young) == []
    assert await sink.state(again.turn) == "failed"


async def test_what_was_woken_is_due_from_then_on(sink: Sink, travel: "Travel") -> None:
    held = await sink.parked("a")
    await travel(3_600)
    other = await sink.accept_one("b", priority=100)
    await travel(60)
    await sink.signal_one(held.turn)
    assert [one.turn for one in await sink.claim(2)] == [other.turn, held.turn]


async def test_many_that_are_due_are_woken_a_batch_at_a_time(sink: Sink, travel: "Travel") -> None:
    for n in range(5):
        await sink.parked(f"k{n}", seconds=10 + n)
    await travel(20)
    assert [await sink.wake_parked(2) for _ in range(4)] == [
        {"queued": 2},
        {"queued": 2},
        {"queued": 1},
        {},
    ]


@pytest.fixture
def paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process lives in Paris."""
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("paris")
@pytest.mark.parametrize("change", ["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"])
@pytest.mark.parametrize("seconds", [2 * 3_600.0, DAY, 3 * DAY])
async def test_a_change_of_the_clocks_moves_no_deadline(
    sink: Sink, database_url: str, admin: "Admin", clock: "Clock", change: str, seconds: float
) -> None:
    """Process and session in Paris, over the night in which its clocks are changed."""
    assert time.localtime(1_780_000_000).tm_zone == "CEST"
    await clock.freeze()
    now = await admin.fetchval("select sink.now()")
    begins = datetime.fromisoformat(change) - timedelta(hours=1)
    await clock.step((begins - now).total_seconds())
    assert await admin.fetchval("select sink.now()") == begins
    settings = session_settings(options_for(database_url), application_name="paris")
    there = await asyncpg.connect(
        database_url, server_settings={**settings, "timezone": "Europe/Paris"}
    )
    paris = replace(sink, pool=cast("Pool", OneSession(there)))
    held = await paris.hold("a", lease_seconds=600)
    parked = only(await paris.park(parking(held, seconds=seconds)))
    assert isinstance(parked, Parked)
    assert parked.deadline_at == begins.astimezone(UTC) + timedelta(seconds=seconds)
    await clock.step(seconds - 0.001)
    assert await paris.wake_parked() == {}
    await clock.step(0.001)
    assert await paris.wake_parked() == {"queued": 1}
    assert await paris.wake_parked() == {}
    # Nor does it make the input older by an hour, or younger.
    age = await admin.fetchval("select sink.now() - ages_from from sink.turn")
    assert age == timedelta(0)
    await there.close()
