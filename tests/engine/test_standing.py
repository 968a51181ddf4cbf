"""A turn is shown as it is: what it waits for, what was decided about it, what is to follow, and what it sealed."""

from typing import TYPE_CHECKING
from uuid import uuid4

from app.domain.seal import spell
from app.engine.sealed_set import find_set
from tests.engine.held_stories import decide, deciding, expire, later, seal_held
from tests.engine.stories import Sink, draft, returning
from tests.engine.walks import DAY, purge_turns

if TYPE_CHECKING:
    from tests.conftest import Travel


async def test_a_held_turn_shows_what_is_asked_and_until_when(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("one"), draft("two"), follow_ups=[later("x", "c")])
    view = await sink.look(held.turn)
    assert view.hold is not None
    hold = view.hold.hold
    assert (view.state, view.hold.seal, hold.decision) == ("held", 1, None)
    assert hold.payload_hash == sealed.payload_hash == spell(view.payload_hash or b"")
    assert hold.deadline_at > hold.held_at
    assert [message.state for message in view.messages] == ["held", "held"]
    (follow_up,) = view.follow_ups
    assert (follow_up.state, follow_up.conversation, follow_up.due_at) == ("held", "c", None)
    assert view.wait is None


async def test_a_set_is_read_whole_with_what_is_to_follow(sink: Sink) -> None:
    held = await sink.hold("a")
    drafts = (draft("one", headers={"x-tag": "t"}), draft("two", delay_seconds=3.0))
    sealed = await seal_held(
        sink, held, *drafts, follow_ups=[later("x", delay_seconds=9.0)], order="strict"
    )
    found = await find_set(sink.pool, held.turn)
    assert found is not None
    assert (found.seal, found.is_live, found.is_strict) == (1, True, True)
    assert spell(found.payload_hash) == sealed.payload_hash
    assert [(one.body, one.delay_seconds) for one in found.messages] == [
        (b"one", 0.0),
        (b"two", 3.0),
    ]
    assert dict(found.messages[0].headers) == {"x-tag": "t"}
    assert [(one.body, one.follow_up.delay_seconds) for one in found.follow_ups] == [(b'"x"', 9.0)]


async def test_a_set_that_was_sent_back_is_no_more_the_turns_and_stays_readable(sink: Sink) -> None:
    held = await sink.hold("a")
    first = await seal_held(sink, held, draft("one"), follow_ups=[later()])
    await decide(sink, deciding(held.turn, first.payload_hash, "revise", comment="shorter"))
    view = await sink.look(held.turn)
    assert (view.state, view.payload_hash) == ("queued", None)
    assert (view.messages, view.follow_ups) == ([], ())
    assert view.hold is not None
    assert (view.hold.hold.decision, view.hold.hold.comment) == ("revise", "shorter")
    again = await sink.claim_one()
    second = await seal_held(sink, again, draft("two"))
    void, live = await find_set(sink.pool, held.turn, 1), await find_set(sink.pool, held.turn)
    assert void is not None
    assert live is not None
    assert (void.is_live, spell(void.payload_hash)) == (False, first.payload_hash)
    assert [one.body for one in void.messages] == [b"one"]
    assert [(one.body, one.follow_up.state) for one in void.follow_ups] == [
        (b'"later"', "cancelled")
    ]
    assert (live.seal, live.is_live, spell(live.payload_hash)) == (2, True, second.payload_hash)
    assert [held.seal for held in (await sink.look(held.turn)).seals] == [1, 2]


async def test_an_edited_set_is_read_as_it_was_and_as_it_is(sink: Sink) -> None:
    held = await sink.hold("a")
    first = await seal_held(sink, held, draft("one"))
    await decide(sink, deciding(held.turn, first.payload_hash, edited=[draft("better")]))
    before, now = await find_set(sink.pool, held.turn, 1), await find_set(sink.pool, held.turn)
    assert before is not None
    assert now is not None
    assert before.hold is not None
    assert (before.is_live, [one.body for one in before.messages]) == (False, [b"one"])
    assert (now.is_live, [one.body for one in now.messages]) == (True, [b"better"])
    assert before.hold.hold.new_hash == spell(now.payload_hash)
    view = await sink.look(held.turn)
    assert [message.state for message in view.messages] == ["pending"]
    assert view.hold is not None
    assert view.hold.hold.decision == "edit"


async def test_a_follow_up_is_as_its_turn_is_also_when_that_is_gone(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a")
    sealed = await seal_held(sink, held, draft(), follow_ups=[later(delay_seconds=60.0)])
    await decide(sink, deciding(held.turn, sealed.payload_hash))
    (follow_up,) = (await sink.look(held.turn)).follow_ups
    assert follow_up.state == "scheduled"
    assert follow_up.due_at is not None
    child = await sink.look(follow_up.turn)
    assert (child.root, child.depth, child.inbound) == (held.turn, 1, follow_up.inbound)
    await sink.cancel(child.id)
    await travel(31 * DAY)
    assert (await purge_turns(sink.pool))["turn"] == 1
    assert [one.state for one in (await sink.look(held.turn)).follow_ups] == ["cancelled"]
    found = await find_set(sink.pool, held.turn)
    assert found is not None
    assert [one.body for one in found.follow_ups] == [None]


async def test_an_escalated_hold_says_how_often_somebody_was_told(
    sink: Sink, travel: "Travel"
) -> None:
    held = await sink.hold("a")
    await seal_held(sink, held, draft())
    await travel(3601)
    await expire(sink)
    view = await sink.look(held.turn)
    assert view.hold is not None
    assert (view.state, view.hold.hold.decision, view.hold.hold.reminders) == ("escalated", None, 1)


async def test_a_parked_turn_shows_its_wait_for_as_long_as_it_lasts(sink: Sink) -> None:
    held = await sink.parked("a", name="approval", note="look", payload_hash="h")
    wait = (await sink.look(held.turn)).wait
    assert wait is not None
    assert (wait.name, wait.note, wait.payload_hash) == ("approval", "look", "h")
    await sink.signal_one(held.turn, "approval", may_decide=True, payload_hash="h")
    view = await sink.look(held.turn)
    assert (view.state, view.wait) == ("queued", None)


async def test_a_set_that_was_never_sealed_is_not_found(sink: Sink) -> None:
    turn, _ = await sink.sealed("sealed", draft())
    held = await sink.hold("held")
    for asked in ((held.turn, None), (held.turn, 1), (turn, 2), (uuid4(), None)):
        assert await find_set(sink.pool, *asked) is None
    found = await find_set(sink.pool, turn)
    assert found is not None
    assert (found.seal, found.hold) == (1, None)
    await sink.release(returning(held, final=True))
