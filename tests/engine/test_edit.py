"""A person makes of a held set what is to leave: what stays keeps its key, and what was drafted is kept, too."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from app.domain.model import AlreadyDecided, DraftMessage, EditedMessage, UnknownMessage
from tests.engine.held_stories import decide, decide_one, deciding, later, seal_held
from tests.engine.stories import Sink, draft, only

if TYPE_CHECKING:
    from tests.database import Admin


async def test_an_edit_is_a_set_of_its_own_and_both_are_kept(sink: Sink, admin: "Admin") -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=[later(key="k")])
    done = await decide_one(sink, held.turn, sealed.payload_hash, edited=[draft("better", "c")])
    assert done.hold.decision == "edit"
    assert done.hold.payload_hash == sealed.payload_hash
    assert done.hold.new_hash not in (None, sealed.payload_hash)
    assert [one.state for one in done.follow_ups] == ["scheduled"]
    assert [one.turn for one in done.follow_ups] == [one.turn for one in sealed.follow_ups]
    view = await sink.look(held.turn)
    assert (view.state, view.payload_hash) == (
        "sealed",
        bytes.fromhex((done.hold.new_hash or "").removeprefix("sha256:")),
    )
    rows = await admin.fetch(
        "select o.seal, o.state, p.key, p.body from sink.outbox as o"
        " inner join sink.outbox_payload as p on p.message = o.id order by o.seal"
    )
    key = sealed.messages[0].key
    assert [tuple(row) for row in rows] == [
        (1, "cancelled", key, b"1"),
        (2, "pending", key, b"better"),
    ]
    assert [one.body for one in await sink.take()] == [b"better"]
    told = only(await decide(sink, deciding(held.turn, done.hold.new_hash or "")))
    assert isinstance(told, AlreadyDecided)


def _texts(*texts: str, **changes: Any) -> list[DraftMessage]:
    return [draft(text, "c", **changes) for text in texts]


async def _keys(sink: Sink, *edited: DraftMessage | EditedMessage) -> list[int | None]:
    """Which of the held messages `a`, `b` to ann, and `c` to chat each message of an edit keeps the key of."""
    held = await sink.hold(str(uuid4()), "c")
    before = [*_texts("a"), *_texts("b", recipient="ann"), *_texts("c", destination="chat")]
    sealed = await seal_held(sink, held, *before)
    keys = [one.key for one in sealed.messages]
    named = [
        replace(one, replaces=sealed.messages[one.replaces.int].id)
        if isinstance(one, EditedMessage) and one.replaces is not None
        else one
        for one in edited
    ]
    done = await decide_one(sink, held.turn, sealed.payload_hash, edited=named)
    return [keys.index(one.key) if one.key in keys else None for one in done.messages]


async def test_a_message_that_stays_keeps_its_key_wherever_it_stands(sink: Sink) -> None:
    a, b, c = _texts("a")[0], _texts("b", recipient="ann")[0], _texts("c", destination="chat")[0]
    assert await _keys(sink, a, b, c) == [0, 1, 2]
    assert await _keys(sink, c, b, a) == [2, 1, 0]
    assert await _keys(sink, b) == [1]
    assert await _keys(sink) == []


async def test_a_message_that_was_changed_keeps_the_key_of_the_one_to_the_same_address(
    sink: Sink,
) -> None:
    assert await _keys(sink, *_texts("new")) == [0]
    assert await _keys(sink, *_texts("new", recipient="ann")) == [1]
    assert await _keys(sink, *_texts("new", "a")) == [None, 0]


async def test_a_message_that_was_added_has_a_key_of_its_own(sink: Sink) -> None:
    assert await _keys(sink, *_texts("x", "y")) == [0, None]
    assert await _keys(sink, *_texts("x", destination="mail")) == [None]
    assert await _keys(sink, *_texts("a", "a")) == [0, None]


async def test_a_message_keeps_the_key_of_the_one_that_it_names(sink: Sink) -> None:
    (text,) = _texts("a")
    assert await _keys(sink, EditedMessage(text, UUID(int=1)), text) == [1, 0]
    assert await _keys(sink, text, EditedMessage(text, UUID(int=0))) == [None, 0]
    assert await _keys(sink, EditedMessage(draft("moved", "d"), UUID(int=2))) == [2]


async def test_an_edit_names_messages_of_the_held_set_alone_and_each_once(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"))
    mine = EditedMessage(draft("1", "c"), sealed.messages[0].id)
    foreign = EditedMessage(draft("1", "c"), uuid4())
    for messages in ([mine, mine], [mine, foreign]):
        edit = deciding(held.turn, sealed.payload_hash, edited=messages)
        assert await decide(sink, edit) == [UnknownMessage(1)]
    assert await sink.states(held.turn) == ["held"]


async def test_an_edit_to_nothing_replies_and_lets_what_follows_go(sink: Sink) -> None:
    held = await sink.hold("a", "c")
    sealed = await seal_held(sink, held, draft("1", "c"), follow_ups=[later()])
    done = await decide_one(sink, held.turn, sealed.payload_hash, edited=[])
    assert (done.state, done.messages) == ("replied", [])
    assert [one.state for one in done.follow_ups] == ["scheduled"]
