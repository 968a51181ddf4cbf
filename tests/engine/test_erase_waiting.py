"""What waits for people is erased with its conversation, and purged with its turn: no word of it is left anywhere."""

from typing import TYPE_CHECKING, Any

import pytest

from app.engine.erase import Conversation, Erased, StillLive, erase
from app.engine.tombstone import find_tombstone
from tests.engine.held_stories import PLAN, decide, deciding, expire, later, seal_held
from tests.engine.stories import DEAD, DELIVERED, ONCALL, QUEUE, Sink, draft
from tests.engine.suspense import Suspend
from tests.engine.walks import DAY, WINDOWS, purge_turns, walk

if TYPE_CHECKING:
    from uuid import UUID

    from app.domain.model import Sealed
    from tests.conftest import Travel
    from tests.database import Admin

# Nothing else in a test's rows has these words.
NAME = "ada@example.org"
WORDS = "a very private matter"

TABLES = "select relname from pg_class where relnamespace = 'sink'::regnamespace and relkind = 'r'"
HANGING = ("hold", "wait", "signal", "follow_up", "notice")


async def _erase(sink: Sink, *, cancel: bool = True, is_open: bool = False) -> Erased | StillLive:
    conversation = Conversation(QUEUE, NAME, is_open)
    return await erase(sink.pool, conversation, windows=WINDOWS, cancel=cancel, by="ada")


async def _erased(sink: Sink, **changes: Any) -> dict[str, int]:
    erased = await _erase(sink, **changes)
    assert isinstance(erased, Erased)
    assert erased.is_done
    return {kind: rows for kind, rows in erased.counts.items() if rows}


async def _words_left(admin: "Admin") -> list[str]:
    """Where the words are in any column of any row."""
    found: list[str] = []
    for table in await admin.fetch(TABLES):
        for row in await admin.fetch(f"select * from sink.{table['relname']}"):
            stored = " ".join(
                value.decode("latin1") if isinstance(value, bytes) else str(value)
                for value in row.values()
            )
            found += [table["relname"] for word in (NAME, WORDS) if word in stored]
    return found


async def _rows(admin: "Admin", *tables: str) -> dict[str, int]:
    counts = {name: await admin.fetchval(f"select count(*) from sink.{name}") for name in tables}
    return {name: count for name, count in counts.items() if count}


async def _held(
    sink: Sink, key: str, conversation: str | None = NAME, **options: Any
) -> tuple["UUID", "Sealed"]:
    held = await sink.hold(key, conversation)
    plan = type(PLAN)("seal", 3600.0, "escalate", note=WORDS)
    said = options.pop("said", draft(WORDS, conversation))
    return held.turn, await seal_held(sink, held, said, plan=plan, **options)


@pytest.mark.parametrize("escalated", [False, True])
async def test_a_held_turn_is_not_erased_unless_it_may_be_cancelled(
    sink: Sink, admin: "Admin", travel: "Travel", *, escalated: bool
) -> None:
    turn, _ = await _held(sink, "a", follow_ups=[later(WORDS, NAME)])
    if escalated:
        await travel(3601)
        await expire(sink)
    assert await _erase(sink, cancel=False) == StillLive(live=1, sending=0)
    assert await sink.state(turn) == ("escalated" if escalated else "held")
    counts = await _erased(sink)
    assert {kind: counts[kind] for kind in ("turn", "message", "hold", "follow_up")} == {
        "turn": 1, "message": 1, "hold": 1, "follow_up": 1,
    }  # fmt: skip
    assert await _words_left(admin) == []
    assert await _rows(admin, *HANGING) == {}
    stone = await find_tombstone(sink.pool, turn)
    assert stone is not None
    assert stone.state == "cancelled"


async def test_a_parked_turn_is_not_erased_unless_it_may_be_cancelled(
    sink: Sink, admin: "Admin"
) -> None:
    held = await sink.parked("a", NAME, note=WORDS)
    await sink.signal_one(held.turn, "other", f'"{WORDS}"')
    assert await _erase(sink, cancel=False) == StillLive(live=1, sending=0)
    counts = await _erased(sink)
    assert (counts["turn"], counts["wait"], counts["signal"]) == (1, 1, 1)
    assert await _words_left(admin) == []
    assert await _rows(admin, *HANGING) == {}


async def test_what_was_decided_goes_with_the_words_of_whoever_decided(
    sink: Sink, admin: "Admin"
) -> None:
    turn, sealed = await _held(sink, "a")
    await decide(sink, deciding(turn, sealed.payload_hash, "revise", by=WORDS, comment=WORDS))
    await seal_held(sink, await sink.claim_one(), draft(WORDS, NAME))
    counts = await _erased(sink)
    assert (counts["message"], counts["hold"]) == (2, 2)
    assert await _words_left(admin) == []


async def test_what_is_to_follow_in_the_conversation_goes_with_it(
    sink: Sink, admin: "Admin"
) -> None:
    turn, sealed = await _held(sink, "a", follow_ups=[later(WORDS, NAME, delay_seconds=DAY)])
    await decide(sink, deciding(turn, sealed.payload_hash))
    await sink.settle_next(DELIVERED)
    assert await _erase(sink, cancel=False) == StillLive(live=1, sending=0)
    assert (await _erased(sink))["turn"] == 2
    assert await _words_left(admin) == []


async def test_what_tells_somebody_of_an_erased_turn_goes_too(sink: Sink, admin: "Admin") -> None:
    turn, _ = await sink.sealed("a", draft(WORDS, NAME), conversation=NAME)
    await sink.settle_next(DEAD)
    await sink.escalate()
    # It is still to be sent.
    assert await _erase(sink, cancel=False) == StillLive(live=1, sending=0)
    told = await sink.take(destination=ONCALL)
    assert await _erase(sink) == StillLive(live=1, sending=1)
    await sink.settle((told[0], DELIVERED))
    counts = await _erased(sink)
    assert (counts["turn"], counts["message"]) == (2, 2)
    assert await _words_left(admin) == []
    assert await find_tombstone(sink.pool, turn)


async def test_nobody_is_told_of_a_turn_after_it_was_erased(sink: Sink, admin: "Admin") -> None:
    await _held(sink, "a")
    await _erased(sink)
    assert await sink.escalate() == {}
    assert await _words_left(admin) == []


async def test_whoever_is_about_to_be_told_is_waited_for_and_then_erased(
    sink: Sink, admin: "Admin", suspend: Suspend
) -> None:
    await sink.sealed("a", draft(WORDS, NAME), conversation=NAME)
    await sink.settle_next(DEAD)
    async with suspend() as replica:
        await replica.sink.escalate()
        waiting = await replica.blocks(_erase(sink))
    erased = waiting.result()
    assert isinstance(erased, Erased)
    # The turn stays until what tells of it is gone, so that nothing is left that nobody finds.
    assert (erased.is_done, erased.counts["turn"]) == (False, 0)
    assert (await _erased(sink))["turn"] == 2
    assert await _words_left(admin) == []


async def test_what_others_hold_for_the_conversation_is_live(sink: Sink, admin: "Admin") -> None:
    said = draft(WORDS, NAME)
    turn, _ = await _held(sink, "message", "else", said=said)
    assert await _erase(sink, is_open=True, cancel=False) == StillLive(live=1, sending=0)
    assert (await _erased(sink, is_open=True))["turn"] == 1
    assert await _words_left(admin) == []
    assert await find_tombstone(sink.pool, turn)


async def test_what_others_would_have_follow_into_the_conversation_is_live(
    sink: Sink, admin: "Admin"
) -> None:
    held = await sink.hold("a", "else")
    await seal_held(sink, held, draft(conversation="else"), follow_ups=[later(WORDS, NAME)])
    assert await _erase(sink, cancel=False) == StillLive(live=1, sending=0)
    await _erased(sink)
    # The turn is the other conversation's, and stays with what it said there.
    assert await sink.state(held.turn) == "cancelled"
    assert await _words_left(admin) == []


async def test_what_others_had_follow_into_the_conversation_goes_without_them(
    sink: Sink, admin: "Admin"
) -> None:
    held = await sink.hold("a", "else")
    sealed = await seal_held(
        sink, held, draft(conversation="else"), follow_ups=[later(WORDS, NAME, key=WORDS)]
    )
    await decide(sink, deciding(held.turn, sealed.payload_hash))
    await sink.settle_next(DELIVERED)
    assert (await _erased(sink))["turn"] == 1
    assert (await sink.look(held.turn)).follow_ups == ()
    # A key is kept as it was given until it expires.
    assert await _words_left(admin) == ["idempotency_key"]


async def test_a_held_or_parked_turn_is_never_purged(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    held, _ = await _held(sink, "held")
    parked = await sink.parked("parked", seconds=400 * DAY)
    escalated, _ = await _held(sink, "escalated", "other")
    await travel(3601)
    await expire(sink)
    await travel(399 * DAY)
    before = await _rows(admin, "turn", "outbox", *HANGING)
    assert await walk(sink.pool) == {}
    assert await _rows(admin, "turn", "outbox", *HANGING) == before
    assert [await sink.state(turn) for turn in (held, parked.turn, escalated)] == [
        "escalated", "parked", "escalated",
    ]  # fmt: skip


async def test_everything_that_waited_goes_with_its_turn(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    held = await sink.parked("a", NAME, note=WORDS)
    await sink.signal_one(held.turn)
    again = await sink.claim_one()
    sealed = await seal_held(sink, again, draft(WORDS, NAME), follow_ups=[later(WORDS, NAME)])
    await decide(sink, deciding(held.turn, sealed.payload_hash, "reject", comment=WORDS))
    await travel(31 * DAY)
    counts = await walk(sink.pool)
    assert {name: counts[name] for name in ("turn", "hold", "wait", "signal", "follow_up")} == {
        "turn": 1, "hold": 1, "wait": 1, "signal": 1, "follow_up": 1,
    }  # fmt: skip
    assert await _rows(admin, "turn", *HANGING) == {}
    assert await _words_left(admin) == []


async def test_a_follow_up_outlives_the_turn_that_asked_for_it(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    turn, sealed = await _held(sink, "a", follow_ups=[later("x", NAME, delay_seconds=60 * DAY)])
    await decide(sink, deciding(turn, sealed.payload_hash))
    (follow_up,) = (await sink.look(turn)).follow_ups
    await sink.settle_next(DELIVERED)
    await travel(31 * DAY)
    assert (await purge_turns(sink.pool))["turn"] == 1
    assert await sink.state(follow_up.turn) == "scheduled"
    await travel(30 * DAY)
    await sink.due()
    claimed = await sink.claim_one()
    assert claimed.turn == follow_up.turn
    assert claimed.inbound[0].body == b'"x"'
    await sink.seal_one(claimed)
    await travel(31 * DAY)
    assert (await purge_turns(sink.pool))["turn"] == 1
    assert await _rows(admin, "turn", *HANGING) == {}


async def test_what_told_somebody_goes_after_its_own_time(
    sink: Sink, admin: "Admin", travel: "Travel"
) -> None:
    held = await sink.hold("a")
    await sink.hand_back(held, final=True)
    await sink.escalate()
    (told,) = await sink.take(destination=ONCALL)
    await sink.settle((told, DELIVERED))
    await travel(31 * DAY)
    # What failed is kept longer than what told of it.
    assert (await purge_turns(sink.pool))["turn"] == 1
    assert await sink.state(held.turn) == "failed"
    await travel(60 * DAY)
    assert (await purge_turns(sink.pool))["turn"] == 1
    assert await _rows(admin, "turn", "outbox", *HANGING) == {}
