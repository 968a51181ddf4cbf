"""What ended long ago goes whole and leaves a tombstone; its key and its lanes follow; nothing else goes."""

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from app.engine.inspect import find_events
from app.engine.tombstone import find_tombstone
from tests.engine.stories import (
    CONVERSATION,
    DEAD,
    DELIVERED,
    KEY_SECONDS,
    LATER,
    UNKNOWN,
    Sink,
    draft,
    returning,
    short,
)
from tests.engine.walks import DAY, expire_all, purge_turns, walk

if TYPE_CHECKING:
    from tests.conftest import Freeze, Travel
    from tests.database import Admin, Clock

TABLES = ("turn", "inbound", "attempt", "outbox", "outbox_payload", "event", "loopback")


async def _rows(admin: "Admin", *tables: str) -> dict[str, int]:
    return {name: await admin.fetchval(f"select count(*) from sink.{name}") for name in tables}


async def _is_there(admin: "Admin", turn: UUID) -> bool:
    there: bool = await admin.fetchval("select exists (select from sink.turn where id = $1)", turn)
    return there


async def _replied(sink: Sink, key: str, conversation: str | None = CONVERSATION) -> UUID:
    turn, messages = await sink.sealed(
        key, draft("1", conversation), draft("2", conversation), conversation=conversation
    )
    for _ in messages:
        await sink.settle_next(DELIVERED)
    return turn


async def _failed(sink: Sink, key: str) -> UUID:
    held = await sink.hold(key)
    assert await sink.hand_back(held, final=True) == "failed"
    return held.turn


async def test_a_replied_turn_goes_with_everything_that_hangs_on_it(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await _replied(sink, "a")
    await travel(31 * DAY)
    counts = await purge_turns(sink.pool)
    assert counts == {"turn": 1, "inbound": 1, "attempt": 1, "message": 2, "event": 10}
    assert set((await _rows(admin, *TABLES)).values()) == {0}
    assert await _rows(admin, "tombstone", "idempotency_key") == {
        "tombstone": 4,
        "idempotency_key": 1,
    }


async def test_the_copies_that_the_loopback_channel_keeps_go_with_their_turn(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turn = await _replied(sink, "a")
    for message in (await sink.look(turn)).messages:
        await admin.execute(
            "insert into sink.loopback values ($1, 'default', 'c', 'crm', 'text/plain', '{}', 'x', "
            "sink.now(), sink.now(), 1)",
            message.key,
        )
    await travel(31 * DAY)
    assert (await purge_turns(sink.pool))["loopback"] == 2


async def test_age_counts_from_the_end_and_not_from_the_beginning(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    held = await sink.hold("a")
    await travel(40 * DAY)
    await sink.seal_one(held)
    await travel(29 * DAY)
    assert await purge_turns(sink.pool) == {}
    await travel(2 * DAY)
    assert (await purge_turns(sink.pool))["turn"] == 1
    assert not await _is_there(admin, held.turn)


async def test_the_window_ends_to_the_second(sink: Sink, clock: "Clock", freeze: "Freeze") -> None:
    await freeze()
    await _replied(sink, "a")
    await clock.step(30 * DAY - 1)
    assert await purge_turns(sink.pool) == {}
    await clock.step(1)
    assert (await purge_turns(sink.pool))["turn"] == 1


async def test_nothing_that_lives_goes_however_old_it_is(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await sink.accept_one("queued")
    await sink.accept_one("scheduled", delay_seconds=300 * DAY)
    await sink.hold("held", "lane")
    await sink.accept_one("waiting", "lane")
    await sink.sealed("sealed", draft())
    await sink.sealed("stuck", draft(destination="chat"))
    (taken,) = await sink.take(destination="chat")
    await sink.settle((taken, UNKNOWN))
    await sink.sealed("sending", draft(destination="desk"))
    await sink.take(destination="desk")
    before = await _rows(admin, *TABLES)
    await travel(299 * DAY)
    assert await walk(sink.pool) == {}
    assert await _rows(admin, *TABLES) == before


async def test_a_failed_turn_is_kept_for_as_long_as_it_may_be_redriven(
    sink: Sink, travel: "Travel"
) -> None:
    turn = await _failed(sink, "a")
    await travel(89 * DAY)
    assert await purge_turns(sink.pool) == {}
    await sink.redrive(turn)
    await sink.hand_back(await sink.claim_one(), final=True)
    await travel(89 * DAY)
    assert await purge_turns(sink.pool) == {}
    await travel(2 * DAY)
    assert (await purge_turns(sink.pool))["turn"] == 1


@pytest.mark.parametrize("verdict", [DEAD, UNKNOWN])
async def test_an_undelivered_turn_goes_once_nothing_dead_or_unknown_is_left(
    sink: Sink, travel: "Travel", verdict: object
) -> None:
    _, (first, _) = await sink.sealed("a", draft("1"), draft("2", destination="chat"))
    await sink.settle_next(verdict)  # type: ignore[arg-type]
    (other,) = await sink.take(destination="chat")
    await sink.settle((other, DELIVERED))
    await travel(365 * DAY)
    assert await purge_turns(sink.pool) == {}
    await sink.cancel_messages(first)
    await travel(29 * DAY)
    assert await purge_turns(sink.pool) == {}
    await travel(2 * DAY)
    assert (await purge_turns(sink.pool))["message"] == 2


async def test_a_turn_with_a_message_to_be_sent_once_more_stays(
    sink: Sink, travel: "Travel"
) -> None:
    turn = await _replied(sink, "a", None)
    first, _ = (await sink.look(turn)).messages
    await sink.ask_resend(first.id)
    await travel(60 * DAY)
    assert await purge_turns(sink.pool) == {}
    (taken,) = await sink.take_resends()
    await sink.settle_resends((taken, DELIVERED))
    await travel(29 * DAY)
    assert await purge_turns(sink.pool) == {}
    await travel(2 * DAY)
    assert (await purge_turns(sink.pool))["turn"] == 1


async def test_a_cancelled_turn_goes(sink: Sink, travel: "Travel") -> None:
    accepted = await sink.accept_one("a", "c", delay_seconds=60)
    await sink.cancel(accepted.turn)
    await travel(31 * DAY)
    assert (await walk(sink.pool))["turn"] == 1


async def test_a_purge_goes_on_where_it_was_and_looks_at_nothing_young(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    old = [await _replied(sink, f"old-{n}", None) for n in range(4)]
    live = [(await sink.accept_one(f"live-{n}")).turn for n in range(3)]
    await travel(31 * DAY)
    young = [await _replied(sink, f"young-{n}", None) for n in range(4)]
    assert (await purge_turns(sink.pool, rows_max=2))["turn"] == 4
    assert [await _is_there(admin, turn) for turn in old] == [False] * 4
    assert [await _is_there(admin, turn) for turn in live + young] == [True] * 7


async def test_a_duplicate_that_meets_a_tombstone_gets_its_handle_and_final_state(
    sink: Sink, travel: "Travel"
) -> None:
    first = await sink.accept_one("a", "c")
    await sink.seal_one(await sink.claim_one())
    joined = (await sink.accept(short("j", "d")))[0]
    await sink.cancel(joined.turn)
    await travel(31 * DAY)
    assert (await walk(sink.pool))["turn"] == 2
    again = await sink.accept_one("a", "c")
    assert (again.duplicate, again.state) == (True, "replied")
    assert (again.inbound, again.turn) == (first.inbound, first.turn)
    (also,) = await sink.accept(short("j", "d"))
    assert (also.duplicate, also.state, also.turn) == (True, "cancelled", joined.turn)
    (other,) = await sink.accept(short("j", "d", body=b'"else"'))
    assert not other.same_body


async def test_a_key_is_new_again_once_its_tombstone_is_gone(sink: Sink, travel: "Travel") -> None:
    first = await sink.accept_one("a", "c")
    await sink.seal_one(await sink.claim_one())
    await travel(31 * DAY)
    assert await walk(sink.pool) == {"turn": 1, "inbound": 1, "attempt": 1, "event": 3, "lane": 1}
    await travel(9 * DAY)
    assert await walk(sink.pool) == {}
    await travel(2 * DAY)
    assert await expire_all(sink.pool) == {"idempotency_key": 1, "tombstone": 2}
    again = await sink.accept_one("a", "c")
    assert not again.duplicate
    assert again.turn != first.turn


async def test_a_key_is_never_forgotten_while_its_turn_lives(sink: Sink, travel: "Travel") -> None:
    first = await sink.accept_one("a")
    await travel(KEY_SECONDS + 100 * DAY)
    assert await walk(sink.pool) == {}
    again = await sink.accept_one("a")
    assert (again.duplicate, again.turn) == (True, first.turn)


async def test_a_tombstone_stands_as_long_as_the_key_that_was_given_longest(
    sink: Sink, admin: "Admin", freeze: "Freeze", travel: "Travel"
) -> None:
    """The life of keys may be set shorter than it was when this one was given."""
    await freeze()
    accepted = await sink.accept_one("a")
    await admin.execute(
        "update sink.idempotency_key set expires_at = sink.now() + interval '400 days'"
    )
    await admin.execute("update sink.inbound set key_expires_at = sink.now() + interval '400 days'")
    await sink.cancel(accepted.turn)
    await travel(31 * DAY)
    await walk(sink.pool)
    stone = await find_tombstone(sink.pool, accepted.turn)
    assert stone is not None
    assert stone.expires_at == accepted.key_expires_at + timedelta(days=370)
    assert (stone.queue, stone.state) == ("default", "cancelled")


async def test_a_tombstone_waits_for_a_walk_over_all_keys(sink: Sink, travel: "Travel") -> None:
    accepted = await sink.accept_one("a")
    await sink.cancel(accepted.turn)
    await travel(31 * DAY)
    await purge_turns(sink.pool)
    await travel(60 * DAY)
    again = await sink.accept_one("a")
    assert (again.duplicate, again.state) == (True, "cancelled")


async def test_an_idle_lane_goes_with_its_last_turn_and_its_order_begins_anew(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    await _replied(sink, "a")
    await _replied(sink, "b")
    await travel(31 * DAY)
    counts = await walk(sink.pool)
    assert (counts["lane"], counts["delivery_lane"]) == (1, 1)
    turns = [(await sink.accept_one(key, CONVERSATION)).turn for key in "cde"]
    assert await admin.fetchval("select array_agg(lane_seq order by lane_seq) from sink.turn") == [
        1, 2, 3,
    ]  # fmt: skip
    for turn in turns:
        held = await sink.claim_one()
        assert held.turn == turn
        await sink.seal_one(held, draft("1", CONVERSATION), draft("2", CONVERSATION))
    assert await admin.fetchval("select array_agg(place order by place) from sink.outbox") == [
        1, 2, 3, 4, 5, 6,
    ]  # fmt: skip
    sent = [(await sink.settle_next(DELIVERED)) for _ in range(6)]
    assert sent == [message.id for turn in turns for message in (await sink.look(turn)).messages]


async def test_a_lane_stays_while_any_turn_of_it_is_there_or_to_come(
    sink: Sink, travel: "Travel"
) -> None:
    await _replied(sink, "a", "first")
    failed = await sink.hold("f", "failed")
    await sink.hand_back(failed, final=True)
    await sink.accept_one("s", "scheduled", delay_seconds=300 * DAY)
    await travel(31 * DAY)
    await _replied(sink, "young", "first")
    assert await walk(sink.pool) == {
        "turn": 1, "inbound": 1, "attempt": 1, "message": 2, "event": 10,
    }  # fmt: skip
    await sink.redrive(failed.turn)
    held = await sink.claim_one()
    assert held.turn == failed.turn


async def test_a_delivery_lane_with_something_open_stays(sink: Sink, travel: "Travel") -> None:
    turn, _ = await sink.sealed("a", draft("1", "x"))
    (taken,) = await sink.take()
    await sink.settle((taken, LATER))
    await travel(365 * DAY)
    assert await walk(sink.pool) == {}
    await sink.settle_next(DELIVERED)
    assert await sink.state(turn) == "replied"
    assert await walk(sink.pool) == {"delivery_lane": 1}


async def test_claims_and_releases_of_what_is_gone_find_nothing(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a")
    outcome = await sink.seal_one(held, draft())
    taken = await sink.take_one()
    await sink.settle((taken, DELIVERED))
    await travel(31 * DAY)
    await purge_turns(sink.pool)
    (renewed,) = await sink.renew(held)
    (released,) = await sink.release(returning(held))
    assert {type(renewed).__name__, type(released).__name__} == {"NoSuchTurn"}
    assert await sink.cancel(held.turn) == [None]
    assert await sink.redrive(held.turn) == [None]
    message = outcome.messages[0].id
    assert await sink.cancel_messages(message) == [None]
    assert await sink.redrive_messages(message) == [None]
    assert await sink.resolve(message, state="delivered") == [None]
    assert await sink.tell(taken) == set()
    assert await find_events(sink.pool, held.turn, after=0, events_max=1) == []
