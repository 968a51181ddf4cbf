"""Search: page after page gives exactly what matches, newest first, each once, however little a page may look at."""

import os
from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.domain.ids import IdFactory
from app.domain.lifecycle import MessageState, TurnState
from app.domain.model import HoldPlan
from app.engine.inspect import MessageView
from app.engine.search_messages import MessageFilter, search_messages
from app.engine.search_turns import TurnFilter, search_turns
from app.engine.standing import TurnView
from tests.engine.held_stories import decide, deciding, expire, later, seal_held
from tests.engine.stories import DEAD, DELIVERED, UNKNOWN, Sink, arrival, draft, returning, short

if TYPE_CHECKING:
    from tests.conftest import Travel
    from tests.database import Admin

PAGES_MAX = 200
ROUNDS = 6
QUEUES = ("default", "support")
# Pages that may look at whatever they need, and pages that may look at next to nothing.
BOUNDS = pytest.mark.parametrize(
    "bounds", [{}, {"walk_max": 4, "gather_max": 0}], ids=["wide", "narrow"]
)
Bounds = dict[str, int]
Wanted = dict[str, Any]


ENDED_WITH = (
    "replied",
    "failed",
    "undelivered",
    "cancelled",
    "sealed",
    "processing",
    "parked",
    "held",
    "escalated",
)


@pytest.fixture
async def busy(sink: Sink, travel: "Travel") -> Sink:
    """Turns in every state, in two queues, and their messages in every state but one."""
    for n in range(ROUNDS):
        queue = QUEUES[n % 2]
        for state in ENDED_WITH:
            await sink.accept(arrival(f"{state}-{n}", f"{state}{n % 3}", queue=queue, priority=100))
            (held,) = await sink.claim(queue=queue)
            sets = (draft("1"), draft("2", destination="pager"), draft("3", destination="pager"))
            if state == "failed":
                await sink.release(returning(held, final=True))
            elif state == "cancelled":
                await sink.cancel(held.turn)
            elif state == "sealed":
                await sink.seal_one(held, *sets, draft("4", delay_seconds=3600.0))
                await sink.take(destination="pager")
                (message, *_) = (await sink.look(held.turn)).messages
                await sink.cancel_messages(message.id)
            elif state == "parked":
                assert await sink.park_one(held) == "parked"
            elif state in ("held", "escalated"):
                seconds = 1.0 if state == "escalated" else 86_400.0
                await seal_held(sink, held, *sets, plan=HoldPlan("queue", seconds, "escalate"))
            elif state != "processing":
                verdict = DELIVERED if state == "replied" else (DEAD, UNKNOWN)[n % 4 // 2]
                await sink.seal_one(held, *sets)
                (taken,) = await sink.take()
                await sink.settle((taken, verdict))
                for _ in range(2):
                    (taken,) = await sink.take(destination="pager")
                    await sink.settle((taken, DELIVERED))
        await sink.accept(
            arrival(f"head-{n}", f"c{n % 3}", queue=queue),
            arrival(f"tail-{n}", f"c{n % 3}", queue=queue),
            arrival(f"later-{n}", queue=queue, delay_seconds=3600.0),
        )
    await travel(2)
    await expire(sink)
    return sink


async def _turns(sink: Sink, limit: int = 3, *, bounds: Bounds, **wanted: Any) -> list[TurnView]:
    found: list[TurnView] = []
    before: UUID | None = None
    for _ in range(PAGES_MAX):
        items, before = await search_turns(
            sink.pool, TurnFilter(**wanted), limit=limit, before=before, **bounds
        )
        assert len(items) <= limit
        found += items
        if before is None:
            return found
    raise AssertionError("the pages do not end")


async def _messages(
    sink: Sink, limit: int = 3, *, bounds: Bounds, **wanted: Any
) -> list[MessageView]:
    found: list[MessageView] = []
    before: UUID | None = None
    for _ in range(PAGES_MAX):
        items, before = await search_messages(
            sink.pool, MessageFilter(**wanted), limit=limit, before=before, **bounds
        )
        assert len(items) <= limit
        found += items
        if before is None:
            return found
    raise AssertionError("the pages do not end")


async def _true_ids(admin: "Admin", table: str, **wanted: Any) -> list[UUID]:
    rows = await admin.fetch(f"select * from sink.{table} order by id desc")
    return [
        row["id"]
        for row in rows
        if (wanted.get("queues") is None or row["queue"] in wanted["queues"])
        and (wanted.get("states") is None or row["state"] in wanted["states"])
        and all(
            row[name] == wanted[name]
            for name in ("conversation", "destination", "turn", "root", "about")
            if name in wanted
        )
    ]


STATES = [
    None,
    *({state} for state in TurnState),
    {"failed", "sealed"},
    {"held", "escalated"},
    {"parked", "queued", "cancelled"},
    {"queued", "waiting", "processing"},
    {"scheduled", "undelivered"},
    {"replied", "queued"},
]


@BOUNDS
async def test_turns_are_found_by_state_and_queue(
    busy: Sink, admin: "Admin", bounds: Bounds
) -> None:
    for states, queues in product(STATES, (None, ["support"], ["default", "support"], ["nobodys"])):
        wanted: Wanted = {
            "states": None if states is None else frozenset(states), "queues": queues,
        }  # fmt: skip
        found = [turn.id for turn in await _turns(busy, bounds=bounds, **wanted)]
        assert found == await _true_ids(admin, "turn", **wanted), wanted
    assert {row["state"] for row in await admin.fetch("select state from sink.turn")} == set(
        TurnState
    )


@BOUNDS
@pytest.mark.parametrize("states", [None, frozenset({"scheduled"}), frozenset({"replied", "held"})])
async def test_turns_are_found_by_what_they_came_of_and_by_what_they_tell_of(
    sink: Sink, admin: "Admin", bounds: Bounds, states: frozenset[str] | None
) -> None:
    held = await sink.hold("a", "c")
    follow_ups = [later(str(n), "c", delay_seconds=n % 2 * 60.0) for n in range(6)]
    sealed = await seal_held(sink, held, draft(), follow_ups=follow_ups)
    await decide(sink, deciding(held.turn, sealed.payload_hash))
    await sink.due()
    for _ in range(2):
        child = await sink.claim_one()
        grandchild = await seal_held(sink, child, follow_ups=[later("deeper", "d")], plan=None)
        assert grandchild.state == "replied"
    await sink.settle_next(DEAD)
    await sink.escalate()
    await sink.accept_one("other", "c")
    (told,) = await _true_ids(admin, "turn", about=held.turn)
    for queues, conversation in product((None, ["default"], ["nobodys"]), (None, "d")):
        for related in ({"root": held.turn}, {"about": held.turn}):
            wanted: Wanted = {"states": states, "queues": queues, **related}
            wanted |= {} if conversation is None else {"conversation": conversation}
            found = [turn.id for turn in await _turns(sink, bounds=bounds, **wanted)]
            assert found == await _true_ids(admin, "turn", **wanted), wanted
    assert len(await _turns(sink, bounds=bounds, queues=None, root=held.turn)) == 8
    (view,) = await _turns(sink, bounds=bounds, queues=None, about=held.turn)
    assert (view.id, view.about, view.inbound) == (told, held.turn, None)
    both = await _turns(sink, bounds=bounds, queues=None, root=held.turn, about=held.turn)
    assert both == []


@BOUNDS
@pytest.mark.parametrize("states", [None, frozenset({"waiting"}), frozenset({"failed", "replied"})])
async def test_turns_are_found_by_conversation_over_the_queues_that_may_be_seen(
    busy: Sink, admin: "Admin", bounds: Bounds, states: frozenset[str] | None
) -> None:
    for conversation, queues in product(("c1", "failed0", "nobodys"), (None, ["support"])):
        wanted: Wanted = {"conversation": conversation, "queues": queues, "states": states}
        found = [turn.id for turn in await _turns(busy, 1, bounds=bounds, **wanted)]
        assert found == await _true_ids(admin, "turn", **wanted), wanted


async def test_a_turn_that_gathered_many_inbound_is_found_once(sink: Sink) -> None:
    for n in range(5):
        await sink.accept(short(f"k{n}"))
    (turn,) = await _turns(sink, bounds={}, queues=None, conversation="c")
    for n in range(5):
        (by_key,) = await _turns(sink, bounds={}, queues=None, key=f"k{n}")
        assert by_key == turn


async def test_a_key_finds_its_turn_in_each_queue_that_may_be_seen(sink: Sink) -> None:
    turns = {
        queue: (await sink.accept_one("order-1", queue=queue)).turn
        for queue in ("default", "other", "support")
    }
    await sink.accept_one("order-2", "c")
    found = await _turns(sink, 1, bounds={}, queues=None, key="order-1")
    assert [turn.id for turn in found] == sorted(turns.values(), reverse=True)
    (one,) = await _turns(sink, bounds={}, queues=["other"], key="order-1")
    assert one.id == turns["other"]
    wanted: Wanted = {"queues": ["default"], "key": "order-1"}
    assert await _turns(sink, bounds={}, states=frozenset({"failed"}), **wanted) == []
    assert await _turns(sink, bounds={}, conversation="c", **wanted) == []
    assert await _turns(sink, bounds={}, queues=None, key="order-3") == []


MESSAGE_STATES = [
    None,
    *({state} for state in MessageState),
    {"dead", "unknown"},
    {"pending", "cancelled"},
    {"delivered", "sending"},
]


@BOUNDS
async def test_messages_are_found_by_state_queue_and_destination(
    busy: Sink, admin: "Admin", bounds: Bounds
) -> None:
    for states, queues, where in product(
        MESSAGE_STATES, (None, ["support"], ["nobodys"]), ({}, {"destination": "pager"})
    ):
        wanted: Wanted = {
            "states": None if states is None else frozenset(states), "queues": queues, **where,
        }  # fmt: skip
        found = [message.id for message in await _messages(busy, bounds=bounds, **wanted)]
        assert found == await _true_ids(admin, "outbox", **wanted), wanted
    assert {row["state"] for row in await admin.fetch("select state from sink.outbox")} == set(
        MessageState
    )


async def test_the_messages_of_a_turn_are_found(busy: Sink, admin: "Admin") -> None:
    (turn, *_) = await _turns(busy, bounds={}, queues=None, states=frozenset({"undelivered"}))
    wanted: Wanted = {"turn": turn.id, "queues": None}
    found = [message.id for message in await _messages(busy, 2, bounds={}, **wanted)]
    assert found == await _true_ids(admin, "outbox", **wanted)
    assert await _messages(busy, bounds={}, turn=turn.id, queues=["nobodys"]) == []


async def test_a_page_that_finds_nothing_in_what_it_may_look_at_says_where_to_go_on(
    sink: Sink,
) -> None:
    wanted = await sink.accept_one("a", queue="support")
    for n in range(20):
        await sink.accept_one(f"k{n}")
    items, before = await search_turns(
        sink.pool, TurnFilter(queues=["support"]), limit=10, walk_max=8
    )
    assert items == []
    assert before is not None
    # Not the id of a turn that is not to be seen: only when it was.
    assert before.int % (1 << 80) == 0
    found = await _turns(sink, bounds={"walk_max": 8}, queues=["support"])
    assert [turn.id for turn in found] == [wanted.turn]


async def test_a_walk_passes_more_turns_of_one_moment_than_it_looks_at(
    sink: Sink, admin: "Admin"
) -> None:
    sink.ids = IdFactory(milliseconds=lambda: 1_700_000_000_000, random_bytes=os.urandom)
    await sink.accept(*(arrival(f"k{n}") for n in range(20)))
    found = await _turns(sink, bounds={"walk_max": 3}, queues=["default"])
    assert [turn.id for turn in found] == await _true_ids(admin, "turn")
    assert len(found) == 20
