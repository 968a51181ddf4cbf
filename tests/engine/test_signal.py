"""What a turn is told under a name: the first wins, and is kept; what a person was asked a person answers."""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.domain.model import (
    AlreadySignalled,
    AskedOtherwise,
    NoSuchTurn,
    PersonNeeded,
    Signalled,
    TooManySignals,
    TurnEnded,
    Woken,
)
from app.engine import signal as signals
from tests.engine.stories import DELIVERED, Sink, draft, only
from tests.engine.waiting_stories import telling

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

HASH = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64


async def test_a_signal_wakes_the_turn_that_waits_for_it_and_is_in_its_history(sink: Sink) -> None:
    held = await sink.parked("a", "c")
    told = await sink.signal_one(held.turn, said='{"paid": true}', sent_by="the till")
    assert told == Signalled("queued", woken=True)
    again = await sink.claim_one()
    assert (again.turn, again.attempt) == (held.turn, 2)
    (entry,) = again.history
    assert (entry.attempt, entry.ended, entry.reason) == (1, "parked", "signal")
    assert isinstance(entry.said, Woken)
    assert (entry.said.name, entry.said.by, entry.said.body) == (
        "answer",
        "the till",
        b'{"paid": true}',
    )
    assert (await sink.story(held.turn))[2:] == [
        ("park", "processing", "parked"),
        ("wake", "parked", "queued"),
        ("claim", "queued", "processing"),
    ]


async def test_a_signal_under_another_name_is_kept_and_wakes_nobody(sink: Sink) -> None:
    held = await sink.parked("a")
    assert await sink.signal_one(held.turn, "other") == Signalled("parked")
    assert await sink.signal_one(held.turn) == Signalled("queued", woken=True)
    # The other one waits for whoever asks for it.
    assert await sink.park_one(await sink.claim_one(), "other") == "queued"


async def test_an_early_signal_is_kept_and_the_park_wakes_at_once(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    assert await sink.signal_one(held.turn, said="1") == Signalled("processing")
    assert await sink.park_one(held) == "queued"
    (entry,) = (await sink.claim_one()).history
    assert isinstance(entry.said, Woken)
    assert entry.said.body == b"1"


@pytest.mark.parametrize("delay", [0.0, 60.0])
async def test_a_turn_that_has_not_run_yet_can_be_told(
    sink: Sink, travel: "Travel", delay: float
) -> None:
    await sink.hold("first", "c")
    accepted = await sink.accept_one("a", "c", delay_seconds=delay)
    assert await sink.signal_one(accepted.turn) == Signalled(accepted.state)
    await travel(61)
    await sink.due()


async def test_the_first_wins_for_good(sink: Sink) -> None:
    held = await sink.parked("a")
    await sink.signal_one(held.turn, said="1", sent_by="ann")
    same = telling(held.turn, said="1", sent_by="bob", sent_with="key-2")
    other = telling(held.turn, said="2")
    for state in ("queued", "processing", "replied"):
        assert await sink.signal(same) == [Signalled(state, duplicate=True)]
        already = only(await sink.signal(other))
        assert isinstance(already, AlreadySignalled)
        assert (already.state, already.by) == (state, "ann")
        if state == "queued":
            held = await sink.claim_one()
        elif state == "processing":
            await sink.seal_one(held)


@pytest.mark.parametrize("first", [True, False])
async def test_the_same_words_are_the_same_whoever_says_them(sink: Sink, first: bool) -> None:
    held = await sink.parked("a")
    await sink.signal(telling(held.turn, may_decide=first))
    again = telling(held.turn, may_decide=not first)
    assert await sink.signal(again) == [Signalled("queued", duplicate=True)]


@pytest.mark.parametrize("first", [True, False])
async def test_words_that_may_answer_a_question_are_others_without_the_right_to(
    sink: Sink, first: bool
) -> None:
    held = await sink.hold("a")
    await sink.signal(telling(held.turn, payload_hash=HASH, may_decide=first))
    again = telling(held.turn, payload_hash=HASH, may_decide=not first)
    # Who has decided must not be told that it is done by what a park would drop.
    assert isinstance(only(await sink.signal(again)), AlreadySignalled)


async def test_a_rerun_that_parks_again_finds_what_was_said(sink: Sink, travel: "Travel") -> None:
    held = await sink.parked("a")
    await sink.signal_one(held.turn)
    crashed = await sink.claim_one()
    await travel(61)
    await sink.sweep_turns()
    await travel(2)
    again = await sink.claim_one()
    assert await sink.park_one(again) == "queued"
    assert crashed.turn == again.turn
    last = await sink.claim_one()
    assert [(entry.ended, entry.reason) for entry in last.history] == [
        ("parked", "signal"),
        ("swept", "lease_lapsed"),
        ("parked", "signal"),
    ]


async def test_a_person_is_needed_where_one_was_asked_and_knows_what_about(
    sink: Sink, admin: "Admin"
) -> None:
    held = await sink.parked("a", payload_hash=HASH, note="pay?")
    assert await admin.fetchval("select (kind, turn) from sink.notice") == ("wait", held.turn)
    assert await sink.signal(telling(held.turn, payload_hash=HASH)) == [PersonNeeded()]
    for wrong in (OTHER, None):
        asked = telling(held.turn, payload_hash=wrong, may_decide=True)
        assert await sink.signal(asked) == [AskedOtherwise(HASH, "parked")]
    assert await sink.state(held.turn) == "parked"
    assert await admin.fetchval("select count(*) from sink.signal") == 0
    decided = telling(held.turn, payload_hash=HASH, may_decide=True, sent_by="ada")
    assert await sink.signal(decided) == [Signalled("queued", woken=True)]
    assert await sink.signal(replace(decided, sent_by="bob")) == [
        Signalled("queued", duplicate=True)
    ]
    # The same words from somebody who may not decide are not the same.
    assert isinstance(only(await sink.signal(replace(decided, may_decide=False))), AlreadySignalled)


async def test_the_story_says_what_a_person_was_asked_and_what_was_answered(
    sink: Sink, admin: "Admin"
) -> None:
    """Waits and signals go with their turn; whoever reads the feed has only the events."""
    held = await sink.parked("a", payload_hash=HASH)
    await sink.parked("b", "d")
    await sink.signal(telling(held.turn, payload_hash=HASH, may_decide=True, sent_with="a person"))
    rows = await admin.fetch(
        "select verb, detail ->> 'payload_hash' as asked, detail ->> 'by' as by from sink.event"
        " where verb in ('park', 'wake') order by id"
    )
    assert [tuple(row) for row in rows] == [
        ("park", HASH, None),
        ("park", None, None),
        ("wake", HASH, "a person"),
    ]


async def test_nobody_is_told_of_a_wait_that_asks_nobody(sink: Sink, admin: "Admin") -> None:
    await sink.parked("a")
    assert await admin.fetchval("select count(*) from sink.notice") == 0


async def test_a_forged_answer_that_came_early_is_dropped_when_a_person_is_asked(
    sink: Sink, admin: "Admin"
) -> None:
    held = await sink.hold("a")
    await sink.signal_one(held.turn, payload_hash=HASH, sent_with="agent-key")
    assert await sink.park_one(held, payload_hash=HASH) == "parked"
    detail = await admin.fetchval("select detail ->> 'dropped' from sink.event where verb = 'park'")
    assert detail == "agent-key"
    assert await admin.fetchval("select count(*) from sink.notice") == 1
    decided = telling(held.turn, said='"no"', payload_hash=HASH, may_decide=True)
    assert await sink.signal(decided) == [Signalled("queued", woken=True)]
    (entry,) = (await sink.claim_one()).history
    assert isinstance(entry.said, Woken)
    assert entry.said.body == b'"no"'
    assert await admin.fetchval("select count(*) from sink.signal where dropped_at is null") == 1


async def test_a_decision_that_came_early_about_just_this_counts(
    sink: Sink, admin: "Admin"
) -> None:
    held = await sink.hold("a")
    await sink.signal_one(held.turn, payload_hash=HASH, may_decide=True)
    assert await sink.park_one(held, payload_hash=HASH) == "queued"
    assert await admin.fetchval("select count(*) from sink.notice") == 0


async def test_a_decision_about_something_else_is_none_about_this(sink: Sink) -> None:
    held = await sink.parked("a", payload_hash=HASH)
    await sink.signal_one(held.turn, said="1", payload_hash=HASH, may_decide=True)
    again = await sink.claim_one()
    assert await sink.park_one(again, payload_hash=OTHER) == "parked"
    await sink.signal_one(held.turn, said="2", payload_hash=OTHER, may_decide=True)
    # What was decided first is still told of the attempt that had asked for it.
    said = [entry.said for entry in (await sink.claim_one()).history]
    assert [one.body for one in said if isinstance(one, Woken)] == [b"1", b"2"]


async def test_who_has_ended_is_told_nothing_more(sink: Sink) -> None:
    failed, cancelled, replied, sealed, undelivered = [await sink.hold(f"k{n}") for n in range(5)]
    await sink.hand_back(failed, final=True)
    await sink.cancel(cancelled.turn)
    await sink.seal_one(replied)
    await sink.seal_one(undelivered, draft("x"))
    await sink.cancel(undelivered.turn)
    await sink.seal_one(sealed, draft("y"))
    for held in (failed, cancelled, replied, sealed, undelivered):
        state = await sink.state(held.turn)
        assert await sink.signal(telling(held.turn)) == [TurnEnded(state)]
    await sink.settle_next(DELIVERED)
    assert await sink.signal(telling(uuid4())) == [NoSuchTurn()]


async def test_a_signal_may_say_nothing_but_its_name(sink: Sink) -> None:
    held = await sink.parked("a")
    silent = telling(held.turn, content_type=None, body=None, strict_json=False)
    assert await sink.signal(silent, silent) == [
        Signalled("queued", woken=True),
        Signalled("queued", duplicate=True),
    ]
    (entry,) = (await sink.claim_one()).history
    assert isinstance(entry.said, Woken)
    assert (entry.said.content_type, entry.said.body) == (None, None)


async def test_a_list_tells_each_of_its_turns(sink: Sink) -> None:
    waiting = [await sink.parked(f"k{n}", f"c{n}") for n in range(3)]
    told = [telling(one.turn) for one in waiting]
    first = waiting[0].turn
    outcomes = await sink.signal(
        *told, telling(first, "more"), telling(uuid4()), replace(told[0], request_hash=b"x")
    )
    assert outcomes[:3] == [Signalled("queued", woken=True)] * 3
    assert outcomes[3:5] == [Signalled("queued"), NoSuchTurn()]
    assert isinstance(outcomes[5], AlreadySignalled)


async def test_a_turn_is_told_a_bounded_number_of_things(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "SIGNALS_MAX", 2)
    held = await sink.hold("a")
    for n in range(2):
        await sink.signal_one(held.turn, f"n{n}")
    assert await sink.signal(telling(held.turn, "n2")) == [TooManySignals("processing")]
    assert await sink.signal_one(held.turn, "n1") == Signalled("processing", duplicate=True)
    # What it waits for can always come.
    assert await sink.park_one(held) == "parked"
    assert await sink.signal_one(held.turn) == Signalled("queued", woken=True)
