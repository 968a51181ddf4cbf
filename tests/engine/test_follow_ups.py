"""What a turn asks for later is committed with its seal: once, in its time, below its parent, and joined by nobody."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from app.domain.ids import TURN_PREFIX, format_id
from app.engine import inspect
from tests.engine.held_stories import holding, later, seal_held
from tests.engine.stories import QUEUE, Sink, arrival, draft, only, short

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin


async def test_a_follow_up_is_an_inbound_with_a_turn_of_its_own(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a", "c")
    body = b'{"again": true}'
    asked = [later("next", "c", body=body)]
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=asked, plan=None)
    (follow_up,) = sealed.follow_ups
    assert (follow_up.state, follow_up.duplicate, follow_up.queue) == ("scheduled", False, QUEUE)
    assert await sink.due() == [QUEUE]
    claimed = await sink.claim_one()
    assert (claimed.turn, claimed.conversation) == (follow_up.turn, "c")
    (inbound,) = claimed.inbound
    assert (inbound.id, inbound.source, inbound.body) == (follow_up.inbound, "follow_up", body)
    events = await inspect.find_events(sink.pool, follow_up.turn, after=0, events_max=1)
    assert events[0].detail == {"parent": format_id(TURN_PREFIX, held.turn)}
    row = await admin.fetchrow("select root, depth from sink.turn where id = $1", follow_up.turn)
    assert tuple(row or ()) == (held.turn, 1)


async def test_a_set_with_nothing_but_follow_ups_is_replied_at_once(sink: Sink) -> None:
    held = await sink.hold("a")
    sealed = await seal_held(sink, held, follow_ups=[later()], plan=None)
    assert sealed.state == "replied"
    assert await sink.due() == [QUEUE]


async def test_the_same_seal_again_adds_none(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a")
    request = holding(held, draft("1"), follow_ups=[later(), later(key="k")], plan=None)
    first = only(await sink.seal(request))
    again = only(await sink.seal(request))
    assert again.follow_ups == first.follow_ups
    assert await admin.fetchval("select count(*) from sink.inbound where source = 'follow_up'") == 2


async def test_each_comes_in_its_time(sink: Sink, travel: "Travel", admin: "Admin") -> None:
    now: datetime = await admin.fetchval("select sink.now()")
    held = await sink.hold("a")
    asked = [
        later("delayed", delay_seconds=30.0),
        later("at a time", not_before=now + timedelta(seconds=60)),
        later("long ago", not_before=datetime(2020, 1, 1, tzinfo=UTC)),
    ]
    await seal_held(sink, held, follow_ups=asked, plan=None)
    said = []
    for _ in range(3):
        assert await sink.due() == [QUEUE]
        claimed = await sink.claim_one()
        said += [one.body for one in claimed.inbound]
        await sink.seal_one(claimed)
        assert await sink.due() == []
        await travel(31)
    assert said == [b'"long ago"', b'"delayed"', b'"at a time"']


async def test_a_known_key_stands_for_the_turn_that_it_brought_first(sink: Sink) -> None:
    first, second = await sink.hold("a"), await sink.hold("b")
    one = (await seal_held(sink, first, follow_ups=[later("x", key="k")], plan=None)).follow_ups[0]
    asked = [later("y", key="k"), later("z", key="k", queue="other"), later("y")]
    known, elsewhere, own = (await seal_held(sink, second, follow_ups=asked, plan=None)).follow_ups
    assert (known.turn, known.inbound, known.duplicate) == (one.turn, one.inbound, True)
    assert (elsewhere.duplicate, own.duplicate) == (False, False)
    assert len({one.turn, elsewhere.turn, own.turn}) == 3


async def test_a_key_is_not_that_of_an_inbound_from_outside(sink: Sink) -> None:
    await sink.accept_one("k")
    held = await sink.hold("a")
    sealed = await seal_held(sink, held, follow_ups=[later(key="k")], plan=None)
    assert not sealed.follow_ups[0].duplicate
    # Nor can anybody take the key that another follow-up has of its own.
    own = await seal_held(sink, await sink.hold("b"), follow_ups=[later()], plan=None)
    taken = later(key=own.follow_ups[0].key)
    again = await seal_held(sink, await sink.hold("c"), follow_ups=[taken], plan=None)
    assert not again.follow_ups[0].duplicate


async def test_a_chain_has_one_root_and_gets_deeper(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a", "c")
    root = held.turn
    for depth in range(1, 4):
        sealed = await seal_held(sink, held, follow_ups=[later(str(depth), "c")], plan=None)
        await sink.due()
        held = await sink.claim_one()
        assert held.turn == sealed.follow_ups[0].turn
        row = await admin.fetchrow("select root, depth from sink.turn where id = $1", held.turn)
        assert tuple(row or ()) == (root, depth)


async def test_a_follow_up_joins_nobody_and_nobody_joins_it(sink: Sink, travel: "Travel") -> None:
    held = await sink.hold("a", "c")
    await seal_held(sink, held, follow_ups=[later("later", "c")], plan=None)
    await sink.accept(short("before", "c"))
    await sink.due()
    await sink.accept(short("after", "c"), short("after too", "c"))
    await travel(3)
    said = []
    for _ in range(3):
        claimed = await sink.claim_one()
        said.append([one.body for one in claimed.inbound])
        await sink.seal_one(claimed)
    assert said == [[b'"before"'], [b'"later"'], [b'"after"', b'"after too"']]


async def test_a_follow_up_waits_for_its_conversation_like_any_turn(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    await sink.accept(arrival("b", "c"))
    sealed = await seal_held(sink, held, follow_ups=[later("later", "c")], plan=None)
    await sink.due()
    assert await sink.state(sealed.follow_ups[0].turn) == "waiting"


async def test_a_follow_up_can_be_cancelled_before_it_is_due(sink: Sink, travel: "Travel") -> None:
    held = await sink.hold("a")
    asked = [later(delay_seconds=10.0)]
    sealed = await seal_held(sink, held, follow_ups=asked, plan=None)
    assert only(await sink.cancel(sealed.follow_ups[0].turn)).state == "cancelled"
    await travel(11)
    assert await sink.due() == []
